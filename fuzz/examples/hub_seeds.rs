//! Writes the seeds of the target `hub` into a folder. `run.sh` makes them anew each time.

use std::path::PathBuf;

fn main() -> std::io::Result<()> {
    let folder = std::env::args_os().nth(1).map(PathBuf::from);
    let folder = folder.ok_or_else(|| std::io::Error::other("name the folder to write into"))?;
    std::fs::create_dir_all(&folder)?;
    for (name, seed) in fuzz::seeds::of_transcripts() {
        std::fs::write(folder.join(name), seed)?;
    }
    Ok(())
}
