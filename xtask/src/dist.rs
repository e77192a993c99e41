//! What a release ships for this machine's kind: the stripped binary with what belongs beside it, and its debug symbols.

use crate::repository::{self, built};
use crate::steps::Step;
use crate::{bench, notices};
use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::Path;

/// Of the stripped binary.
const BINARY_BYTES_MAX: u64 = 25_000_000;

/// Files of the archive, beside the binary.
const BESIDE: [&str; 8] = [
    "README.md",
    "LICENSE",
    "CHANGELOG.md",
    notices::PAGE,
    "config/sockeye.toml",
    "deploy/systemd/sockeye.service",
    "deploy/sysctl.conf",
    "deploy/limits.conf",
];

pub fn run() -> Result<()> {
    let version = env!("CARGO_PKG_VERSION");
    let name = format!("sockeye-{version}-{}-linux", std::env::consts::ARCH);
    let dist = built("dist");
    let folder = dist.join(&name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    bench::release(&["--package", "gateway", "--bin", "sockeye"]).run()?;
    let size = split(&folder.join("sockeye"), &dist.join(format!("{name}.debug")))?;
    println!(
        "dist: {} bytes without symbols, {BINARY_BYTES_MAX} at most",
        size
    );
    ensure!(
        size <= BINARY_BYTES_MAX,
        "the binary has grown beyond {BINARY_BYTES_MAX} bytes: {size}"
    );
    for file in BESIDE {
        let name = repository::name(Path::new(file));
        fs::copy(repository::root().join(file), folder.join(name))
            .with_context(|| format!("cannot copy {file}"))?;
    }
    let archive = dist.join(format!("{name}.tar.gz")).display().to_string();
    // Two builds of one source are one archive.
    Step::new("tar", "tar --create --gzip --owner=0 --group=0 --numeric-owner --sort=name --mtime=@0 --directory")
        .args(&[dist.display().to_string(), "--file".to_owned(), archive, name])
        .run()?;
    fs::remove_dir_all(&folder).with_context(|| format!("cannot remove {}", folder.display()))
}

/// Copies the binary without its symbols and puts these beside it; returns how large it is.
fn split(binary: &Path, symbols: &Path) -> Result<u64> {
    let built = built("release/sockeye").display().to_string();
    let [to, debug] = [binary, symbols].map(|path| path.display().to_string());
    let run = |words: &str, more: &[&str]| {
        let more: Vec<String> = more.iter().map(|word| (*word).to_owned()).collect();
        Step::new("objcopy", words).args(&more).run()
    };
    run(
        "objcopy --only-keep-debug --compress-debug-sections",
        &[&built, &debug],
    )?;
    run(
        "objcopy --strip-all",
        &[&format!("--add-gnu-debuglink={debug}"), &built, &to],
    )?;
    Ok(fs::metadata(binary)?.len())
}
