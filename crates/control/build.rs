//! Makes Rust types of the server API's messages, without `protoc`. And names what is embedded: the compiler does not see when such
//! files are added or removed.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    const FOLDER: &str = "../../proto";
    println!("cargo:rerun-if-changed=../../web/chat/dist");
    println!("cargo:rerun-if-changed=../../web/bundles");
    println!("cargo:rerun-if-changed={FOLDER}/sockeye/api");
    let files = protox::compile(["sockeye/api/v1/api.proto"], [FOLDER])?;
    prost_build::Config::new().compile_fds(files)?;
    Ok(())
}
