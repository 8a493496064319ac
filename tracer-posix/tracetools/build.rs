//! Names the shared library, and links it with one that has the names of `libposixtrace.so.0`
//! alone: cargo builds no shared library for another one, and at run time the real one is found.

use std::path::Path;
use std::process::Command;
use std::{env, fs};

/// Names that this library uses of the other one, as C declares them.
const NAMES: &str = "\
void *__linux_trace_enabled;
void posix_trace_event(void) {}
void posix_trace_eventid_open(void) {}
";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=RUSTC_LINKER");
    let folder = env::var("OUT_DIR")?;
    let folder = Path::new(&folder);
    let source = folder.join("names.c");
    fs::write(&source, NAMES)?;
    let library = folder.join("libposixtrace.so");
    // The one for the target, where that is another one.
    let compiler = env::var("RUSTC_LINKER").unwrap_or_else(|_| "cc".to_owned());
    let made = Command::new(&compiler)
        .args(["-shared", "-nostdlib", "-w"])
        .arg("-Wl,-soname,libposixtrace.so.0")
        .arg("-o")
        .arg(&library)
        .arg(&source)
        .status()?;
    if !made.success() {
        return Err(format!("{compiler} cannot make {}: {made}", library.display()).into());
    }
    for argument in [
        &*library.to_string_lossy(),
        "-Wl,-soname,libtracetools.so",
        // It is a file of a folder below the one of the other library, or lies beside it.
        "-Wl,-rpath,$ORIGIN/..:$ORIGIN",
        // Programs hold pointers to its functions for as long as they live.
        "-Wl,-z,nodelete",
    ] {
        println!("cargo:rustc-cdylib-link-arg={argument}");
    }
    Ok(())
}
