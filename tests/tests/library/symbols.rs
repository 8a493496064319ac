//! The names that the libraries bring into a program: those of the committed list and no others.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use tests::dist;

/// The committed list.
fn exports() -> BTreeSet<String> {
    let list = include_str!("../../../tracer-posix/libposixtrace/exports.txt");
    list.lines().map(str::to_owned).collect()
}

/// Returns the names that `nm` lists for a library with these options.
fn names(library: &str, options: &[&str]) -> BTreeSet<String> {
    let path = dist::folder().unwrap().join("lib").join(library);
    let output = Command::new("nm").args(options).arg(&path).output();
    let output = output.unwrap();
    assert!(output.status.success(), "nm {}", path.display());
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines()
        .filter_map(|line| line.split_whitespace().nth(2))
        .map(str::to_owned)
        .collect()
}

#[test]
fn the_shared_library_exports_what_the_list_says_and_nothing_else() {
    let found = names("libposixtrace.so", &["-D", "--defined-only"]);

    assert_eq!(found, exports());
}

#[test]
fn the_library_for_robots_exports_what_the_original_does_and_nothing_else() {
    let found = names("posixtrace/libtracetools.so", &["-D", "--defined-only"]);
    let original = include_str!("../../../tracer-posix/tracetools/exports.txt");

    assert_eq!(found, original.lines().map(str::to_owned).collect());
}

#[test]
fn the_static_library_has_no_other_global_names() {
    let found = names(
        "libposixtrace.a",
        &["--extern-only", "--defined-only", "--quiet"],
    );

    assert_eq!(found, exports());
}

#[test]
fn a_program_can_have_the_address_of_every_function_that_the_header_declares() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("addresses.c");
    let mut c = String::from("#include <stdio.h>\n#include <trace.h>\nint main(void)\n{\n");
    for name in exports().iter().filter(|name| name.starts_with("posix_")) {
        c += &format!("    printf(\"%d\\n\", (void (*)(void)){name} != 0);\n");
    }
    c += "    return 0;\n}\n";
    std::fs::write(&source, c).unwrap();

    for linkage in [dist::Linkage::Shared, dist::Linkage::Static] {
        let program = folder.path().join(format!("{linkage:?}"));
        // The cast is to a type that no function has; the program does not call through it.
        let options = ["-std=c99", "-Wall", "-Werror", "-Wno-address"];
        dist::compile_file("gcc", &source, &program, &options, linkage).unwrap();
        let output = Command::new(&program)
            .env("LD_LIBRARY_PATH", dist::folder().unwrap().join("lib"))
            .output()
            .unwrap();
        let ones = String::from_utf8(output.stdout).unwrap();
        let functions = exports()
            .into_iter()
            .filter(|name| name.starts_with("posix_"));
        assert_eq!(ones, "1\n".repeat(functions.count()));
    }
}

#[test]
fn cpp_programs_link_with_either_library() {
    let folder = tempfile::tempdir().unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs/standard/cpp.cc");
    for compiler in ["g++", "clang++"] {
        for linkage in [dist::Linkage::Shared, dist::Linkage::Static] {
            let program = folder.path().join(format!("{compiler}-{linkage:?}"));
            let options = ["-std=c++98", "-pedantic", "-Wall", "-Wextra", "-Werror"];
            dist::compile_file(compiler, &source, &program, &options, linkage).unwrap();
            let status = Command::new(&program)
                .env("LD_LIBRARY_PATH", dist::folder().unwrap().join("lib"))
                .status()
                .unwrap();
            assert!(status.success(), "{compiler} {linkage:?}");
        }
    }
}
