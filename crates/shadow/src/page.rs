//! The page with the figures, and the figures themselves.

use crate::report::Report;
use crate::sessions::lock;
use anyhow::{Context, Result};
use axum::Router;
use axum::http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY};
use axum::response::{Html, IntoResponse, Json};
use axum::routing::get;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use tokio::net::TcpListener;

const PAGE: &str = include_str!("page.html");
/// Names of events come from clients: nothing but the page's own script runs.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Serves until the process ends. Returns its address.
pub async fn open(address: &str, shown: Arc<Mutex<Report>>) -> Result<SocketAddr> {
    let listener = TcpListener::bind(address).await;
    let listener = listener.with_context(|| {
        format!("cannot listen on {address}: name another address with --page, or `off`")
    })?;
    let own = listener.local_addr()?;
    let figures = move || {
        let report = lock(&shown).clone();
        async move { ([(CACHE_CONTROL, "no-store")], Json(report)).into_response() }
    };
    let router = Router::new()
        .route(
            "/",
            get(|| async { ([(CONTENT_SECURITY_POLICY, POLICY)], Html(PAGE)) }),
        )
        .route("/report.json", get(figures));
    tokio::spawn(async move { axum::serve(listener, router).await });
    Ok(own)
}
