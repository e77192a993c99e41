//! The namespace `/late`: whether a client may join is asked outside the shard, and answered after as many milliseconds as the
//! client's `auth` says: `{"after": 300, "refuse": false}`.

use hub::{Ask, ConnectRequest, Context, Decision, Refusal, Reply, Ticket};
use serde_json::Value;
use shard::Answerer;
use std::collections::HashMap;
use std::time::Duration;
use tokio::runtime::Handle;

pub(crate) const NAMESPACE: &str = "/late";
const PATIENCE: Duration = Duration::from_secs(10);

/// Clients who are not decided about.
#[derive(Debug, Default)]
pub(crate) struct Late {
    waiting: HashMap<u64, Ticket>,
    asked: u64,
}

impl Late {
    pub(crate) fn connecting(
        &mut self,
        cx: &mut Context<'_>,
        request: &ConnectRequest<'_>,
    ) -> Decision {
        let Some(ticket) = cx.postpone(request, PATIENCE) else {
            return Decision::Refuse(Refusal::unavailable());
        };
        self.asked += 1;
        if !cx.ask_outside(request.auth.as_bytes().into(), PATIENCE, self.asked) {
            return Decision::Refuse(Refusal::unavailable());
        }
        self.waiting.insert(self.asked, ticket);
        Decision::Later
    }

    pub(crate) fn answered(&mut self, cx: &mut Context<'_>, token: u64, answer: Option<&[u8]>) {
        let Some(ticket) = self.waiting.remove(&token) else {
            return;
        };
        let decision = match answer {
            Some(b"yes") => Ok(()),
            Some(_) => Err(Refusal {
                message: "refused later".into(),
                data: None,
            }),
            None => Err(Refusal::unavailable()),
        };
        cx.decide(ticket, decision);
    }
}

/// The other side: answers when the time has come.
pub(crate) fn answer(runtime: &Handle, ask: Ask, answerer: Answerer) {
    let Ask::Handler { question } = ask else {
        // There are no tokens here.
        return answerer.answer(Reply::Answered(None));
    };
    let auth: Value = serde_json::from_slice(&question).unwrap_or_default();
    let after = Duration::from_millis(auth["after"].as_u64().unwrap_or(0));
    let answer: &[u8] = if auth["refuse"] == true {
        b"no"
    } else {
        b"yes"
    };
    runtime.spawn(async move {
        tokio::time::sleep(after).await;
        answerer.answer(Reply::Answered(Some(answer.into())));
    });
}
