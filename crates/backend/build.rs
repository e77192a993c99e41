//! Makes Rust types of the protocol's messages, without `protoc`.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    const FOLDER: &str = "../../proto";
    println!("cargo:rerun-if-changed={FOLDER}");
    let files = protox::compile(["sockeye/worker/v1/worker.proto"], [FOLDER])?;
    prost_build::Config::new().bytes(["."]).compile_fds(files)?;
    Ok(())
}
