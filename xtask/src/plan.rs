//! The steps of each lane, in order. Everything is built once, in the profile `ci`; times are those of two cores that had built
//! nothing before.

use crate::repository::{self, built};
use crate::steps::Step;
use crate::suite::{Entry, Group, Lane, Run};
use crate::{law, tidy};
use anyhow::Result;
use cargo_metadata::{MetadataCommand, TargetKind};
use std::collections::BTreeSet;
use std::time::Duration;

/// Tests that `cargo test` alone leaves out, of the gateway and of the other crates: they are marked `#[ignore = "needs …"]`.
pub const FOREIGN_TESTS: [&str; 2] = ["foreign tests", "foreign tests of crates"];

/// Builds the programs that other steps run.
pub const BUILD: &str = "build";

/// Builds the tests of other crates than the gateway's, on cores that are idle.
pub const BUILD_TESTS: &str = "tests of crates, built";

/// Packages whose tests run a process: they belong to the lane `binary`.
const WITH_PROCESSES: [&str; 2] = ["gateway", "bench"];

/// Threads of the gateway's tests: more than tests that wait to be alone, which some thirty do. How many have processes at once is
/// bounded where they begin (`tests/it/harness/alone.rs`).
const WAITING_TESTS: &str = "64";
/// Seconds in which no test begins or ends a process, after which one waits for ever.
const TESTS_STUCK_AFTER: &str = "300";

const fn step(lane: Lane, name: &'static str, run: fn() -> Step) -> Entry {
    Entry {
        lane,
        name,
        group: Group::Alone,
        follows: false,
        run: Run::Command(run),
    }
}

const fn check(name: &'static str, check: fn() -> Result<()>) -> Entry {
    let run = Run::Check(check);
    Entry {
        run,
        ..step(Lane::Fast, name, format)
    }
}

const fn autobahn_step(lane: Lane, name: &'static str, run: fn() -> Step) -> Entry {
    Entry {
        run: Run::Autobahn(run),
        ..step(lane, name, run)
    }
}

/// The entry in a group, in a row of its own.
const fn beside(group: Group, entry: Entry) -> Entry {
    Entry { group, ..entry }
}

/// The entry in a group, after the one before it.
const fn after(group: Group, entry: Entry) -> Entry {
    Entry {
        group,
        follows: true,
        ..entry
    }
}

const fn foreign(name: &'static str, run: fn() -> Step) -> Entry {
    step(Lane::Foreign, name, run)
}

/// Lints, the build of tests and tests that compute stand where other tests wait: the gateway's tests about time leave two cores idle for
/// minutes. Of the rows of clients, each takes about as long as the browser.
pub const ENTRIES: &[Entry] = &[
    step(Lane::Fast, "format", format),
    step(Lane::Fast, "format of libfuzzer", fuzz_format),
    check("law", law::run),
    check("tidy", tidy::run),
    beside(Group::Build, step(Lane::Binary, BUILD, build)),
    beside(
        Group::Gateway,
        step(Lane::Binary, "gateway tests", gateway_tests),
    ),
    beside(Group::Gateway, step(Lane::Fast, "lints", lints)),
    step(Lane::Binary, "workers by gRPC", workers_by_grpc),
    beside(Group::Waiting, foreign(FOREIGN_TESTS[0], foreign_tests)),
    beside(Group::Waiting, foreign(BUILD_TESTS, build_tests)),
    after(Group::Waiting, step(Lane::Fast, "unit tests", unit_tests)),
    after(Group::Waiting, step(Lane::Fast, "web check", web_check)),
    beside(
        Group::Crates,
        foreign(FOREIGN_TESTS[1], foreign_tests_of_crates),
    ),
    beside(
        Group::Crates,
        step(Lane::Binary, "bench tests", bench_tests),
    ),
    // Workers and examples use it beside each other.
    foreign("node library", node_library),
    beside(Group::Clients, foreign("browser", browser)),
    beside(Group::Clients, foreign("examples", examples)),
    beside(Group::Clients, foreign("node workers", node_workers)),
    after(
        Group::Clients,
        foreign("clients of a worker", clients_of_a_worker),
    ),
    beside(Group::Clients, foreign("python workers", python_workers)),
    after(Group::Clients, foreign("client library", client_library)),
    beside(Group::Clients, foreign("go workers", go_workers)),
    after(Group::Clients, foreign("java clients", java_clients)),
    beside(Group::Clients, foreign("python clients", python_clients)),
    beside(
        Group::Clients,
        autobahn_step(Lane::Foreign, "autobahn", autobahn),
    ),
    // Its clients wait for a second, here and there: on cores that are busy that is not enough.
    foreign("js clients", js_clients),
    foreign("what is installed", what_is_installed),
    foreign("js timing", js_timing),
    step(Lane::Nightly, "all histories", all_histories),
    step(Lane::Nightly, "histories of nodes", histories_of_nodes),
    step(Lane::Nightly, "faults put back", faults_put_back),
    step(
        Lane::Nightly,
        "faults of recovery put back",
        faults_of_recovery,
    ),
    step(Lane::Nightly, "long noise and churn", long_noise),
    step(Lane::Nightly, "long limits", long_limits),
    step(Lane::Nightly, "long fuzz", long_fuzz),
    step(Lane::Nightly, "macos", macos),
    step(Lane::Nightly, "debian package", debian_package),
    step(Lane::Nightly, "first hour", first_hour),
    step(Lane::Nightly, "first build", first_build),
    step(Lane::Nightly, "helm chart", helm_chart),
    step(Lane::Nightly, "libraries packed", libraries_packed),
    step(Lane::Nightly, "load scripts", load_scripts),
    step(Lane::Nightly, "an earlier build", an_earlier_build),
    autobahn_step(Lane::Nightly, "all of autobahn", all_of_autobahn),
];

/// A call of cargo on the whole workspace: the same crates with the same features each time, so that nothing is built twice.
fn cargo(name: &str, command: &str, more: &str) -> Step {
    Step::new(
        name,
        &format!("cargo {command} --profile ci --workspace --locked {more}"),
    )
}

pub fn format() -> Step {
    Step::new("format", "cargo fmt --all --check")
}

/// It is a workspace of its own.
pub fn fuzz_format() -> Step {
    Step::new(
        "format of libfuzzer",
        "cargo fmt --manifest-path fuzz/libfuzzer/Cargo.toml --check",
    )
}

pub fn lints() -> Step {
    cargo("lints", "clippy", "--all-targets -- --deny warnings")
        .while_others_wait()
        .takes("2 min")
}

/// What the steps after it run.
fn build_tests() -> Step {
    let tests = test_targets(|package| package != "gateway");
    cargo(BUILD_TESTS, "test", "--no-run --lib --bins")
        .args(&tests)
        .while_others_wait()
        .takes("4 min")
}

fn unit_tests() -> Step {
    let tests = test_targets(|package| !WITH_PROCESSES.contains(&package));
    cargo("unit tests", "test", "--no-fail-fast --lib --bins")
        .args(&tests)
        .leaves_foreign_tests()
        .while_others_wait()
        .takes("3 min")
}

fn web_check() -> Step {
    Step::new("web check", "npm run --silent check")
        .in_folder("web")
        .while_others_wait()
        .takes("10 s")
}

/// Downloads of programs and packages that only later steps need, beside the build. The step stands in no lane: `--no-install` leaves it out.
pub fn downloads() -> Step {
    Step::new("downloads", "cargo xtask install").takes("4 min")
}

/// Also what tests of the gateway start beside it: the conformance application.
fn build() -> Step {
    cargo(BUILD, "build", "--bins --examples").takes("1 min")
}

fn gateway_tests() -> Step {
    cargo(
        "gateway tests",
        "test",
        "--no-fail-fast --test it -- --test-threads",
    )
    .args(&[WAITING_TESTS.to_owned()])
    .env("TESTS_STUCK_AFTER", TESTS_STUCK_AFTER)
    .leaves_foreign_tests()
    .may_try_again()
    .takes("3 min")
}

/// Tests of workers speak frames. Here they speak gRPC.
fn workers_by_grpc() -> Step {
    cargo(
        "workers by gRPC",
        "test",
        "--no-fail-fast --test it -- backend:: --test-threads",
    )
    .args(&[WAITING_TESTS.to_owned()])
    .env("TESTS_STUCK_AFTER", TESTS_STUCK_AFTER)
    .env("WORKERS_FRAMING", "grpc")
    .leaves_foreign_tests()
    .may_try_again()
    .takes("1 min")
}

/// They wait for what a scenario's users do.
fn bench_tests() -> Step {
    let mut args = test_targets(|package| package == "bench");
    args.extend(["--", "--test-threads", "8"].map(str::to_owned));
    cargo("bench tests", "test", "--no-fail-fast")
        .args(&args)
        .leaves_foreign_tests()
        .may_try_again()
        .takes("1 min")
}

fn foreign_tests() -> Step {
    cargo(
        FOREIGN_TESTS[0],
        "test",
        "--no-fail-fast --test it -- --ignored --test-threads",
    )
    .args(&[WAITING_TESTS.to_owned()])
    .env("TESTS_STUCK_AFTER", TESTS_STUCK_AFTER)
    .may_try_again()
    .takes("10 min")
}

fn foreign_tests_of_crates() -> Step {
    let mut args = test_targets(|package| package != "gateway");
    args.extend(["--", "--ignored", "--test-threads", "14"].map(str::to_owned));
    cargo(FOREIGN_TESTS[1], "test", "--no-fail-fast --lib --bins")
        .args(&args)
        .may_try_again()
        .takes("2 min")
}

fn js_clients() -> Step {
    conformance("js clients", "--only js")
        .may_try_again()
        .takes("1 min")
}

fn python_clients() -> Step {
    conformance("python clients", "--only python")
        .may_try_again()
        .takes("30 s")
}

fn java_clients() -> Step {
    conformance("java clients", "--only java")
        .may_try_again()
        .takes("1 min")
}

fn autobahn() -> Step {
    conformance("autobahn", "--only autobahn").takes("2 min")
}

/// Alone, because these measure the time between packets.
fn js_timing() -> Step {
    conformance("js timing", "--only timing")
        .may_try_again()
        .takes("20 s")
}

fn browser() -> Step {
    Step::new("browser", "npm run --silent test")
        .in_folder("web")
        .env("SOCKEYE_BIN", &built("ci/sockeye").display().to_string())
        .may_try_again()
        .plays_files()
        .takes("2 min")
}

/// The steps that need it make it, too, unless it is fresh.
fn node_library() -> Step {
    Step::new("node library", "node build.mjs")
        .in_folder("sdk/node")
        .takes("5 s")
}

fn node_workers() -> Step {
    Step::new("node workers", "npm run --silent test")
        .in_folder("sdk/node")
        .env("SOCKEYE_BIN", &built("ci/sockeye").display().to_string())
        .may_try_again()
        .plays_files()
        .takes("20 s")
}

fn python_workers() -> Step {
    let binary = built("ci/sockeye").display().to_string();
    Step::new("python workers", "bash sdk/python/test.sh")
        .args(&[binary])
        .may_try_again()
        .takes("40 s")
}

/// Debian's Go is enough: the module has versions for it.
fn go_workers() -> Step {
    let binary = built("ci/sockeye").display().to_string();
    Step::new("go workers", "bash sdk/go/test.sh")
        .args(&[binary])
        .may_try_again()
        .takes("90 s")
}

fn client_library() -> Step {
    Step::new("client library", "npm run --silent test")
        .in_folder("sdk/client")
        .env("SOCKEYE_BIN", &built("ci/sockeye").display().to_string())
        .may_try_again()
        .takes("20 s")
}

fn examples() -> Step {
    Step::new("examples", "npm run --silent test")
        .in_folder("examples")
        .env("SOCKEYE_BIN", &built("ci/sockeye").display().to_string())
        .may_try_again()
        .takes("4 min")
}

fn clients_of_a_worker() -> Step {
    let application = built("ci/examples/conformance").display().to_string();
    Step::new("clients of a worker", "npm run --silent conformance")
        .in_folder("sdk/node")
        .env("APPLICATION", &application)
        .may_try_again()
        .takes("20 s")
}

fn what_is_installed() -> Step {
    let binary = built("ci/sockeye").display().to_string();
    Step::new("what is installed", "bash deploy/check/run.sh")
        .args(&[binary])
        .takes("10 s")
}

/// Does it compile for both of Apple's processors? Nothing is linked: Apple's linker and headers are not to be had here.
fn macos() -> Step {
    Step::new("macos", "bash .ci/macos.sh").takes("8 min")
}

/// The programs of this build, packed as a release packs its own, and installed in a Debian that has nothing else.
fn debian_package() -> Step {
    let binary = built("ci/sockeye").display().to_string();
    Step::new("debian package", "bash deploy/check/run.sh --package")
        .args(&[binary])
        .takes("5 min")
}

/// npm downloads what a newcomer's does.
fn first_hour() -> Step {
    let binary = built("ci/sockeye").display().to_string();
    Step::new("first hour", "python3 benchmarks/first-hour.py")
        .args(&[binary])
        .takes("90 s")
}

/// All other steps are of what is shipped, which has all features. The first command of README has none.
fn first_build() -> Step {
    Step::new(
        "first build",
        "cargo clippy --profile ci --package gateway --locked -- --deny warnings",
    )
    .takes("3 min")
}

/// Helm comes from its own source with Go, which takes minutes.
fn helm_chart() -> Step {
    let binary = built("ci/sockeye").display().to_string();
    Step::new("helm chart", "bash deploy/check/run.sh --chart")
        .args(&[binary])
        .takes("4 min")
}

/// As npm and PyPI would get them, and unpacked again.
fn libraries_packed() -> Step {
    let binary = built("ci/sockeye").display().to_string();
    Step::new("libraries packed", "bash deploy/check/run.sh --libraries")
        .args(&[binary])
        .takes("1 min")
}

/// Go builds k6 (144 s of processor time), and Artillery has 590 MB of packages: that takes minutes.
fn load_scripts() -> Step {
    let binary = built("ci/sockeye").display().to_string();
    Step::new("load scripts", "bash examples/load/run.sh")
        .args(&[binary])
        .takes("5 min")
}

/// A cluster of two builds: the earlier one is built here.
fn an_earlier_build() -> Step {
    let binary = built("ci/sockeye").display().to_string();
    Step::new("an earlier build", "bash benchmarks/mixed.sh")
        .args(&[binary])
        .takes("6 min")
}

fn all_histories() -> Step {
    Step::new(
        "all histories",
        "cargo test --profile ci -p sim -p backend --locked --test histories --test whole",
    )
    .env("SIM_SEEDS", "10000")
    .takes("30 min")
    .within(Duration::from_secs(5400))
}

/// Letters between nodes, their numbers and shares, and sockets that come back: each history takes longer.
fn histories_of_nodes() -> Step {
    Step::new(
        "histories of nodes",
        "cargo test --profile ci -p cluster -p hub --locked --lib --test histories --test numbers --test budgets --test dialogues",
    )
    .env("SIM_SEEDS", "1000")
    .takes("20 min")
    .within(Duration::from_secs(3600))
}

/// The simulator finds faults that hubs once had, and nothing where the shares of a turn are small.
fn faults_put_back() -> Step {
    Step::new(
        "faults put back",
        "cargo test --profile ci -p sim --features faults --locked --test histories --test known_faults --test known_faults_of_clusters",
    )
    .env("SIM_SEEDS", "10000")
    .takes("10 min")
}

/// The same of level `cluster`.
fn faults_of_recovery() -> Step {
    Step::new(
        "faults of recovery put back",
        "cargo test --profile ci -p hub --features faults --locked --lib --test dialogues known_faults",
    )
    .takes("5 min")
}

fn long_noise() -> Step {
    cargo(
        "long noise and churn",
        "test",
        "--test it -- noise:: churn --test-threads 1",
    )
    .env("SOCKEYE_NOISE_SECONDS", "600")
    .env("SOCKEYE_CHURN_SECONDS", "300")
    .takes("16 min")
}

/// Connections of one address come and go on three nodes, and are counted to the last one.
fn long_limits() -> Step {
    cargo(
        "long limits",
        "test",
        "--test it -- --ignored an_address_has_so_many --test-threads 1",
    )
    .env("SOCKEYE_LIMITS_SECONDS", "600")
    .takes("11 min")
}

fn long_fuzz() -> Step {
    Step::new("long fuzz", "sh fuzz/run.sh 600")
        .within(Duration::from_secs(4 * 3600))
        .takes("2 h 40 min")
}

fn all_of_autobahn() -> Step {
    conformance("all of autobahn", "--only autobahn --cases all").takes("17 min")
}

fn conformance(name: &str, more: &str) -> Step {
    let server = built("ci/examples/conformance").display().to_string();
    let more = more.split_whitespace().map(str::to_owned);
    let args: Vec<String> = ["--server".to_owned(), server]
        .into_iter()
        .chain(more)
        .collect();
    Step::new(name, "bash conformance/run.sh").args(&args)
}

/// `--test NAME` for all integration tests of these packages.
fn test_targets(of: fn(&str) -> bool) -> Vec<String> {
    let manifest = repository::root().join("Cargo.toml");
    let metadata = MetadataCommand::new()
        .manifest_path(manifest)
        .no_deps()
        .exec();
    let packages = metadata
        .map(|metadata| metadata.packages)
        .unwrap_or_default();
    let packages = packages.iter().filter(|package| of(package.name.as_str()));
    let targets = packages.flat_map(|package| &package.targets);
    let tests = targets.filter(|target| target.kind.contains(&TargetKind::Test));
    let names: BTreeSet<String> = tests.map(|target| target.name.clone()).collect();
    names
        .into_iter()
        .flat_map(|name| ["--test".to_owned(), name])
        .collect()
}
