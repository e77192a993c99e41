//! Brings what tests need and a machine may lack: it says what it does and why before it does it, starts no service, and asks for
//! root only where a package can be had in no other way.

use crate::steps::Step;
use crate::{jars, repository};
use anyhow::{Context, Result, bail};
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Whose tests need a tool, and with them all that come later. The tests that `cargo test` alone runs need none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum For {
    Fast,
    Binary,
    Foreign,
}

enum From {
    /// Debian's packages, installed by root.
    Debian(&'static [&'static str]),
    /// Servers: Debian's packages unpacked into a folder of ours. Installed, each would be started at every boot.
    Unpacked {
        packages: &'static [&'static str],
        programs: &'static [&'static str],
    },
    /// Node itself is on npm, newer than in some distributions.
    Npm,
    /// Kafka is on Maven Central, and needs Java 17 or newer.
    Maven,
}

struct Tool {
    name: &'static str,
    first_for: For,
    /// A command that succeeds where the tool is.
    probe: &'static [&'static str],
    from: From,
}

/// What web/package.json asks for.
const NODE_IS_NEW: &str = "const [a, b] = process.versions.node.split('.').map(Number); \
                           process.exit(a > 20 || (a === 20 && b >= 19) ? 0 : 1)";
const NODE_VERSION: &str = "20.20.2";

/// Debian keeps its programs out of the PATH, in a folder for each version.
const POSTGRES: &str = "usr/lib/postgresql";
const POSTGRES_IS_THERE: &str = "for program in initdb /usr/lib/postgresql/*/bin/initdb; do \
                                 \"$program\" --version && exit; done; exit 1";

/// Runs a Java class of Kafka's jars, with `JDK_JAVA_OPTIONS`.
const KAFKA: &str = "kafka-java";

const TOOLS: [Tool; 24] = [
    Tool::debian("npm", For::Fast, &["npm", "--version"], &["nodejs", "npm"]),
    Tool {
        name: "Node 20.19 or newer",
        first_for: For::Fast,
        probe: &["node", "-e", NODE_IS_NEW],
        from: From::Npm,
    },
    // The whole workspace has librdkafka in it.
    Tool::debian("make", For::Fast, &["make", "--version"], &["make"]),
    Tool::debian(
        "a C++ compiler",
        For::Binary,
        &["g++", "--version"],
        &["g++"],
    ),
    Tool::debian(
        "OpenSSL",
        For::Foreign,
        &["openssl", "version"],
        &["openssl"],
    ),
    Tool::debian(
        "Python with venv",
        For::Foreign,
        &["python3", "-c", "import ensurepip, venv"],
        &["python3", "python3-venv"],
    ),
    // For the unit that is shipped; systemd itself is not started.
    Tool::debian(
        "systemd-analyze",
        For::Foreign,
        &["systemd-analyze", "--version"],
        &["systemd"],
    ),
    // The languages of docs/server-api.md.
    Tool::debian("curl", For::Foreign, &["curl", "--version"], &["curl"]),
    Tool::debian("Go", For::Foreign, &["go", "version"], &["golang-go"]),
    Tool::debian(
        "PHP with curl",
        For::Foreign,
        &["php", "-r", "exit((int) !function_exists('curl_init'));"],
        &["php-cli", "php-curl"],
    ),
    // Which Java that is differs from release to release.
    Tool::debian(
        "a Java compiler",
        For::Foreign,
        &["javac", "-version"],
        &["default-jdk-headless"],
    ),
    Tool::debian("Maven", For::Foreign, &["mvn", "--version"], &["maven"]),
    // Without a window, a page costs a quarter of the processor time that it costs in the package `chromium`.
    Tool::debian(
        "Chromium",
        For::Foreign,
        &["chromium-headless-shell", "--version"],
        &["chromium-headless-shell"],
    ),
    Tool::server("nginx", &["nginx", "-v"], &["nginx"], &["nginx"]),
    Tool::server("HAProxy", &["haproxy", "-v"], &["haproxy"], &["haproxy"]),
    Tool::server(
        "Prometheus",
        &["prometheus", "--version"],
        &["prometheus"],
        &["prometheus"],
    ),
    Tool::server(
        "promtool",
        &["promtool", "--version"],
        &["prometheus"],
        &["promtool"],
    ),
    Tool::server(
        "node exporter",
        &["prometheus-node-exporter", "--version"],
        &["prometheus-node-exporter"],
        &["prometheus-node-exporter"],
    ),
    Tool::server(
        "Redis exporter",
        &["prometheus-redis-exporter", "--version"],
        &["prometheus-redis-exporter"],
        &["prometheus-redis-exporter"],
    ),
    Tool::server(
        "Redis",
        &["redis-server", "--version"],
        &["redis-server"],
        &["redis-server"],
    ),
    Tool::server(
        "redis-cli",
        &["redis-cli", "--version"],
        &["redis-tools"],
        &["redis-cli"],
    ),
    Tool::server(
        "PostgreSQL",
        &["sh", "-c", POSTGRES_IS_THERE],
        &["postgresql"],
        &["initdb", "postgres"],
    ),
    Tool::server(
        "NATS",
        &["nats-server", "--version"],
        &["nats-server"],
        &["nats-server"],
    ),
    Tool {
        name: "Kafka",
        first_for: For::Foreign,
        probe: &[KAFKA, "kafka.Kafka", "--version"],
        from: From::Maven,
    },
];

impl Tool {
    const fn debian(
        name: &'static str,
        first_for: For,
        probe: &'static [&'static str],
        packages: &'static [&'static str],
    ) -> Tool {
        let from = From::Debian(packages);
        Tool {
            name,
            first_for,
            probe,
            from,
        }
    }

    const fn server(
        name: &'static str,
        probe: &'static [&'static str],
        packages: &'static [&'static str],
        programs: &'static [&'static str],
    ) -> Tool {
        let from = From::Unpacked { packages, programs };
        Tool {
            name,
            first_for: For::Foreign,
            probe,
            from,
        }
    }
}

/// Everything that these tests need.
pub fn all(needs: For) -> Result<()> {
    tools(needs)?;
    // The runners in conformance/ install what they need beside themselves.
    npm("web")?;
    npm("sdk/node")?;
    npm("sdk/client")?;
    npm("examples")
}

/// The programs among it.
pub fn tools(needs: For) -> Result<()> {
    install(&needed_by(needs))
}

fn needed_by(needs: For) -> Vec<&'static Tool> {
    let is_needed = |tool: &&Tool| tool.first_for <= needs;
    TOOLS.iter().filter(is_needed).collect()
}

pub fn browser() -> Result<()> {
    let needed = ["Chromium", "npm", "Node 20.19 or newer"];
    let needed = TOOLS.iter().filter(|tool| needed.contains(&tool.name));
    install(&needed.collect::<Vec<_>>())
}

fn install(tools: &[&Tool]) -> Result<()> {
    let missing: Vec<_> = tools.iter().filter(|tool| !works(tool.probe)).collect();
    let (mut installed, mut packages, mut programs) = (Vec::new(), Vec::new(), Vec::new());
    for tool in &missing {
        match tool.from {
            From::Debian(names) => installed.extend_from_slice(names),
            From::Unpacked {
                packages: of,
                programs: its,
            } => {
                packages.extend_from_slice(of);
                programs.extend_from_slice(its);
            }
            From::Npm | From::Maven => {}
        }
    }
    if missing.is_empty() {
        return Ok(());
    }
    let names: Vec<&str> = missing.iter().map(|tool| tool.name).collect();
    println!("install: missing: {}", names.join(", "));
    if !installed.is_empty() {
        apt_install(&installed)?;
    }
    if !programs.is_empty() {
        unpack(&packages, &programs)?;
    }
    if missing.iter().any(|tool| matches!(tool.from, From::Npm))
        && !works(&["node", "-e", NODE_IS_NEW])
    {
        node_from_npm()?;
    }
    // After Debian's packages: Java and Maven are among them.
    if missing.iter().any(|tool| matches!(tool.from, From::Maven)) {
        fs::create_dir_all(folder().join("bin"))?;
        jars::kafka(&folder().join("kafka"), |text| script(KAFKA, text))?;
    }
    Ok(())
}

/// Programs unpacked here come first in the PATH of all steps.
pub fn search_path() -> OsString {
    let before = std::env::var_os("PATH").unwrap_or_default();
    let paths = std::iter::once(folder().join("bin")).chain(std::env::split_paths(&before));
    std::env::join_paths(paths).unwrap_or(before)
}

fn folder() -> PathBuf {
    repository::built("tools")
}

/// Words that let apt work on lists and files of ours, without root.
fn private_apt() -> Vec<String> {
    let apt = folder().join("apt").display().to_string();
    let settings = [
        format!("Dir::State::lists={apt}/lists"),
        format!("Dir::Cache={apt}/cache"),
        "Debug::NoLocking=1".to_owned(),
        "APT::Sandbox::User=".to_owned(),
    ];
    settings
        .into_iter()
        .flat_map(|setting| ["-o".to_owned(), setting])
        .collect()
}

fn apt_install(packages: &[&str]) -> Result<()> {
    need_apt(packages)?;
    let root = if is_root() { "" } else { "sudo " };
    println!(
        "install: {}: with apt{}, 1 to 3 minutes",
        packages.join(" "),
        if root.is_empty() { "" } else { " and sudo" }
    );
    Step::new("apt", &format!("{root}apt-get update --quiet")).run()?;
    let packages: Vec<String> = packages.iter().map(|name| (*name).to_owned()).collect();
    Step::new(
        "apt",
        &format!("{root}apt-get install --yes --quiet --no-install-recommends"),
    )
    .args(&packages)
    .env("DEBIAN_FRONTEND", "noninteractive")
    .run()
}

fn unpack(packages: &[&str], programs: &[&str]) -> Result<()> {
    need_apt(packages)?;
    let folder = folder();
    println!(
        "install: {}: unpacked into {}, without root, 25 MB, or 80 MB with PostgreSQL",
        programs.join(" "),
        folder.display()
    );
    let cache = folder.join("apt/cache/archives");
    for needed in [
        cache.join("partial"),
        folder.join("apt/lists/partial"),
        folder.join("bin"),
    ] {
        fs::create_dir_all(&needed).with_context(|| format!("cannot make {}", needed.display()))?;
    }
    let apt = Step::new("apt", "apt-get --quiet").args(&private_apt());
    apt.clone().args(&["update".to_owned()]).run()?;
    let packages = packages.iter().map(|name| (*name).to_owned());
    let words = [
        "install",
        "--download-only",
        "--yes",
        "--no-install-recommends",
    ]
    .map(str::to_owned);
    apt.args(&words).args(&packages.collect::<Vec<_>>()).run()?;
    let root = folder.join("debian");
    for entry in fs::read_dir(&cache)? {
        let archive = entry?.path();
        if archive.extension().is_some_and(|end| end == "deb") {
            let archive = [archive, root.clone()].map(|path| path.display().to_string());
            Step::new("dpkg", "dpkg --extract").args(&archive).run()?;
        }
    }
    programs.iter().try_for_each(|program| wrap(&root, program))
}

/// A script that runs an unpacked program with the libraries that were unpacked beside it.
fn wrap(root: &Path, program: &str) -> Result<()> {
    let versions = fs::read_dir(root.join(POSTGRES)).into_iter().flatten();
    let versions = versions.flatten().map(|entry| entry.path().join("bin"));
    let places = ["usr/sbin", "usr/bin"].map(|place| root.join(place));
    let mut places = places
        .into_iter()
        .chain(versions)
        .map(|place| place.join(program));
    let Some(file) = places.find(|path| path.exists()) else {
        bail!("cannot find {program} in {}", root.display());
    };
    // A program may need none: then there is no such folder.
    let libraries = ["usr/lib", "lib"].map(|place| fs::read_dir(root.join(place)));
    let libraries = libraries.into_iter().flatten().flatten();
    let libraries = libraries.flatten().map(|entry| entry.path());
    let libraries = libraries.filter(|path| path.display().to_string().ends_with("-linux-gnu"));
    let libraries: Vec<_> = libraries.map(|path| path.display().to_string()).collect();
    let text = format!(
        "#!/bin/sh\nLD_LIBRARY_PATH='{}' exec '{}' \"$@\"\n",
        libraries.join(":"),
        file.display()
    );
    script(program, &text)
}

fn script(name: &str, text: &str) -> Result<()> {
    let path = folder().join("bin").join(name);
    fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    Step::new("chmod", "chmod +x")
        .args(&[path.display().to_string()])
        .run()
}

fn node_from_npm() -> Result<()> {
    let machine = match std::env::consts::ARCH {
        "aarch64" => "arm64",
        "x86_64" => "x64",
        other => bail!("npm has no Node for {other}: install Node 20.19 or newer"),
    };
    let folder = folder();
    let prefix = folder.join("node").display().to_string();
    println!("install: Node {NODE_VERSION}: from npm into {prefix}, about 45 MB");
    fs::create_dir_all(folder.join("bin"))?;
    let package = format!("node-linux-{machine}");
    Step::new("npm", "npm install --no-audit --no-fund --no-save --prefix")
        .args(&[prefix.clone(), format!("{package}@{NODE_VERSION}")])
        .run()?;
    let text = format!("#!/bin/sh\nexec '{prefix}/node_modules/{package}/bin/node' \"$@\"\n");
    script("node", &text)
}

fn need_apt(packages: &[&str]) -> Result<()> {
    if works(&["apt-get", "--version"]) {
        return Ok(());
    }
    bail!(
        "this system has no apt-get: install by hand what Debian calls {}",
        packages.join(", ")
    )
}

fn is_root() -> bool {
    let id = Command::new("id").arg("-u").output();
    id.is_ok_and(|out| out.stdout.trim_ascii() == b"0")
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
    println!("install: npm packages of {folder}, half a minute");
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
        .env("PATH", search_path())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nights began with `npm ci` where no npm was.
    #[test]
    fn later_lanes_came_without_the_tools_of_earlier_ones() {
        let needed = |needs| needed_by(needs).iter().map(|tool| tool.name).collect();
        let [fast, all]: [Vec<&str>; 2] = [For::Fast, For::Foreign].map(needed);
        assert!(
            fast.contains(&"npm") && !fast.contains(&"nginx"),
            "{fast:?}"
        );
        assert_eq!(all.len(), TOOLS.len());
    }

    /// A test is left out of `cargo test` only for a program that this file brings, and says so.
    #[test]
    fn what_is_ignored_needs_a_tool_that_is_installed() {
        let mut ignored = 0;
        for path in repository::files("crates").expect("sources") {
            if path.extension().is_none_or(|end| end != "rs") {
                continue;
            }
            let text = fs::read_to_string(repository::root().join(&path)).expect("a source");
            for line in text
                .lines()
                .map(str::trim)
                .filter(|line| line.starts_with("#[ignore"))
            {
                let needs = line.strip_prefix("#[ignore = \"needs ");
                let tool =
                    needs.and_then(|rest| rest.strip_suffix(": cargo xtask test foreign\"]"));
                let known = tool.is_some_and(|tool| {
                    tool == "root"
                        || TOOLS
                            .iter()
                            .any(|known| known.name.split(' ').next() == Some(tool))
                });
                assert!(known, "{}: {line}", path.display());
                ignored += 1;
            }
        }
        assert!(ignored > 20, "only {ignored} tests are ignored");
    }
}
