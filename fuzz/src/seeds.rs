//! Seeds of the target `hub`: what the clients of every transcript do.

use crate::deeds::{Deed, write};
use crate::memory::{self, Recording};
use crate::player::{self, Profile, Script};

/// Name and bytes of each seed.
pub fn of_transcripts() -> Vec<(String, Vec<u8>)> {
    let scripts = player::all();
    let seeds = scripts
        .iter()
        .map(|script| (script.name.clone(), seed(script)));
    seeds.collect()
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
