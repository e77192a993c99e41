//! An endpoint that is called: one HTTP request for each call, signed, and what its answer wants.

mod addresses;
mod answer;
mod body;
mod failed;
mod signature;

use addresses::{Guard, is_public};
use answer::Fault;
use backend::{Call, Calling, Outcome};
use failed::Answer;
pub(super) use failed::Failed;
use identity::Secret;
use process::causes;
use reqwest::header::CONTENT_TYPE;
use reqwest::{Client, Response, StatusCode, Url, redirect};
use rules::{Span, TraceParent};
pub(super) use signature::Signer;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

/// An answer holds commands, not data.
const ANSWER_BYTES_MAX: usize = 64 << 10;
const EVENT_ID: &str = "sockeye-event-id";
const TRACEPARENT: &str = "traceparent";
const SIGNATURE: &str = "sockeye-signature";

/// `[backends.NAME]` with `url`.
#[derive(Clone, Debug, PartialEq)]
pub struct Webhook {
    pub url: String,
    /// Each request is signed with all of them.
    pub secrets: Vec<Secret>,
    /// The endpoint may have an address that is not on the Internet, and may be without TLS.
    pub private: bool,
    /// A call that takes longer has failed.
    pub timeout: Duration,
    pub calling: Calling,
}

impl Webhook {
    /// Says what is wrong with it.
    ///
    /// # Errors
    /// The message names the setting.
    pub fn check(&self) -> Result<(), String> {
        Endpoint::new(self).map(drop)
    }
}

pub(super) struct Endpoint {
    url: Url,
    client: Client,
    signer: Signer,
}

impl Endpoint {
    pub(super) fn new(webhook: &Webhook) -> Result<Self, String> {
        let url = check_url(&webhook.url, webhook.private)?;
        let mut client = Client::builder()
            .timeout(webhook.timeout)
            .redirect(redirect::Policy::none())
            // A proxy would connect to an address that nobody has checked.
            .no_proxy()
            .https_only(!webhook.private)
            .user_agent(concat!("sockeye/", env!("CARGO_PKG_VERSION")));
        if !webhook.private {
            client = client.dns_resolver(Arc::new(Guard));
        }
        let client = client.build();
        let client = client.map_err(|error| format!("cannot prepare TLS: {}", causes(&error)))?;
        let signer = Signer::new(&webhook.secrets);
        Ok(Self {
            url,
            client,
            signer,
        })
    }

    /// The one that signs its requests.
    pub(super) fn signer(&self) -> Signer {
        self.signer.clone()
    }

    /// Makes one request. Says why it came to nothing, and how long it took.
    pub(super) async fn call(
        &self,
        call: &Call,
        span: Option<&Span>,
    ) -> (Outcome, Option<Failed>, Duration) {
        let began = Instant::now();
        let body = body::of(&call.news);
        let sent = self.send(&call.news, body, span).await;
        let until_head = began.elapsed();
        match sent {
            Ok(response) if response.status().is_success() => {
                let (outcome, failed) = read(call, response).await;
                (outcome, failed, began.elapsed())
            }
            // The body is for operators.
            Ok(response) => {
                let (outcome, failed) = read_refusal(response).await;
                (outcome, Some(failed), until_head)
            }
            Err(error) => {
                let failed = Failed::without_answer(causes(&error));
                (Outcome::Failed, Some(failed), until_head)
            }
        }
    }

    async fn send(
        &self,
        news: &[backend::News],
        body: Vec<u8>,
        span: Option<&Span>,
    ) -> Result<Response, reqwest::Error> {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let seconds = now.unwrap_or_default().as_secs();
        let mut request = self.client.post(self.url.clone());
        request = request.header(CONTENT_TYPE, "application/json");
        if let Some(first) = news.first() {
            request = request.header(EVENT_ID, body::id(first));
        }
        // Of several events each has its own, in the body.
        let trace = match (span, news) {
            (Some(span), _) => span.context.to_string(),
            (None, [only]) => body::traceparent(only).to_owned(),
            _ => String::new(),
        };
        if !trace.is_empty() {
            request = request.header(TRACEPARENT, trace);
        }
        if let Some(signature) = self.signer.sign(seconds, &body) {
            request = request.header(SIGNATURE, signature);
        }
        request.body(body).send().await
    }
}

async fn read_refusal(response: Response) -> (Outcome, Failed) {
    let status = response.status();
    let again = status.is_server_error()
        || matches!(
            status,
            StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_EARLY | StatusCode::TOO_MANY_REQUESTS
        );
    let why = match status.is_redirection() {
        true => format!("the answer is {status}, and redirects are not followed"),
        false => format!("the answer is {status}"),
    };
    let failed = Failed::with(why, Answer::begin(response).await);
    match again {
        true => (Outcome::Failed, failed),
        false => (Outcome::Refused, failed),
    }
}

async fn read(call: &Call, response: Response) -> (Outcome, Option<Failed>) {
    let head = failed::head(&response);
    match read_body(response).await {
        Ok(body) => {
            let (outcome, why) = judge(call, &body);
            let failed = why.map(|why| Failed::with(why, Answer::read(head, &body)));
            (outcome, failed)
        }
        Err(error) => {
            let failed = Failed::without_answer(causes(&error));
            (Outcome::Failed, Some(failed))
        }
    }
}

/// What a status of success and this content say. About a client's entry only an answer of ours decides: a page that asks to log in
/// comes with 200, too.
fn judge(call: &Call, body: &[u8]) -> (Outcome, Option<String>) {
    let body = body.trim_ascii();
    if body.is_empty() {
        return (Outcome::Taken(Vec::new()), None);
    }
    let read = match body.len() > ANSWER_BYTES_MAX {
        true => Err(too_long(body)),
        false => answer::read(body, &call.news),
    };
    let decides = call.news.iter().any(|news| news.decides);
    match read {
        Ok(commands) => (Outcome::Taken(commands), None),
        // Many servers say `OK` in words.
        Err(Fault::NoAnswer(why)) if !decides => (
            Outcome::Unread,
            Some(format!("the content is no answer: {why}")),
        ),
        Err(Fault::NoAnswer(why) | Fault::Wrong(why)) => (
            Outcome::Refused,
            Some(format!("cannot use the answer: {why}")),
        ),
    }
}

fn too_long(body: &[u8]) -> Fault {
    let why = format!("it is longer than {ANSWER_BYTES_MAX} bytes");
    match body.starts_with(b"{") {
        true => Fault::Wrong(why),
        false => Fault::NoAnswer(why),
    }
}

/// Of a content that is too long, what shows that.
async fn read_body(mut response: Response) -> Result<Vec<u8>, reqwest::Error> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await? {
        // White space in front says nothing.
        let more = if body.is_empty() {
            chunk.trim_ascii_start()
        } else {
            &chunk
        };
        let most = (ANSWER_BYTES_MAX + 1).saturating_sub(body.len());
        body.extend_from_slice(&more[..more.len().min(most)]);
        if body.len() > ANSWER_BYTES_MAX {
            break;
        }
    }
    Ok(body)
}

/// The trace of a call: that of its first event that has one.
pub(super) fn parent(call: &Call) -> Option<TraceParent> {
    let mut all = call.news.iter();
    all.find_map(|news| TraceParent::parse(body::traceparent(news)))
}

/// Checks an address as far as it can be without asking anybody.
fn check_url(text: &str, private: bool) -> Result<Url, String> {
    let refuse = |why: &str| format!("cannot use {text:?}: {why}");
    let url = Url::parse(text).map_err(|error| refuse(&error.to_string()))?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err("cannot use an address with user and password: it would stand in logs".into());
    }
    let host = url.host_str().unwrap_or_default();
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let literal = host.parse::<IpAddr>();
    if !private && literal.is_ok_and(|address| !is_public(address)) {
        let why = "this is no address on the Internet; set private_addresses if the endpoint is in your own network";
        return Err(refuse(why));
    }
    match url.scheme() {
        "https" => Ok(url),
        "http" if private => Ok(url),
        "http" => Err(refuse(
            "https is needed, but for endpoints in your own network (private_addresses)",
        )),
        _ => Err(refuse("an https address is needed")),
    }
}
