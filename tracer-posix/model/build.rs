//! Says `cfg(loom)`: the library's files leave out their unit tests here.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cfg=loom");
}
