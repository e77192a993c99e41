//! Makes Rust types of the protocol's messages, without `protoc`.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    const FOLDER: &str = "../../proto";
    println!("cargo:rerun-if-changed={FOLDER}");
    let files = protox::compile(["sockeye/worker/v1/worker.proto"], [FOLDER])?;
    let mut config = prost_build::Config::new();
    config.bytes(["."]);
    // Events and acks are the many, and are moved often: larger messages stand beside them.
    for large in [
        "Item.what.connect",
        "Item.what.resume",
        "Command.what.emit",
        "Command.what.ask",
        "Command.what.tell",
    ] {
        config.boxed(format!(".sockeye.worker.v1.{large}"));
    }
    config.compile_fds(files)?;
    Ok(())
}
