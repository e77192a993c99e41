//! The page with the figures, and the figures themselves.

use crate::report::Report;
use crate::sessions::lock;
use anyhow::{Context, Result};
use axum::Router;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, HOST};
use axum::middleware::{Next, from_fn};
use axum::response::{Html, IntoResponse, Json};
use axum::routing::get;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};
use tokio::net::TcpListener;

const PAGE: &str = include_str!("page.html");
/// Names of events come from clients: nothing but the page's own script runs.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// A name of another site may lead here: its pages must not read the figures.
fn is_ours(host: &str, named: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let address = name.trim_start_matches('[').trim_end_matches(']');
    name == "localhost" || name == named || address.parse::<IpAddr>().is_ok()
}

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
    let named = address
        .rsplit_once(':')
        .map_or(address, |(host, _)| host)
        .to_owned();
    let router = Router::new()
        .route(
            "/",
            get(|| async { ([(CONTENT_SECURITY_POLICY, POLICY)], Html(PAGE)) }),
        )
        .route("/report.json", get(figures))
        .layer(from_fn(move |request: Request, next: Next| {
            let host = request
                .headers()
                .get(HOST)
                .and_then(|host| host.to_str().ok());
            let is_ours = host.is_some_and(|host| is_ours(host, &named));
            async move {
                match is_ours {
                    true => next.run(request).await,
                    false => (
                        StatusCode::FORBIDDEN,
                        "ask by the address, by localhost or by the name in --page\n",
                    )
                        .into_response(),
                }
            }
        }));
    tokio::spawn(async move { axum::serve(listener, router).await });
    Ok(own)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_of_other_sites_do_not_read_the_figures() {
        for host in [
            "127.0.0.1:9191",
            "localhost",
            "[::1]:80",
            "figures.example:9191",
        ] {
            assert!(is_ours(host, "figures.example"), "{host}");
        }
        for host in ["evil.example:9191", "", "127.0.0.1.evil.example"] {
            assert!(!is_ours(host, "figures.example"), "{host}");
        }
    }
}
