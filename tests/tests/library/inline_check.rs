//! The inline check of `trace.h`, in every way in which a program can be linked.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};
use std::process::Command;

use tests::dist;

/// Compiles with the given compiler and flags; the library's flags come from `library`.
fn compile(compiler: &str, flags: &[&str], library: &[String], into: &Path) -> PathBuf {
    let program = into.join("program");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/programs/inline_check.c");
    let language = if compiler == "c++" { "c++" } else { "c" };
    let output = Command::new(compiler)
        .args(["-Wall", "-Wextra", "-Werror", "-pedantic", "-pthread"])
        .args(["-x", language, source, "-x", "none"])
        .args(flags)
        .arg("-I")
        .arg(dist::folder().unwrap().join("include"))
        .arg("-o")
        .arg(&program)
        .args(library)
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{compiler} {flags:?}: {errors}");
    program
}

fn shared_library() -> Vec<String> {
    let lib = dist::folder().unwrap().join("lib");
    let lib = lib.display();
    vec![
        format!("-L{lib}"),
        "-lposixtrace".to_owned(),
        format!("-Wl,-rpath,{lib}"),
    ]
}

fn static_library() -> Vec<String> {
    let archive = dist::folder().unwrap().join("lib/libposixtrace.a");
    vec![archive.display().to_string(), "-lm".to_owned()]
}

fn said(program: &Path) -> String {
    let output = Command::new(program).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {errors}", output.status);
    String::from_utf8(output.stdout).unwrap()
}

/// Output where three of seven trace points are open: one inlined, one by the function's address,
/// one in a child.
const THREE: &str = "recorded 3\n";

#[test]
fn trace_points_open_and_close_however_the_program_is_compiled_and_linked() {
    let ways: [&[&str]; 5] = [
        &["-O2", "-fPIE", "-pie"],
        // The exported pointer may then be in the program's own memory.
        &["-O2", "-fno-pie", "-no-pie"],
        &["-O0"],
        &["-O2", "-Wl,-z,now"],
        &["-O2", "-DLINUX_TRACE_NO_INLINE"],
    ];
    for compiler in ["cc", "c++"] {
        for flags in ways {
            for library in [shared_library(), static_library()] {
                let folder = tempfile::tempdir().unwrap();
                let program = compile(compiler, flags, &library, folder.path());
                assert_eq!(said(&program), THREE, "{compiler} {flags:?} {library:?}");
            }
        }
    }
}

#[test]
fn with_a_library_older_than_the_header_the_function_is_called() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("old.c");
    let old = "#include <stdio.h>\n\
               void posix_trace_event(unsigned type, const void *data, unsigned long length)\n\
               { printf(\"%u %.*s\\n\", type, (int)length, (const char *)data); }\n";
    std::fs::write(&source, old).unwrap();
    let library = folder.path().join("libold.so");
    let made = Command::new("cc")
        .args(["-shared", "-fPIC", "-o"])
        .args([&library, &source])
        .status()
        .unwrap();
    assert!(made.success());
    let library = [
        library.display().to_string(),
        format!("-Wl,-rpath,{}", folder.path().display()),
    ];
    for flags in [["-O2", "-fPIE", "-pie"], ["-O2", "-fno-pie", "-no-pie"]] {
        let flags = [&flags[..], &["-DWITHOUT_STREAMS"]].concat();
        let program = compile("cc", &flags, &library, folder.path());
        assert_eq!(said(&program), "256 inline\n");
    }
}
