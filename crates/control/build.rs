//! Files that are embedded are not seen by the compiler when they are added or removed.

fn main() {
    println!("cargo:rerun-if-changed=../../web/chat/dist");
    println!("cargo:rerun-if-changed=../../web/bundles");
}
