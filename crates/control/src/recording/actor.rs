//! One client of a play: it comes, says what its part says at its time, answers questions, and notes what it hears.

use super::filler;
use super::script::{Deed, Part, Step, Word};
use super::stage::{Played, Stage};
use super::target::Wire;
use crate::websocket::{Heard, WebSocket};
use serde_json::json;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::time::Duration;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use wire::socketio::{self, Packet, PacketType};
use wire::websocket::frame::OpCode;

/// For the way in.
const PATIENCE: Duration = Duration::from_secs(10);
/// The longest wait for a thing that is still on its way.
const LATE: Duration = Duration::from_secs(3);
/// The wait before a thing counts as one that does not come.
const MORE: Duration = Duration::from_millis(300);
/// One that is ahead of others looks so often whether they are there.
const LOOK: Duration = Duration::from_millis(10);

/// A client that is there.
struct Actor<'a> {
    part: &'a Part,
    stage: &'a Stage,
    stream: WebSocket<Box<dyn Wire>>,
    /// Questions of the gateway that are not answered yet.
    questions: VecDeque<u64>,
    played: Played,
    has_session: bool,
    /// The gateway has put it out.
    is_out: bool,
}

/// Plays a part to its end.
pub(super) async fn play(part: &Part, stage: &Stage) -> Played {
    sleep_until(stage.time(part.comes_ms)).await;
    let late = Instant::now() + LATE;
    while stage.is_behind(part.needs) && Instant::now() < late {
        sleep(LOOK).await;
    }
    stage.forgive(part.needs);
    let stream = match stage.target.connect().await {
        Ok(stream) => stream,
        Err(why) => return Played::failed(why),
    };
    let mut actor = Actor {
        part,
        stage,
        stream: WebSocket::over(stream),
        questions: VecDeque::new(),
        played: Played::default(),
        has_session: false,
        is_out: false,
    };
    let went = match timeout(PATIENCE, actor.come_in(stage)).await {
        Ok(Ok(())) => actor.act(stage).await,
        // One read let it in and put it out.
        Ok(Err(_)) if actor.played.joined && actor.is_out && part.leaves_at_once() => {
            actor.part_with().await;
            Ok(())
        }
        Ok(Err(why)) => Err(why),
        Err(_) => Err("it was not let in within 10 s".to_owned()),
    };
    actor.played.trouble = went.err();
    actor.played
}

impl Actor<'_> {
    async fn come_in(&mut self, stage: &Stage) -> Result<(), String> {
        let target = &stage.target;
        self.stream.open(&target.host, &target.path, b"").await?;
        self.hear().await?;
        while !self.has_session {
            self.stream.read().await?;
            self.hear().await?;
        }
        let token = self.part.user.as_deref().and_then(|user| stage.token(user));
        let auth = token.map(|token| json!({ "token": token }).to_string());
        self.stream
            .packet(&Packet {
                kind: PacketType::Connect,
                attachments: 0,
                namespace: &self.part.namespace,
                id: None,
                data: auth.as_deref().unwrap_or_default(),
            })
            .await?;
        while !self.played.joined {
            self.stream.read().await?;
            self.hear().await?;
        }
        Ok(())
    }

    async fn act(&mut self, stage: &Stage) -> Result<(), String> {
        let part = self.part;
        for step in &part.steps {
            let waited = self.wait_for(stage, step).await;
            if matches!(step.deed, Deed::Leave) {
                // It may have been put out in the recording, too, which tells no more than that it left.
                let left = if self.is_out { Ok(()) } else { waited };
                self.part_with().await;
                return left;
            }
            waited?;
            self.carry_out(step).await?;
            stage.progress.step();
        }
        self.listen_until(stage.end()).await?;
        self.wait_for_the_rest().await?;
        self.part_with().await;
        Ok(())
    }

    async fn wait_for(&mut self, stage: &Stage, step: &Step) -> Result<(), String> {
        self.listen_until(stage.time(step.at_ms)).await?;
        self.catch_up(stage, step.needs).await
    }

    /// Events that came before this in the recording come first, also where this gateway is slower.
    async fn catch_up(&mut self, stage: &Stage, needs: u64) -> Result<(), String> {
        let late = Instant::now() + LATE;
        while stage.is_behind(needs) && Instant::now() < late {
            self.listen_until(Instant::now() + LOOK).await?;
        }
        stage.forgive(needs);
        Ok(())
    }

    async fn carry_out(&mut self, step: &Step) -> Result<(), String> {
        let turn = step.is_large().then(|| self.stage.large.acquire());
        let _turn = match turn {
            Some(turn) => turn.await.ok(),
            None => None,
        };
        let (kinds, args, attachments, id) = match &step.deed {
            Deed::Say {
                name,
                args,
                attachments,
                ask,
            } => {
                let mut data = Vec::new();
                wire::json::quote(&mut data, name);
                let name = String::from_utf8_lossy(&data).into_owned();
                let args = args.text(attachments.len());
                let args = match args.is_empty() {
                    true => name,
                    false => format!("{name},{args}"),
                };
                let kinds = (PacketType::Event, PacketType::BinaryEvent);
                (kinds, args, attachments, *ask)
            }
            Deed::Answer { args, attachments } => {
                // It is another number, and the same question.
                let Some(id) = self.questions.pop_front() else {
                    return Ok(());
                };
                let kinds = (PacketType::Ack, PacketType::BinaryAck);
                let args = args.text(attachments.len());
                (kinds, args, attachments, Some(id))
            }
            Deed::Leave => return Ok(()),
        };
        let is_plain = attachments.is_empty();
        self.stream
            .packet(&Packet {
                kind: if is_plain { kinds.0 } else { kinds.1 },
                attachments: attachments.len(),
                namespace: &self.part.namespace,
                id,
                data: &format!("[{args}]"),
            })
            .await?;
        for size in attachments {
            self.stream
                .frame(OpCode::Binary, &vec![0; (*size).min(ATTACHMENT_BYTES_MAX)])
                .await?;
        }
        self.played.said += 1;
        Ok(())
    }

    /// Waits for what should still come, and a moment for what should not.
    async fn wait_for_the_rest(&mut self) -> Result<(), String> {
        let late = Instant::now() + LATE;
        let wanted = self.part.expected.len();
        while self.played.heard.len() < wanted && Instant::now() < late {
            let soon = Instant::now() + MORE / 3;
            self.listen_until(soon.min(late)).await?;
        }
        self.listen_until(Instant::now() + MORE).await
    }

    /// Ends the session. The gateway knows it when it closes the connection, and others hear nothing of this client then.
    async fn part_with(&mut self) {
        let closed = async {
            self.stream.frame(OpCode::Text, b"1").await?;
            loop {
                self.stream.read().await?;
                self.hear().await?;
            }
        };
        let closed: Result<Result<Infallible, String>, _> = timeout(LATE, closed).await;
        // Its end is what it says in either case.
        drop(closed);
        self.stage.happens();
    }

    async fn listen_until(&mut self, until: Instant) -> Result<(), String> {
        loop {
            self.hear().await?;
            tokio::select! {
                read = self.stream.read() => read?,
                () = sleep_until(until) => return Ok(()),
            }
        }
    }

    /// Takes in what has come.
    async fn hear(&mut self) -> Result<(), String> {
        while let Some(heard) = self.stream.heard().await? {
            match heard {
                Heard::Text(text) => self.take(&text).await?,
                Heard::Closed => return Err(self.is_put_out("the gateway closed the connection")),
            }
        }
        Ok(())
    }

    /// One packet of Engine.IO.
    async fn take(&mut self, text: &str) -> Result<(), String> {
        match text.as_bytes().first() {
            Some(b'0') => self.has_session = true,
            Some(b'1') => return Err(self.is_put_out("the gateway ended the session")),
            Some(b'2') => return self.stream.frame(OpCode::Text, b"3").await,
            Some(b'4') => {
                let packet = socketio::parse(&text[1..]);
                let packet = packet.map_err(|why| format!("a packet cannot be read: {why:?}"))?;
                return self.note(&packet);
            }
            _ => {}
        }
        Ok(())
    }

    fn is_put_out(&mut self, how: &str) -> String {
        self.is_out = true;
        how.to_owned()
    }

    fn note(&mut self, packet: &Packet<'_>) -> Result<(), String> {
        if packet.namespace != self.part.namespace {
            return Ok(());
        }
        let word = match packet.kind {
            PacketType::Connect => {
                self.played.joined = true;
                self.stage.happens();
                return Ok(());
            }
            PacketType::ConnectError => {
                return Err(format!(
                    "it was not let into the namespace: {}",
                    packet.data
                ));
            }
            PacketType::Disconnect => return Err(self.is_put_out("it was put out")),
            PacketType::Event | PacketType::BinaryEvent => {
                self.questions.extend(packet.id);
                Word::Event(socketio::event(packet.data).name.into_owned())
            }
            PacketType::Ack | PacketType::BinaryAck => {
                let args = packet.data.trim_start_matches('[').trim_end_matches(']');
                let whole = packet
                    .data
                    .strip_prefix('[')
                    .and_then(|data| data.strip_suffix(']'));
                Word::Answer(
                    packet.id.unwrap_or_default(),
                    Some(filler::kinds(whole.unwrap_or(args))),
                )
            }
        };
        let script = &self.stage.script;
        let is_expected = self.played.heard.len() < self.part.expected.len();
        if is_expected && script.is_judged(&self.part.namespace, &word) {
            self.stage.happens();
        }
        match self.played.heard.len() < self.part.expected.len() * 2 + HEARD_MORE_MAX {
            true => self.played.heard.push(word),
            false => self.played.unheard += 1,
        }
        Ok(())
    }
}

/// An attachment of a recording that somebody has written by hand is not larger than this.
const ATTACHMENT_BYTES_MAX: usize = 16 << 20;
/// Words that a client keeps beyond twice what it should hear.
const HEARD_MORE_MAX: usize = 1_000;
