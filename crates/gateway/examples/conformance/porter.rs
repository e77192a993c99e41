//! `--porter`: whether a request may open a session is decided as its header `X-Opening` says: `{"refuse": true}` at once, with
//! `"after": 300` so many milliseconds later. Answers get header lines: the cookie `io` with the first, `X-Answer` with all.

use hub::{AnswerHeaders, Context, Opening, OpeningKey, Request};
use serde_json::Value;
use std::collections::HashMap;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(10);
/// Tokens of ours have it, those of [`crate::late`] do not.
const OURS: u64 = 1 << 63;

/// Requests that are not decided about.
#[derive(Debug, Default)]
pub(crate) struct Porter {
    held: HashMap<u64, OpeningKey>,
    asked: u64,
}

fn decided(admits: bool) -> Opening {
    match admits {
        true => Opening::Accept,
        false => Opening::Refuse("not you".to_owned()),
    }
}

impl Porter {
    pub(crate) fn opening(&mut self, cx: &mut Context<'_>, request: &Request<'_>) -> Opening {
        let Some(wish) = request.header("x-opening") else {
            return Opening::Accept;
        };
        let parsed: Value = serde_json::from_slice(wish).unwrap_or_default();
        if parsed["after"].is_null() {
            return decided(parsed["refuse"] != true);
        }
        self.asked += 1;
        if !cx.ask_outside(wish.into(), PATIENCE, OURS | self.asked) {
            return Opening::Refuse("too many wait".to_owned());
        }
        self.held.insert(OURS | self.asked, request.key());
        Opening::Later
    }

    pub(crate) fn answering(opens: Option<&str>, headers: &mut AnswerHeaders) {
        let cookie = opens.map(|sid| format!("io={sid}; Path=/; HttpOnly; SameSite=Lax"));
        let lines = [("Set-Cookie", cookie), ("X-Answer", Some("yes".to_owned()))];
        for (name, value) in lines {
            // Both are header lines as RFC 9110 wants them.
            let _ = value.map(|value| headers.add(name, &value));
        }
    }

    /// `false`: the question was another's.
    pub(crate) fn answered(
        &mut self,
        cx: &mut Context<'_>,
        token: u64,
        answer: Option<&[u8]>,
    ) -> bool {
        if let Some(key) = self.held.remove(&token) {
            cx.decide_opening(key, decided(answer == Some(b"yes")));
        }
        token & OURS != 0
    }
}
