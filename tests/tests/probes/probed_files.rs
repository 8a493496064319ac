//! Possible probes in a file, and its functions whose arguments have types.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use tests::dist;

fn probes(arguments: &[&str]) -> anyhow::Result<Output> {
    let mut command = Command::new(dist::tracer_user()?);
    Ok(command.arg("probes").args(arguments).output()?)
}

/// A program with functions of its own.
fn compiled(folder: &Path, options: &[&str]) -> anyhow::Result<PathBuf> {
    let (source, program) = (folder.join("f.c"), folder.join("f"));
    let text = "int first_of_two(int a) { return a; } static int second(void) { return 1; } \
        int main(void) { return first_of_two(second()); }";
    fs::write(&source, text)?;
    let mut compiler = Command::new("cc");
    compiler.args(options).arg("-o").arg(&program).arg(&source);
    anyhow::ensure!(compiler.status()?.success(), "cc");
    Ok(program)
}

#[test]
fn the_functions_of_a_file_are_those_that_nm_names() {
    let folder = tempfile::tempdir().unwrap();
    let program = compiled(folder.path(), &["-O0"]).unwrap();
    let output = probes(&["--format", "json", program.to_str().unwrap()]).unwrap();
    assert!(output.status.success(), "{output:?}");
    let listed = String::from_utf8(output.stdout).unwrap();
    let listed = listed
        .lines()
        .map(|line| -> Value { serde_json::from_str(line).unwrap() });
    let listed: BTreeSet<String> = listed
        .filter(|point| point["kind"] == "function")
        .map(|point| point["symbol"].as_str().unwrap().to_owned())
        .collect();
    let nm = Command::new("nm")
        .args(["--defined-only"])
        .arg(&program)
        .output()
        .unwrap();
    let nm = String::from_utf8(nm.stdout).unwrap();
    let named: BTreeSet<String> = nm
        .lines()
        .filter_map(|line| {
            let mut words = line.split_whitespace().skip(1);
            let kind = words.next()?;
            let name = words.next()?;
            matches!(kind, "t" | "T" | "W" | "w").then(|| name.to_owned())
        })
        .collect();
    for name in ["first_of_two", "second", "main"] {
        assert!(listed.contains(name) && named.contains(name), "{listed:?}");
    }
    // `nm` has marks of the linker beside functions.
    assert!(listed.is_subset(&named), "{listed:?} {named:?}");
}

#[test]
fn a_file_that_is_none_is_an_error_with_the_file_in_it() {
    let folder = tempfile::tempdir().unwrap();
    let text = folder.path().join("text");
    fs::write(&text, "no program").unwrap();
    for (path, what) in [
        (text.to_str().unwrap(), "is no program or library"),
        ("/nowhere/at/all", "cannot be read"),
        ("/dev/zero", "cannot be read"),
        ("", "pid"),
    ] {
        let output = probes(&[path]).unwrap();
        assert!(!output.status.success(), "{path}");
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.contains(path) && said.contains(what), "{said}");
    }
}

#[test]
fn digits_are_a_process_and_a_path_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let program = compiled(folder.path(), &["-O0"]).unwrap();
    fs::rename(&program, folder.path().join("4194305")).unwrap();
    let tracer_user = dist::tracer_user().unwrap();
    let of = |name: &str| {
        let mut command = Command::new(&tracer_user);
        command
            .current_dir(folder.path())
            .args(["probes", name, "first_of"]);
        command.output().unwrap()
    };
    let found = of("./4194305");
    assert!(found.status.success(), "{found:?}");
    let line = String::from_utf8(found.stdout).unwrap();
    assert_eq!(line, "--probe ./4194305:first_of_two\n");
    assert!(!of("4194305").status.success());
}
