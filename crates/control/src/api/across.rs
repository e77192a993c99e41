//! An order under an Idempotency-Key in a cluster: one node carries it out, and all of them give its answer.

use super::model::{Accepted, Collected, Done};
use super::once::{self, Answer, Name};
use super::problem::{Kind, Problem};
use nodes::ledger::{ANSWER_BYTES_MAX, Claim, Ledger, Refusal, WAITS_MAX};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// An answer for other nodes.
#[derive(Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
enum Told {
    Accepted(Accepted),
    Collected(Collected),
    /// It may be carried out: what its caller was told.
    NoAnswer(String),
}

/// Carries out an order unless another node has it; `true`: this one did.
pub(super) async fn carry_out(
    ledger: &Arc<Ledger>,
    name: &Name,
    digest: [u8; 32],
    work: impl Future<Output = Answer>,
) -> (Answer, bool) {
    let page = match ledger.claim(&hex(name.digest()), &hex(digest)).await {
        Ok(Claim::Mine(page)) => page,
        Ok(Claim::Done(text)) => return (answer_of(&text), false),
        Ok(Claim::Lost(why)) => return (Err(Problem::new(Kind::NoAnswer, why)), false),
        Err(refusal) => return (Err(refused(name, refusal)), false),
    };
    let answer = work.await;
    if once::is_carried_out(&answer) {
        page.done(&text_of(&answer, ANSWER_BYTES_MAX)).await;
    } else {
        page.abandon().await;
    }
    (answer, true)
}

fn refused(name: &Name, refusal: Refusal) -> Problem {
    let detail = match refusal {
        Refusal::Reused => return name.reused(),
        Refusal::Full => {
            format!("{WAITS_MAX} calls wait for other nodes already: nothing was done")
        }
        Refusal::Away(trouble) => format!(
            "cannot find out whether another node carried out this Idempotency-Key: {trouble}: nothing was done; without the header it is done at once"
        ),
    };
    Problem::new(Kind::Busy, detail)
}

/// In the words that nodes have for each other, of so many bytes at most.
pub(super) fn text_of(answer: &Answer, bytes_max: usize) -> String {
    let told = match answer {
        Ok(Done::Accepted(accepted)) => Told::Accepted(*accepted),
        Ok(Done::Collected(collected)) => Told::Collected(collected.clone()),
        Err(problem) => Told::NoAnswer(problem.message()),
    };
    let text = serde_json::to_string(&told).unwrap_or_default();
    if text.len() <= bytes_max {
        return text;
    }
    let why = format!(
        "the call was carried out, and its answer has {} bytes: only the process that was asked first has it",
        text.len()
    );
    serde_json::to_string(&Told::NoAnswer(why)).unwrap_or_default()
}

pub(super) fn answer_of(text: &str) -> Answer {
    match serde_json::from_str(text) {
        Ok(Told::Accepted(accepted)) => Ok(Done::Accepted(accepted)),
        Ok(Told::Collected(collected)) => Ok(Done::Collected(collected)),
        Ok(Told::NoAnswer(why)) => Err(Problem::new(Kind::NoAnswer, why)),
        Err(fault) => Err(Problem::new(
            Kind::NoAnswer,
            format!(
                "the call was carried out by a node of another version, whose answer cannot be read: {fault}"
            ),
        )),
    }
}

fn hex(digest: [u8; 32]) -> String {
    digest.iter().fold(String::new(), |mut text, byte| {
        for half in [byte >> 4, byte & 15] {
            text.extend(char::from_digit(u32::from(half), 16));
        }
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_the_same_at_every_node() {
        let json = |text: &str| serde_json::value::RawValue::from_string(text.to_owned());
        let collected = |args: &str| Collected {
            acked: 1,
            timed_out: 2,
            gone: 3,
            undelivered: 4,
            complete: false,
            answers: vec![super::super::model::Answer {
                args: json(args).expect("JSON"),
                attachments: vec!["AA==".to_owned()],
            }],
        };
        let accepted = Accepted {
            accepted: true,
            everywhere: false,
            stored: true,
        };
        for answer in [
            Ok(Done::Accepted(accepted)),
            Ok(Done::Collected(collected("[{\"a\": 1e400}]"))),
            Err(Problem::new(Kind::NoAnswer, "why")),
        ] {
            let again = answer_of(&text_of(&answer, ANSWER_BYTES_MAX));
            assert_eq!(format!("{again:?}"), format!("{answer:?}"));
        }
        let long = format!("[{:?}]", "x".repeat(ANSWER_BYTES_MAX));
        let long = Ok(Done::Collected(collected(&long)));
        let long = answer_of(&text_of(&long, ANSWER_BYTES_MAX));
        assert_eq!(long.expect_err("too long").kind(), Kind::NoAnswer);
    }

    #[test]
    fn a_digest_is_hexadecimal() {
        assert_eq!(hex([0x0f; 32]), "0f".repeat(32));
    }
}
