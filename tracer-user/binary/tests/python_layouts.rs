//! Offsets of the fields of CPython, beside the headers of the interpreters that are installed.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use tracer_binary::probes::Binary;
use tracer_binary::python::PythonFile;
use tracer_common::kernel::PythonLayout;

/// Where an interpreter has its headers, and the file that has the interpreter.
const WHERE: &str = "
import os, sys, sysconfig
library = sysconfig.get_config_var('LIBDIR') + '/' + sysconfig.get_config_var('LDLIBRARY')
linked = sysconfig.get_config_var('Py_ENABLE_SHARED') and os.path.exists(library)
print(sysconfig.get_paths()['include'])
print(library if linked else sys.executable)
";

fn interpreters() -> Vec<PathBuf> {
    let mut all = vec![PathBuf::from("/usr/bin/python3")];
    let listed = std::env::var_os("TRACER_PYTHONS").unwrap_or_default();
    all.extend(std::env::split_paths(&listed));
    all
}

fn text(command: &mut Command) -> Option<String> {
    let output = command.output().ok()?;
    output
        .status
        .success()
        .then(|| String::from_utf8(output.stdout).unwrap())
}

/// Returns what the headers in a folder say, and where the interpreter is.
fn said(interpreter: &Path, folder: &Path) -> Option<(HashMap<String, u64>, PathBuf)> {
    let places = text(Command::new(interpreter).args(["-c", WHERE]))?;
    let (headers, file) = places.trim().split_once('\n')?;
    let source =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/programs/python/offsets.c");
    let program = folder.join("offsets");
    let mut compiler = Command::new("cc");
    for below in ["", "/internal", "/internal/mimalloc"] {
        compiler.arg(format!("-I{headers}{below}"));
    }
    // Debian has a part of them beside the others.
    compiler.arg(format!("-idirafter{headers}/.."));
    // Without its headers it is not compared.
    text(compiler.arg("-o").arg(&program).arg(source))?;
    let said = text(&mut Command::new(&program))?;
    let words = said.lines().map(|line| {
        let (name, value) = line.split_once(' ').unwrap();
        (name.to_owned(), value.parse().unwrap())
    });
    let file = Path::new(file).canonicalize().ok()?;
    Some((words.collect(), file))
}

fn fields(layout: &PythonLayout) -> Vec<(&'static str, u16)> {
    vec![
        ("interpreters", layout.interpreters),
        ("interpreter_next", layout.interpreter_next),
        ("interpreter_threads", layout.interpreter_threads),
        ("thread_next", layout.thread_next),
        ("thread_interpreter", layout.thread_interpreter),
        ("thread_id", layout.thread_id),
        ("thread_frame", layout.thread_frame),
        ("c_frame", layout.c_frame),
        ("frame_previous", layout.frame_previous),
        ("frame_code", layout.frame_code),
        ("frame_instruction", layout.frame_instruction),
        ("frame_owner", layout.frame_owner),
        ("code_file", layout.code_file),
        ("code_name", layout.code_name),
        ("code_first_line", layout.code_first_line),
        ("code_lines", layout.code_lines),
        ("text_ascii", layout.text_ascii),
        ("text_wide", layout.text_wide),
        ("text_length", layout.text_length),
        ("text_hash", layout.text_hash),
        ("text_state", layout.text_state),
        ("bytes", layout.bytes),
        ("c_owner", layout.c_owner),
        ("code_instructions", layout.code_instructions),
        ("code_version", layout.code_version),
        ("thread_c_frame", layout.thread_c_frame),
    ]
}

#[test]
fn offsets_are_those_of_the_headers() {
    let folder = tempfile::tempdir().unwrap();
    let mut compared = Vec::new();
    for interpreter in interpreters() {
        let Some((said, file)) = said(&interpreter, folder.path()) else {
            continue;
        };
        let binary = Binary::open(&file, &file, Path::new("/")).unwrap();
        let found = PythonFile::read(&binary).unwrap();
        if found.minor() == 0 {
            assert!(!(8..=14).contains(&said["minor"]), "{}", file.display());
            continue;
        }
        assert_eq!(
            u64::from(found.minor()),
            said["minor"],
            "{}",
            file.display()
        );
        for (name, offset) in fields(&found.layout()) {
            assert_eq!(
                u64::from(offset),
                said[name],
                "{name} of {}",
                file.display()
            );
        }
        compared.push(found.minor());
    }
    if std::env::var_os("TRACER_WHOLE").is_some() {
        for minor in 8..=14 {
            let needed = "is needed with its headers in TRACER_PYTHONS (`cargo xtask test` lists \
                          those of pyenv)";
            assert!(compared.contains(&minor), "CPython 3.{minor} {needed}");
        }
    }
}
