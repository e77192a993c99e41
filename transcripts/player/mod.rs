//! Plays transcripts. `script` reads the files, `play` walks through one against a `World` (a hub in memory, or a gateway
//! behind TCP), `frames` is the client's side of HTTP and WebSocket, with codecs that are not the gateway's.
//! Included by path from the test crates that provide a world.

mod frames;
mod play;
mod script;

pub use play::{Received, World, play};
pub use script::{Profile, Script, Settings};

use std::path::{Path, PathBuf};

/// All transcripts, by name.
pub fn all() -> Vec<Script> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut folders = here.ancestors().map(|folder| folder.join("transcripts"));
    let folder = folders
        .find(|folder| folder.join("player").is_dir())
        .expect("transcripts");
    let mut paths: Vec<PathBuf> = std::fs::read_dir(&folder)
        .unwrap_or_else(|error| panic!("cannot list {}: {error}", folder.display()))
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "txt"))
        .collect();
    paths.sort();
    assert!(
        paths.len() > 20,
        "only {} transcripts in {}",
        paths.len(),
        folder.display()
    );
    paths.iter().map(|path| Script::read(path)).collect()
}
