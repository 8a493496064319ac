//! Names the shared library and keeps it loaded.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libposixtrace.so.0");
    // Threads and the C library hold pointers to functions of this library as long as the program
    // lives.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
