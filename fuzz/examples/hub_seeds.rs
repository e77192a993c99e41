//! Writes the seeds of the target `hub`: what the clients of every transcript do. `cargo xtask gen` runs it.
//!
//!     cd fuzz && cargo run --example hub_seeds [-- --check]

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
use player::Profile;
use std::process::ExitCode;

fn main() -> std::io::Result<ExitCode> {
    let check = std::env::args().any(|arg| arg == "--check");
    let mut stale = Vec::new();
    for script in player::all() {
        let recording = Recording::of(&script);
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
        let path = format!("seeds/hub/{}", script.name.replace('-', "_"));
        if std::fs::read(&path).is_ok_and(|old| old == seed) {
            continue;
        }
        if check {
            stale.push(path);
        } else {
            std::fs::write(&path, seed)?;
            println!("wrote fuzz/{path}");
        }
    }
    if stale.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    println!("stale in fuzz: {}", stale.join(", "));
    Ok(ExitCode::FAILURE)
}
