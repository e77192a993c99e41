//! A call that failed, as operators may see it: what was in it, and what came back. Secrets of clients are left out.

use super::body;
use backend::Call;
use backend::proto::item::What;
use bridge::Said;
use reqwest::Response;
use reqwest::header::CONTENT_TYPE;
use std::time::Duration;
use tokio::time::timeout;

/// Bytes of an answer that are kept.
const ANSWER_BYTES: usize = 4 << 10;
/// The body of an answer without success is waited for so long: what depends on the call waits, too. Most come with their heads.
const READ: Duration = Duration::from_millis(100);
/// Events that are named.
const NAMED: usize = 8;

/// Why a call came to nothing, and what was said.
#[derive(Debug)]
pub(crate) struct Failed {
    pub(crate) why: String,
    answer: Option<Answer>,
}

/// The beginning of an answer.
#[derive(Debug)]
pub(super) struct Answer {
    /// Status and type.
    names: String,
    bytes: usize,
    body: Vec<u8>,
}

impl Failed {
    pub(super) fn without_answer(why: String) -> Self {
        Self { why, answer: None }
    }

    pub(super) fn with(why: String, answer: Answer) -> Self {
        let answer = Some(answer);
        Self { why, answer }
    }

    /// For the list of failures.
    pub(crate) fn said(&self, call: &Call) -> Vec<Said> {
        let (sent, shown) = (body::of(&call.news).len(), body::shown(&call.news));
        let request = Said::part_of("request", &names(call), &shown, sent);
        let mut items = call.news.iter().map(|news| &news.item.what);
        let decides = items.any(|what| matches!(what, Some(What::Connect(_))));
        let answer = self.answer.iter().map(|answer| {
            let Answer { names, bytes, body } = answer;
            match decides {
                // It may say again what the client proved itself with.
                true => Said::without_body("answer", names, *bytes),
                false => Said::part_of("answer", names, body, *bytes),
            }
        });
        [request].into_iter().chain(answer).collect()
    }
}

impl Answer {
    /// Of an answer whose body was read.
    pub(super) fn read(head: String, body: &[u8]) -> Self {
        Self {
            names: head,
            bytes: body.len(),
            body: body[..body.len().min(ANSWER_BYTES)].to_vec(),
        }
    }

    /// Reads the beginning of one, and not for long: it may never end.
    pub(super) async fn begin(mut response: Response) -> Self {
        let (names, length) = (head(&response), response.content_length());
        let mut body = Vec::new();
        let reading = async {
            while body.len() < ANSWER_BYTES
                && let Ok(Some(chunk)) = response.chunk().await
            {
                let room = ANSWER_BYTES - body.len();
                body.extend_from_slice(&chunk[..chunk.len().min(room)]);
            }
        };
        // What came until then is shown.
        let _ = timeout(READ, reading).await;
        Self {
            names,
            bytes: length.map_or(body.len(), |length| length as usize),
            body,
        }
    }
}

/// Status and type of an answer.
pub(super) fn head(response: &Response) -> String {
    let kind = response.headers().get(CONTENT_TYPE);
    let kind = kind.map(|kind| String::from_utf8_lossy(kind.as_bytes()));
    let kind = kind.map(|kind| format!(", {kind}"));
    format!("{}{}", response.status(), kind.unwrap_or_default())
}

/// What is in a call.
fn names(call: &Call) -> String {
    let one = |news: &backend::News| match &news.item.what {
        Some(What::Connect(_)) => "CONNECT".to_owned(),
        Some(What::Event(event)) => event.event.clone(),
        Some(What::Gone(_)) => "an end".to_owned(),
        Some(What::NodeGone(_)) => "the end of a node".to_owned(),
        _ => "news".to_owned(),
    };
    let all: Vec<String> = call.news.iter().take(NAMED).map(one).collect();
    let more = match call.news.len().checked_sub(NAMED) {
        None | Some(0) => String::new(),
        Some(more) => format!(", and {more} more"),
    };
    format!("{}{more}", all.join(", "))
}
