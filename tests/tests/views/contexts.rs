//! Traces and spans that waiting threads work for, beside what the threads say themselves.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use tests::dist::{self, Linkage};
use tests::rights::missing_right;
use tests::target::Target;

/// Schemas that are read, and one that is another.
const SCHEMAS: [&str; 2] = ["tlsdesc_v1_dev", "tls_v1"];
const OTHER: &str = "go_pprof_labels_v1";

/// Trace and span of each thread, by its tid.
type Contexts = BTreeMap<i64, Option<(String, String)>>;

fn compile(folder: &Path, name: &str, options: &[&str]) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs/contexts.c");
    let made = folder.join(name);
    let options = [&["-Wall", "-Wextra", "-Werror"], options].concat();
    dist::compile_file("cc", &source, &made, &options, Linkage::Shared).unwrap();
    made
}

fn library(folder: &Path, name: &str, model: &str) -> PathBuf {
    let options = ["-DLIBRARY", "-DPADDED", "-shared", "-fPIC", model];
    compile(folder, name, &options)
}

fn why_now(target: &Target, options: &[&str]) -> Output {
    let mut command = Command::new("timeout");
    command.arg("60").arg(dist::tracer_user().unwrap());
    command.args(["why", "--now", "-p", &target.pid().to_string()]);
    let output = command.args(options).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    output
}

fn said(lines: &[String]) -> Contexts {
    let each = lines.iter().filter_map(|line| {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["context", tid, trace, span] => {
                Some((tid.parse().unwrap(), Some((trace.into(), span.into()))))
            }
            ["none", tid] => Some((tid.parse().unwrap(), None)),
            _ => None,
        }
    });
    each.collect()
}

/// Returns the contexts of the threads that a program has spoken of.
fn found(answer: &Value, said: &Contexts) -> Contexts {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let threads = answer["threads"].as_array().unwrap().iter();
    let each = threads.map(|thread| {
        let context = text(&thread["trace_id"]).zip(text(&thread["span_id"]));
        (thread["tid"].as_i64().unwrap(), context)
    });
    each.filter(|(tid, _)| said.contains_key(tid)).collect()
}

/// Runs the program until its threads wait for good, and compares.
fn compare(program: &Path, args: &[&str], is_known: bool) {
    compare_and(program, args, is_known, |_, _| ());
}

/// Looks at what is shown to people, of all threads and of those of one trace.
fn look_at_words(target: &Target, known: &[(String, String)]) {
    let shown = |options: &[&str]| String::from_utf8(why_now(target, options).stdout).unwrap();
    let all = shown(&[]);
    for (trace, span) in known {
        let words = format!("for trace {trace} span {span}");
        let is_it = |line: &str| line.ends_with(&words);
        let one = shown(&["--trace-id", trace]);
        assert!(all.lines().any(is_it) && one.lines().any(is_it), "{one}");
        assert_eq!(one.matches(" span ").count(), 1, "{one}");
    }
    let none = shown(&["--trace-id", &"e".repeat(32)]);
    assert!(none.starts_with("no thread that waits works"), "{none}");
}

/// Compares, and looks at more of the program, whose contexts are given.
fn compare_and(
    program: &Path,
    args: &[&str],
    is_known: bool,
    look: impl FnOnce(&Target, &[(String, String)]),
) {
    let (target, lines) = Target::start(Command::new(program).args(args)).unwrap();
    let mut said = said(&lines);
    assert_eq!(said.len(), 7, "{lines:?}");
    let known: Vec<_> = said.values().flatten().cloned().collect();
    assert_eq!(known.len(), 2);
    if !is_known {
        said.values_mut().for_each(|context| *context = None);
    }
    // One that runs yet has none.
    let limit = std::time::Duration::from_secs(60);
    let answer: Value = tests::wait_until("all threads wait", limit, || {
        let answer: Value =
            serde_json::from_slice(&why_now(&target, &["--format", "json"]).stdout)?;
        let threads = answer["threads"].as_array().unwrap();
        let all = threads.iter().all(|thread| thread["state"] == "waits");
        Ok(all.then_some(answer))
    })
    .unwrap();
    assert_eq!(found(&answer, &said), said, "{program:?} {args:?}");
    look(&target, &known);
    target.end().unwrap();
}

#[test]
#[ignore = "needs root: reads the memory of programs"]
fn a_waiting_thread_shows_the_trace_that_it_works_for_however_its_variable_is_found() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let own = compile(folder, "own", &["-DOWN", "-DPADDED", "-rdynamic"]);
    let is_known = cfg!(target_arch = "x86_64");
    if is_known {
        compare_and(&own, &SCHEMAS[1..], true, look_at_words);
    }
    // What is not said, or is of another kind, is not read.
    compare(&own, &["-"], false);
    compare(&own, &[OTHER], false);
    // A variable that is not there for others is not found.
    compare(&compile(folder, "hidden", &["-DOWN"]), &SCHEMAS[..1], false);
    if !is_known {
        return;
    }
    let opening = compile(folder, "opening", &[]);
    for (name, model) in [
        ("modules.so", "-mtls-dialect=gnu"),
        ("early.so", "-ftls-model=initial-exec"),
        ("descriptors.so", "-mtls-dialect=gnu2"),
    ] {
        let library = library(folder, name, model);
        let library = library.to_str().unwrap();
        compare(&opening, &[SCHEMAS[0], library], true);
    }
    let library = folder.join("descriptors.so");
    let library = format!("-Wl,--no-as-needed,{}", library.display());
    let linked = compile(folder, "linked", &["-DLINKED", &library]);
    compare(&linked, &SCHEMAS[..1], true);
}
