//! What compression brings and costs at a running gateway, both ways in the same run:
//!
//! * CPU of the gateway per delivery of a 1 KB chat message to a room of 1,000, plain and compressed;
//! * bytes on the wire, in both directions, of 1,000 chat messages to one user by polling and by WebSocket.

mod client;
mod wire_bytes;

use crate::gateway::Gateway;
use crate::median;
use clap::Args;
use client::{Crowd, Offer, Publisher};
use std::time::Duration;

/// Everybody may join rooms; `say` goes to the sender's rooms. More lines of its last section may follow.
pub const CONFIG: &str = r#"
profile = "socket.io"
[server]
pin = false
[socketio]
ping_interval = "300s"
[log]
connections = false
[compression]
websocket = true
"#;

#[derive(Debug, Args)]
pub struct Flags {
    /// Members of the room.
    #[arg(long, default_value_t = 1_000)]
    members: usize,
    /// Broadcasts of one round.
    #[arg(long, default_value_t = 64)]
    messages: usize,
    /// Rounds; plain and compressed take turns, medians are shown.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Bytes of a chat message.
    #[arg(long, default_value_t = 1_024)]
    bytes: usize,
    /// Messages to one user.
    #[arg(long, default_value_t = 1_000)]
    sent: usize,
}

pub fn report(flags: &Flags) -> anyhow::Result<()> {
    broadcast(flags, &Gateway::start(CONFIG)?)?;
    wire_bytes::report(flags.sent, flags.bytes)
}

/// One gateway, two rooms with as many members each: in one of them everybody agreed on compression.
fn broadcast(flags: &Flags, gateway: &Gateway) -> anyhow::Result<()> {
    println!(
        "CPU of the gateway per delivery, {} B chat messages to {} members:\n",
        flags.bytes, flags.members
    );
    println!(
        "| outstanding | plain, us | compressed, us | ratio | bytes plain | bytes compressed |"
    );
    println!("|---:|---:|---:|---:|---:|---:|");
    let mut rooms =
        [Offer::None, Offer::Deflate].map(|offer| Room::open(gateway, offer, flags.members));
    for window in [1, 16] {
        let mut rounds = [Vec::new(), Vec::new()];
        let mut bytes = [0, 0];
        for round in 0..=flags.rounds {
            for (n, room) in rooms.iter_mut().enumerate() {
                let room = room
                    .as_mut()
                    .map_err(|error| anyhow::anyhow!("{error:#}"))?;
                let before = (gateway.cpu()?, room.crowd.bytes());
                room.send(flags.messages, flags.bytes, window, round)?;
                let deliveries = (flags.messages * flags.members) as u64;
                bytes[n] = (room.crowd.bytes() - before.1) / deliveries;
                // The first round warms up.
                if round > 0 {
                    rounds[n]
                        .push((gateway.cpu()? - before.0).as_secs_f64() * 1e6 / deliveries as f64);
                }
            }
        }
        let [plain, compressed] = rounds.map(median);
        println!(
            "| {window} | {plain:.2} | {compressed:.2} | {:.2} | {} | {} |",
            compressed / plain,
            bytes[0],
            bytes[1]
        );
    }
    println!();
    Ok(())
}

struct Room {
    crowd: Crowd,
    publisher: Publisher,
}

impl Room {
    fn open(gateway: &Gateway, offer: Offer, members: usize) -> anyhow::Result<Room> {
        let name = if offer == Offer::None {
            "plain"
        } else {
            "compressed"
        };
        let crowd = Crowd::join(gateway.addr, name, offer, members)?;
        let publisher = Publisher::join(gateway.addr, name)?;
        Ok(Room { crowd, publisher })
    }

    /// Sends so many messages, at most `window` of them on their way at a time, until every member has all of them.
    fn send(
        &mut self,
        messages: usize,
        bytes: usize,
        window: usize,
        round: usize,
    ) -> anyhow::Result<()> {
        for first in (0..messages).step_by(window) {
            let count = window.min(messages - first);
            let texts = (first..first + count).map(|n| chat(round * messages + n, bytes));
            self.publisher.publish(texts)?;
            self.crowd.receive(count, Duration::from_secs(60))?;
        }
        Ok(())
    }
}

/// JSON of a chat message of exactly this many bytes; each has another text, sender, id and time.
fn chat(n: usize, bytes: usize) -> String {
    const WORDS: &str = "the of and to in is you that it he was for on are as with his they at be this have from or one had \
        by word but not what all were we when your can said there use an each which she do how their if will up other about \
        out many then them these so some her would make like him into time has look two more write go see number no way";
    let words: Vec<&str> = WORDS.split_whitespace().collect();
    let mut state = n as u64 + 1;
    let mut roll = |bound: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % bound as u64) as usize
    };
    let (user, id) = (roll(50), 7_398_221_000_000_u64 + n as u64 * 4_099);
    let tail = format!(
        "\",\"timestamp\":{}}}",
        1_750_000_000_000_u64 + n as u64 * 731
    );
    let mut text = format!("{{\"messageId\":\"{id}\",\"userId\":\"user-{user}\",\"content\":\"");
    while text.len() + tail.len() < bytes {
        text.push_str(words[roll(words.len())]);
        text.push(' ');
    }
    text.truncate(bytes - tail.len());
    text.push_str(&tail);
    text
}
