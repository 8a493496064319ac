//! Reports of race detectors on a program without races.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tests::dist::{self, Linkage};

/// The program, made with these options.
fn program(name: &str, options: &[&str], linkage: Linkage) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs/linking/in_turn.c");
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let options = [&["-g", "-Wall", "-Wextra", "-Werror"], options].concat();
    dist::compile_file("gcc", &source, &program, &options, linkage)
        .unwrap_or_else(|error| panic!("{error:#}"));
    program
}

/// Returns the messages of a tool, which must not have failed.
fn said(output: &Output) -> String {
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{}\n{said}", output.status);
    said
}

#[test]
fn thread_sanitizer_finds_no_race() {
    for linkage in [Linkage::Shared, Linkage::Static] {
        let program = program(
            &format!("tsan-{linkage:?}"),
            &["-fsanitize=thread"],
            linkage,
        );
        for _ in 0..3 {
            // It does not know all layouts of an address space.
            let output = Command::new("setarch").arg("-R").arg(&program).output();
            assert_eq!(said(&output.expect("setarch")), "", "{linkage:?}");
        }
    }
}

#[test]
fn valgrind_finds_no_race_but_what_the_library_s_file_names() {
    let suppressions = dist::folder()
        .unwrap_or_else(|error| panic!("{error:#}"))
        .join("share/posixtrace/valgrind.supp");
    let tools = ["helgrind", "drd"];
    let runs = tools.map(|tool| [(Linkage::Shared, tool), (Linkage::Static, tool)]);
    for (linkage, tool) in runs.iter().flatten() {
        let program = program(&format!("valgrind-{linkage:?}-{tool}"), &[], *linkage);
        let output = Command::new("valgrind")
            .args(["--quiet", "--error-exitcode=9"])
            .arg(format!("--tool={tool}"))
            .arg(format!("--suppressions={}", suppressions.display()))
            .arg(&program)
            .output();
        said(&output.expect("run: cargo xtask setup --test"));
    }
}
