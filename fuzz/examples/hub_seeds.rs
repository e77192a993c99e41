//! Writes the seeds of the target `hub`: what the clients of every transcript do. With `--check` only says which are stale.
//! `cargo xtask gen` runs it; alone:
//!
//!     cd fuzz && cargo run --example hub_seeds

#[path = "../../crates/hub/tests/dialogues/memory.rs"]
#[expect(dead_code, reason = "seeds need a part of it")]
mod memory;
#[path = "../../transcripts/player/mod.rs"]
#[expect(dead_code, reason = "seeds need a part of it")]
mod player;
#[path = "../../crates/hub/tests/rig/mod.rs"]
#[expect(dead_code, reason = "seeds need a part of it")]
mod rig;

use fuzz::deeds::{Deed, write};
use memory::Recording;
use player::{Profile, Script};
use std::process::ExitCode;

fn main() -> std::io::Result<ExitCode> {
    let check = std::env::args().any(|arg| arg == "--check");
    let mut stale = false;
    for script in player::all() {
        let path = format!("seeds/hub/{}", script.name.replace('-', "_"));
        let seed = seed(&script);
        if std::fs::read(&path).is_ok_and(|old| old == seed) {
            continue;
        }
        if check {
            eprintln!("stale: fuzz/{path}; run `cargo xtask gen` and commit");
            stale = true;
        } else {
            std::fs::write(&path, seed)?;
            println!("wrote fuzz/{path}");
        }
    }
    Ok(ExitCode::from(u8::from(stale)))
}

fn seed(script: &Script) -> Vec<u8> {
    let recording = Recording::of(script);
    let chat = script.settings.profile == Profile::Chat;
    let mut seed = vec![if chat { 4 } else { 0 }];
    for deed in &recording.deeds {
        match deed {
            // The target opens connections when they are used.
            memory::Deed::Open => {}
            memory::Deed::Bytes(client, bytes) => write(&mut seed, Deed::Bytes(*client, bytes)),
            memory::Deed::End(client) => write(&mut seed, Deed::End(*client)),
            memory::Deed::Pass(time) => write(&mut seed, Deed::Pass(*time)),
            memory::Deed::Drain => write(&mut seed, Deed::Drain),
        }
    }
    seed
}
