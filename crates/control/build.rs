//! Names what is embedded: the compiler does not see when such files are added or removed.

fn main() {
    println!("cargo:rerun-if-changed=../../web/chat/dist");
    println!("cargo:rerun-if-changed=../../web/bundles");
}
