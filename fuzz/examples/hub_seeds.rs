//! Writes the seeds of the target `hub` into a folder: what the clients of every transcript do. `run.sh` makes them anew each time.
//!
//!     cd fuzz && cargo run --example hub_seeds -- target/seeds/hub

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
use std::path::PathBuf;

fn main() -> std::io::Result<()> {
    let folder = std::env::args_os().nth(1).map(PathBuf::from);
    let folder = folder.ok_or_else(|| std::io::Error::other("name the folder to write into"))?;
    std::fs::create_dir_all(&folder)?;
    for script in player::all() {
        std::fs::write(folder.join(&script.name), seed(&script))?;
    }
    Ok(())
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
