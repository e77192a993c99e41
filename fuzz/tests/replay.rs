//! Every fuzz target on its seeds, on each beginning of them, and on seeds with faults: the part of fuzzing that fits into each build.
//! The faults are rolled from one number, so a failure comes back.

use fastrand::Rng;
use fuzz::seeds::of_transcripts;
use fuzz::targets::TARGETS;
use std::fs;
use std::path::Path;

/// Faulty inputs made of each seed.
const FAULTY: usize = 4_000;

/// Beginnings of each seed, evenly spread over it.
const BEGINNINGS: usize = 64;

fn seeds(target: &str) -> Vec<(String, Vec<u8>)> {
    if target == "hub" {
        return of_transcripts();
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("seeds")
        .join(target);
    let files = fs::read_dir(&folder).expect("a folder of seeds");
    let mut seeds: Vec<_> = files
        .map(|file| file.expect("a seed").path())
        .map(|path| (path.display().to_string(), fs::read(path).expect("a seed")))
        .collect();
    seeds.sort();
    seeds
}

/// One to four faults: a byte changed, bytes left out, bytes said twice, or the rest of another seed.
fn spoil(rng: &mut Rng, seed: &[u8], other: &[u8]) -> Vec<u8> {
    let mut bytes = seed.to_vec();
    for _ in 0..rng.usize(1..=4) {
        let at = rng.usize(0..=bytes.len());
        let end = bytes.len().min(at + rng.usize(1..=16));
        match rng.u8(0..4) {
            0 if at < bytes.len() => bytes[at] = rng.u8(..),
            1 => drop(bytes.drain(at..end)),
            2 => bytes.extend_from_within(at..end),
            _ => {
                bytes.truncate(at);
                bytes.extend_from_slice(&other[rng.usize(0..=other.len())..]);
            }
        }
    }
    bytes
}

/// Shows the input under which a target broke.
struct Input<'a>(&'a str, &'a [u8]);

impl Drop for Input<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}: {}", self.0, self.1.escape_ascii());
        }
    }
}

#[test]
fn no_target_breaks_on_its_seeds_or_near_them() {
    for (target, run) in TARGETS {
        let seeds = seeds(target);
        assert!(!seeds.is_empty(), "{target} has no seeds");
        let mut rng = Rng::with_seed(17);
        for (name, seed) in &seeds {
            let _seed = Input(target, name.as_bytes());
            run(seed);
            for part in 0..BEGINNINGS {
                run(&seed[..seed.len() * part / BEGINNINGS]);
            }
            for _ in 0..FAULTY {
                let (_, other) = &seeds[rng.usize(..seeds.len())];
                let bytes = spoil(&mut rng, seed, other);
                let _input = Input(target, &bytes);
                run(&bytes);
            }
        }
    }
}

/// A folder whose target was renamed would never be read again.
#[test]
fn every_folder_of_seeds_belongs_to_a_target() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds");
    for entry in fs::read_dir(folder).expect("the seeds") {
        let name = entry.expect("a folder").file_name();
        assert!(
            TARGETS.iter().any(|(target, _)| name == *target),
            "{name:?}"
        );
    }
}
