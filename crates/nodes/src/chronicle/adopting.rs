//! A client came to this node, which does not have its socket: it is taken from the store, with what the stream has for it.

use super::course::{
    self, Course, What, bytes, generation_asked, generation_of, number, text, user,
};
use super::{Desk, Office};
use crate::engine::Trouble;
use ::redis::cmd;
use hub::{Adoption, Claiming, Stored, Unadopted};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

const CLAIM: &str = include_str!("claim.lua");
/// The shard answers sooner, or has given up.
const PATIENCE: Duration = Duration::from_secs(4);

enum Ended {
    Refused(Unadopted),
    Trouble(Trouble),
}

impl From<Trouble> for Ended {
    fn from(trouble: Trouble) -> Self {
        Self::Trouble(trouble)
    }
}

/// Answers the shard that asks.
pub(super) async fn adopt(office: Arc<Office>, claiming: Claiming) {
    let asker = (claiming.shard, claiming.number);
    let Some(desk) = office.desks.get(&claiming.namespace) else {
        return;
    };
    let (_, era) = desk.course.generation();
    let why = match timeout(PATIENCE, fetch(&office, desk, &claiming)).await {
        Ok(Ok((adoption, upto))) => {
            let mail = &office.mail;
            let read = mail.adopted(&claiming.namespace, asker, adoption, upto);
            // Its shard must not have it after it was told that what it is made of may be lost.
            if desk.course.within(era, || office.deliver(&read)) {
                return;
            }
            Unadopted::Trimmed
        }
        Ok(Err(Ended::Refused(why))) => why,
        Ok(Err(Ended::Trouble(trouble))) => {
            tracing::warn!(namespace = claiming.namespace, %trouble, "cannot look for the socket of a client that came back");
            Unadopted::Late
        }
        Err(_) => Unadopted::Late,
    };
    office.forget_listing(asker);
    office.deliver(&office.mail.refused(asker.0, asker.1, why));
}

async fn fetch(
    office: &Office,
    desk: &Desk,
    claiming: &Claiming,
) -> Result<(Adoption, u64), Ended> {
    let course = &desk.course;
    let mut adoption = take(office, course, claiming).await?;
    let mut upto = adoption.after();
    if adoption.is_over() {
        return Ok((adoption, upto));
    }
    let listing = office.listing((claiming.shard, claiming.number));
    office.deliver(
        &office
            .mail
            .offered(claiming.shard, claiming.number, &adoption),
    );
    listing.await.map_err(|_| Ended::Refused(Unadopted::Late))?;
    // Those who find no place in time are new.
    let place = office.claims.acquire().await;
    let _place = place.map_err(|_| Ended::Refused(Unadopted::Late))?;
    let mut is_claimed = false;
    let mut count = course::PART_MIN;
    loop {
        let (part, trimmed) = course.range(upto, count).await?;
        // Part of it may have gone before it was read.
        if trimmed > upto {
            adoption.trimmed(trimmed);
            break;
        }
        let is_last = part.len() < count;
        count = course::part_behind(&part, count);
        for entry in part {
            upto = entry.number;
            match entry.what {
                What::Event(letter) | What::Order(letter) => adoption.read(upto, &letter),
                What::Taken { fence, pid } if pid == claiming.pid => {
                    is_claimed = true;
                    adoption.taken(fence);
                }
                What::Taken { .. } => {}
            }
        }
        if is_last || adoption.is_over() {
            break;
        }
    }
    // The claim itself stands behind all that a client can have: its offset is made up.
    if !is_claimed && !adoption.is_over() {
        return Err(Ended::Refused(Unadopted::Trimmed));
    }
    // Its shard has all that is in it before it has the socket.
    let mut position = course.position.subscribe();
    let passed = position.wait_for(|at| *at >= upto).await;
    passed.map_err(|_| Ended::Refused(Unadopted::Late))?;
    Ok((adoption, upto))
}

async fn take(office: &Office, course: &Course, claiming: &Claiming) -> Result<Adoption, Ended> {
    let (stream, claim) = (
        course.stream(),
        format!("{}:{}:{}", office.writer, claiming.shard, claiming.number),
    );
    let mut call = cmd("EVAL");
    call.arg(CLAIM).arg(3);
    call.arg(&stream)
        .arg(course.facts())
        .arg(course.record(&claiming.pid));
    call.arg(user(claiming.uid.as_deref()))
        .arg(claim)
        .arg(&claiming.pid);
    let commands = vec![generation_asked(), call];
    let answers = course
        .ports
        .claims
        .carry_out_together(stream.as_bytes(), commands)
        .await?;
    let [info, answer] = &answers[..] else {
        return Err(course::strange(&answers).into());
    };
    let answer = answer.as_sequence().unwrap_or_default();
    match answer.first().and_then(text).as_deref() {
        Some("taken") => {}
        Some("other_user") => return Err(Ended::Refused(Unadopted::OtherUser)),
        _ => return Err(Ended::Refused(Unadopted::Unknown)),
    }
    let read = |at: usize| answer.get(at).and_then(text);
    let place = |at: usize| read(at).and_then(|id| number(&id));
    let parts = (|| {
        let fence: u64 = read(1)?.parse().ok()?;
        let body = answer.get(2).and_then(bytes)?;
        Some((fence, body, place(3)?, place(4)?, read(5)?, place(6)?))
    })();
    let (fence, body, confirmed, written, generation, trimmed) =
        parts.ok_or_else(|| course::strange(&answer))?;
    // It was stored in a Redis that is no more: what that had last may be lost.
    if generation_of(info) != Some(generation) {
        return Err(Ended::Refused(Unadopted::Trimmed));
    }
    let stored = Stored {
        namespace: &claiming.namespace,
        pid: &claiming.pid,
        uid: claiming.uid.as_deref(),
        body: &body,
        fence,
        confirmed,
        written,
    };
    let adoption = Adoption::new(stored, claiming.shown, claiming.bytes_max);
    let mut adoption = adoption.ok_or(Ended::Refused(Unadopted::Unknown))?;
    adoption.trimmed(trimmed);
    Ok(adoption)
}
