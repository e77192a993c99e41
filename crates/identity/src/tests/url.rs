//! The key set of a URL: a real server on loopback that publishes, rotates, fails and lies.

use super::super::rejection::Rejection;
use super::*;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use hyper::body::Frame;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

/// An identity provider.
struct Provider {
    url: String,
    site: Arc<Site>,
    task: tokio::task::JoinHandle<()>,
}

struct Site {
    answer: Mutex<Answer>,
    asked: AtomicUsize,
}

#[derive(Clone)]
enum Answer {
    Keys(String),
    Status(StatusCode),
    Redirect,
    /// Without a length, so that only counting helps.
    Endless,
}

impl Provider {
    async fn start(answer: Answer) -> Self {
        let site = Arc::new(Site {
            answer: Mutex::new(answer),
            asked: AtomicUsize::new(0),
        });
        let routes = axum::Router::new()
            .route("/keys", get(answer_keys))
            .route(
                "/other",
                get(|State(site): State<Arc<Site>>| async move {
                    site.asked.fetch_add(100, Ordering::SeqCst);
                }),
            )
            .with_state(Arc::clone(&site));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0")
            .await
            .expect("listen");
        let url = format!("http://{}/keys", listener.local_addr().expect("addr"));
        let task = tokio::spawn(async move {
            axum::serve(listener, routes).await.expect("serve");
        });
        Self { url, site, task }
    }

    fn answers(&self, answer: Answer) {
        *self.site.answer.lock().expect("answer") = answer;
    }

    fn asked(&self) -> usize {
        self.site.asked.load(Ordering::SeqCst)
    }

    fn verifier(&self, looks_every: Duration) -> Arc<Verifier> {
        let settings = Settings {
            jwks_url: Some(self.url.clone()),
            ..Settings::default()
        };
        Verifier::with_looks_every(settings, looks_every).expect("usable settings")
    }
}

impl Drop for Provider {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn answer_keys(State(site): State<Arc<Site>>) -> Response {
    site.asked.fetch_add(1, Ordering::SeqCst);
    let answer = site.answer.lock().expect("answer").clone();
    match answer {
        Answer::Keys(text) => text.into_response(),
        Answer::Status(status) => status.into_response(),
        Answer::Redirect => (StatusCode::FOUND, [(header::LOCATION, "/other")]).into_response(),
        Answer::Endless => Body::new(Endless(Bytes::from(vec![b' '; 64 * 1024]))).into_response(),
    }
}

struct Endless(Bytes);

impl hyper::body::Body for Endless {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(Some(Ok(Frame::data(self.0.clone()))))
    }
}

const LONG: Duration = Duration::from_secs(3_600);

#[tokio::test]
async fn the_first_token_waits_for_the_first_fetch() {
    let pair = Pair::new(Algorithm::ES256);
    let provider = Provider::start(Answer::Keys(set(&[pair.jwk(Some("a"))]))).await;
    let verifier = provider.verifier(LONG);
    for kid in [Some("a"), None] {
        assert!(
            verifier
                .verify(&pair.token(kid, &claims()), NOW)
                .await
                .is_ok()
        );
    }
    assert_eq!(provider.asked(), 1);
}

#[tokio::test]
async fn a_new_key_is_fetched_when_a_token_names_it_and_the_old_one_goes() {
    let (old, new) = (Pair::new(Algorithm::ES256), Pair::new(Algorithm::ES256));
    let provider = Provider::start(Answer::Keys(set(&[old.jwk(Some("old"))]))).await;
    let verifier = provider.verifier(Duration::ZERO);
    let old_token = old.token(Some("old"), &claims());
    assert!(verifier.verify(&old_token, NOW).await.is_ok());

    provider.answers(Answer::Keys(set(&[new.jwk(Some("new"))])));
    assert!(
        verifier.verify(&old_token, NOW).await.is_ok(),
        "nobody asked for another"
    );
    let new_token = new.token(Some("new"), &claims());
    assert!(verifier.verify(&new_token, NOW).await.is_ok());
    assert_eq!(denied(&verifier, &old_token).await, Some(Denied::Invalid));
}

#[tokio::test]
async fn unknown_names_cause_few_fetches() {
    let pair = Pair::new(Algorithm::ES256);
    let provider = Provider::start(Answer::Keys(set(&[pair.jwk(Some("a"))]))).await;
    let verifier = provider.verifier(LONG);
    for name in 0..50 {
        let token = pair.token(Some(&format!("unknown {name}")), &claims());
        let refused = verifier.explain(&token, NOW).await;
        assert!(
            matches!(refused, Err(Rejection::UnknownKey(_))),
            "{refused:?}"
        );
    }
    // One at the start, and three for fifty names.
    assert_eq!(provider.asked(), 4);
    verifier.reload();
    let unknown = pair.token(Some("unknown"), &claims());
    while provider.asked() < 5 {
        assert!(verifier.verify(&unknown, NOW).await.is_err());
        tokio::task::yield_now().await;
    }
}

/// Its tokens were invalid for up to half a minute, and chat clients were told not to come back.
#[tokio::test]
async fn a_key_published_a_moment_ago_was_unknown() {
    let (old, new) = (Pair::new(Algorithm::ES256), Pair::new(Algorithm::ES256));
    let provider = Provider::start(Answer::Keys(set(&[old.jwk(Some("old"))]))).await;
    let verifier = provider.verifier(LONG);
    assert!(
        verifier
            .verify(&old.token(Some("old"), &claims()), NOW)
            .await
            .is_ok()
    );
    provider.answers(Answer::Keys(set(&[
        old.jwk(Some("old")),
        new.jwk(Some("new")),
    ])));
    assert!(
        verifier
            .verify(&new.token(Some("new"), &claims()), NOW)
            .await
            .is_ok()
    );
    assert_eq!(provider.asked(), 2);
}

/// Below half a minute it was half a minute.
#[tokio::test]
async fn a_short_interval_between_fetches_was_not_kept() {
    let pair = Pair::new(Algorithm::ES256);
    let provider = Provider::start(Answer::Keys(set(&[pair.jwk(Some("a"))]))).await;
    let settings = Settings {
        jwks_url: Some(provider.url.clone()),
        jwks_refresh: Duration::from_millis(50),
        ..Settings::default()
    };
    let _verifier = Verifier::new(settings).expect("usable settings");
    let seen = async {
        while provider.asked() < 4 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let patience = tokio::time::timeout(Duration::from_secs(20), seen).await;
    assert!(patience.is_ok(), "asked {} times", provider.asked());
}

#[tokio::test]
async fn many_who_wait_cause_one_fetch() {
    let pair = Pair::new(Algorithm::ES256);
    let provider = Provider::start(Answer::Keys(set(&[pair.jwk(Some("a"))]))).await;
    let verifier = provider.verifier(LONG);
    let checks: Vec<_> = (0..100)
        .map(|_| {
            let (verifier, token) = (Arc::clone(&verifier), pair.token(Some("a"), &claims()));
            tokio::spawn(async move { verifier.verify(&token, NOW).await })
        })
        .collect();
    for check in checks {
        assert!(check.await.expect("task").is_ok());
    }
    assert_eq!(provider.asked(), 1);
}

#[tokio::test]
async fn without_the_provider_tokens_are_unavailable_until_it_answers() {
    let pair = Pair::new(Algorithm::ES256);
    let provider = Provider::start(Answer::Status(StatusCode::INTERNAL_SERVER_ERROR)).await;
    let verifier = provider.verifier(Duration::ZERO);
    let token = pair.token(Some("a"), &claims());
    assert_eq!(denied(&verifier, &token).await, Some(Denied::Unavailable));
    provider.answers(Answer::Keys(set(&[pair.jwk(Some("a"))])));
    assert!(verifier.verify(&token, NOW).await.is_ok());
}

#[tokio::test]
async fn stale_keys_stay_while_the_provider_fails() {
    let pair = Pair::new(Algorithm::ES256);
    let provider = Provider::start(Answer::Keys(set(&[pair.jwk(Some("a"))]))).await;
    let verifier = provider.verifier(Duration::ZERO);
    let token = pair.token(Some("a"), &claims());
    assert!(verifier.verify(&token, NOW).await.is_ok());
    let unknown = pair.token(Some("b"), &claims());
    for failure in [
        Answer::Status(StatusCode::NOT_FOUND),
        Answer::Keys("<html>".to_owned()),
        Answer::Keys(set(&[])),
        Answer::Redirect,
        Answer::Endless,
    ] {
        provider.answers(failure);
        let asked = provider.asked();
        assert_eq!(denied(&verifier, &unknown).await, Some(Denied::Unavailable));
        assert!(
            (asked + 1..asked + 100).contains(&provider.asked()),
            "no redirect is followed"
        );
        assert!(verifier.verify(&token, NOW).await.is_ok());
    }
}

#[tokio::test]
async fn an_address_where_nobody_listens_is_no_error_at_start() {
    let verifier = verifier(Settings {
        jwks_url: Some("http://127.0.0.1:1/keys".to_owned()),
        ..Settings::default()
    });
    let token = Pair::new(Algorithm::ES256).token(None, &claims());
    assert_eq!(denied(&verifier, &token).await, Some(Denied::Unavailable));
}

#[tokio::test]
async fn a_shared_secret_works_beside_a_provider_that_fails() {
    let provider = Provider::start(Answer::Status(StatusCode::BAD_GATEWAY)).await;
    let settings = Settings {
        jwks_url: Some(provider.url.clone()),
        ..with_secret()
    };
    let verifier = verifier(settings);
    assert!(verifier.verify(&signed(&claims()), NOW).await.is_ok());
}

#[test]
fn addresses_over_an_open_network_are_refused() {
    use super::super::remote::check_url;
    for good in [
        "https://id.example.org/keys",
        "http://localhost:1/keys",
        "http://127.0.0.9/keys",
        "http://[::1]:1/keys",
    ] {
        assert!(check_url(good).is_ok(), "{good}");
    }
    for bad in [
        "http://id.example.org/keys",
        "http://localhost.example.org/keys",
        "http://10.0.0.1/keys",
        "ftp://localhost/keys",
        "file:///etc/keys",
        "https://user:password@id.example.org/keys",
        "keys",
        "",
    ] {
        let error = check_url(bad).expect_err(bad);
        assert!(!error.to_string().contains("password@"), "{error}");
    }
}

#[tokio::test]
async fn results_fetches_and_keys_are_counted() {
    let pair = Pair::new(Algorithm::ES256);
    let provider = Provider::start(Answer::Keys(set(&[pair.jwk(Some("a"))]))).await;
    let verifier = provider.verifier(LONG);
    let good = pair.token(None, &claims());
    assert!(verifier.verify(&good, NOW).await.is_ok());
    assert!(verifier.verify("x", NOW).await.is_err());
    assert!(verifier.verify(&good, NOW + 3_600).await.is_err());
    let figures = verifier.figures();
    let counted: Vec<_> = figures
        .results
        .into_iter()
        .filter(|(_, count)| *count > 0)
        .collect();
    assert_eq!(counted, [("accepted", 1), ("malformed", 1), ("expired", 1)]);
    assert_eq!((figures.keys, figures.fetches), (1, (1, 0)));
    assert!(figures.age_s.is_some());
}
