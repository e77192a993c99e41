//! What features and attacks cost, measured on gateways of its own on free ports of loopback; prints Markdown.
//!
//! `cargo build --release -p gateway -p bench && cargo run --release -p gateway --example costs -- <what>`

mod client;
mod compression;
mod flood;
mod gateway;
mod safety;
mod tester;
mod tls;

use clap::Parser;

#[derive(Debug, Parser)]
enum What {
    /// Tokens, rates, bounds per address and a scraped metrics listener, against none of them.
    Safety,
    /// The same, in memory of idle sessions.
    Memory,
    /// What fifty connections that send as fast as they can do to a thousand polite ones.
    Flood,
    /// Memory of idle TLS connections, processor time of handshakes, and what a storm of them does to others.
    Tls,
    /// The load tester, beside the gateway that it loads and beside a process that reads the same and looks at nothing.
    Tester,
    /// Processor time of compressed broadcasts, and bytes on the wire by each transport.
    Compression(compression::Flags),
}

fn main() -> anyhow::Result<()> {
    match What::parse() {
        What::Safety => safety::report(),
        What::Memory => safety::memory(),
        What::Flood => flood::report(),
        What::Tls => tls::report(),
        What::Tester => tester::report(),
        What::Compression(flags) => compression::report(&flags),
    }
}

/// The middle one of some figures.
fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied().unwrap_or(f64::NAN)
}
