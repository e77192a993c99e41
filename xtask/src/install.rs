//! Installs what tests need and a machine may lack. Says what it does before doing it, and does
//! nothing when all is there.

use crate::repository;
use crate::steps::Step;
use anyhow::Result;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A tool: how to see that it is there, and Debian's packages that bring it.
struct Tool {
    name: &'static str,
    probe: &'static [&'static str],
    packages: &'static [&'static str],
}

const BROWSER: Tool = Tool {
    name: "Chromium",
    probe: &["chromium", "--version"],
    packages: &["chromium"],
};

const TOOLS: [Tool; 10] = [
    Tool {
        name: "a C++ compiler",
        probe: &["g++", "--version"],
        packages: &["g++"],
    },
    Tool {
        name: "Node",
        probe: &["node", "--version"],
        packages: &["nodejs", "npm"],
    },
    Tool {
        name: "Python with venv",
        probe: &["python3", "-c", "import ensurepip, venv"],
        packages: &["python3", "python3-venv"],
    },
    Tool {
        name: "a Java compiler",
        probe: &["javac", "-version"],
        packages: &["openjdk-17-jdk-headless"],
    },
    Tool {
        name: "Maven",
        probe: &["mvn", "--version"],
        packages: &["maven"],
    },
    Tool {
        name: "nginx",
        probe: &["nginx", "-v"],
        packages: &["nginx"],
    },
    Tool {
        name: "HAProxy",
        probe: &["haproxy", "-v"],
        packages: &["haproxy"],
    },
    Tool {
        name: "OpenSSL",
        probe: &["openssl", "version"],
        packages: &["openssl"],
    },
    Tool {
        name: "Prometheus",
        probe: &["promtool", "--version"],
        packages: &["prometheus"],
    },
    BROWSER,
];

/// Everything the tests need.
pub fn all() -> Result<()> {
    tools(&TOOLS)?;
    // The runners in conformance/ install what they need beside themselves.
    npm("web")
}

pub fn browser() -> Result<()> {
    tools(&[BROWSER])
}

fn tools(tools: &[Tool]) -> Result<()> {
    let missing: Vec<&Tool> = tools.iter().filter(|tool| !works(tool.probe)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let names: Vec<&str> = missing.iter().map(|tool| tool.name).collect();
    println!("install: missing: {}", names.join(", "));
    if !works(&["apt-get", "--version"]) {
        println!("install: this system has no apt-get: install them by hand");
        return Ok(());
    }
    let packages: Vec<String> = missing
        .iter()
        .flat_map(|tool| tool.packages)
        .map(|name| (*name).to_owned())
        .collect();
    apt("apt-get update --quiet", &[])?;
    apt(
        "apt-get install --yes --quiet --no-install-recommends",
        &packages,
    )
}

fn apt(command: &str, packages: &[String]) -> Result<()> {
    let is_root = Command::new("id")
        .arg("-u")
        .output()
        .is_ok_and(|out| out.stdout.starts_with(b"0"));
    let command = if is_root {
        command.to_owned()
    } else {
        format!("sudo {command}")
    };
    Step::new("apt", &command)
        .args(packages)
        .env("DEBIAN_FRONTEND", "noninteractive")
        .run()
}

/// The exact packages of a folder's package-lock.json.
pub fn npm(folder: &str) -> Result<()> {
    let folder_path = repository::root().join(folder);
    let lock = folder_path.join("package-lock.json");
    // npm writes this file last: what is older than the lock file is of another time.
    let installed = folder_path.join("node_modules/.package-lock.json");
    if !lock.exists() || is_newer(&installed, &lock) {
        return Ok(());
    }
    Step::new("npm", "npm ci --no-audit --no-fund")
        .in_folder(folder)
        .run()
}

fn is_newer(file: &Path, than: &Path) -> bool {
    let modified = |path: &Path| {
        path.metadata()
            .and_then(|metadata| metadata.modified())
            .ok()
    };
    modified(file)
        .zip(modified(than))
        .is_some_and(|(file, than)| file >= than)
}

/// A Python 2.7: named by PYTHON27, pyenv's, or one on the path.
pub fn python27() -> Option<PathBuf> {
    let named = std::env::var_os("PYTHON27").map(PathBuf::from);
    let home = std::env::var_os("HOME")
        .map(PathBuf::from)
        .unwrap_or_default();
    let versions = std::fs::read_dir(home.join(".pyenv/versions"))
        .into_iter()
        .flatten()
        .flatten();
    let pyenv = versions.map(|version| version.path().join("bin/python2.7"));
    let on_path = ["python2.7", "python2"].map(PathBuf::from);
    let probe = "import sys; assert sys.version_info[:2] == (2, 7)";
    named
        .into_iter()
        .chain(pyenv)
        .chain(on_path)
        .find(|python| {
            // A pyenv shim exists even when no such version is active, so each is tried.
            python
                .to_str()
                .is_some_and(|python| works(&[python, "-c", probe]))
        })
}

/// Whether a command runs and succeeds.
pub fn works(command: &[&str]) -> bool {
    let Some((program, args)) = command.split_first() else {
        return false;
    };
    let mut command = Command::new(program);
    command
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}
