//! What a release ships for this machine's kind: the stripped binary with what belongs beside it, and its debug symbols.

use crate::repository::{self, built};
use crate::steps::Step;
use crate::{bench, notices};
use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Of the stripped binary.
const BINARY_BYTES_MAX: u64 = 40_000_000;

/// What is built of the gateway, with all features. The image has the same.
const GATEWAY: &str = "--package gateway --bin sockeye --features full";

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

/// `given`: a folder with programs that are built already, for checks.
pub fn run(given: Option<PathBuf>) -> Result<()> {
    let version = env!("CARGO_PKG_VERSION");
    let name = format!("sockeye-{version}-{}-linux", std::env::consts::ARCH);
    let dist = built("dist");
    let folder = dist.join("package");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let is_release = given.is_none();
    if is_release {
        bench::production(&GATEWAY.split(' ').collect::<Vec<_>>()).run()?;
        bench::production(&["--package", "bench", "--bin", "sockeye-bench"]).run()?;
        bench::production(&["--package", "shadow", "--bin", "sockeye-shadow"]).run()?;
    }
    let programs = given.unwrap_or_else(|| built("production"));
    strip(&programs, "sockeye-bench", &folder)?;
    strip(&programs, "sockeye-shadow", &folder)?;
    let size = split(&programs, &folder, &dist.join(format!("{name}.debug")))?;
    println!("dist: {size} bytes without symbols, {BINARY_BYTES_MAX} at most");
    ensure!(
        size <= BINARY_BYTES_MAX || !is_release,
        "the binary has grown beyond {BINARY_BYTES_MAX} bytes: {size}"
    );
    for file in BESIDE {
        let name = repository::name(Path::new(file));
        fs::copy(repository::root().join(file), folder.join(name))
            .with_context(|| format!("cannot copy {file}"))?;
    }
    pages(&folder)?;
    let archive = dist.join(format!("{name}.tar.gz")).display().to_string();
    // Two builds of one source are one archive.
    let tar = "tar --create --gzip --owner=0 --group=0 --numeric-owner --sort=name --mtime=@0";
    let into = format!("s/^package/{name}/");
    let places = [
        "--file",
        &archive,
        "--directory",
        &dist.display().to_string(),
        "--transform",
        &into,
        "package",
    ];
    Step::new("tar", tar).args(&places.map(str::to_owned)).run()
}

/// The manual and what shells complete, as the binary makes them.
fn pages(folder: &Path) -> Result<()> {
    let binary = folder.join("sockeye").display().to_string();
    let manual = folder.join("man").display().to_string();
    Step::new("manual", &binary)
        .args(&["man".to_owned(), manual])
        .run()?;
    let completions = folder.join("completions");
    fs::create_dir_all(&completions)?;
    for (shell, file) in [
        ("bash", "sockeye.bash"),
        ("zsh", "_sockeye"),
        ("fish", "sockeye.fish"),
    ] {
        let output = Command::new(&binary).args(["completions", shell]).output();
        let output = output.with_context(|| format!("cannot run {binary}"))?;
        ensure!(
            output.status.success(),
            "{binary} completions {shell}: {output:?}"
        );
        fs::write(completions.join(file), output.stdout)?;
    }
    Ok(())
}

/// Copies a program without its symbols.
fn strip(programs: &Path, name: &str, folder: &Path) -> Result<()> {
    let places = [programs.join(name), folder.join(name)];
    Step::new("objcopy", "objcopy --strip-all")
        .args(&places.map(|path| path.display().to_string()))
        .run()
}

/// Copies the binary without its symbols and puts these beside it; returns how large it is.
fn split(programs: &Path, folder: &Path, symbols: &Path) -> Result<u64> {
    let binary = folder.join("sockeye");
    let [built, to, debug] =
        [&programs.join("sockeye"), &binary, symbols].map(|path| path.display().to_string());
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
