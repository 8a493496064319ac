//! Permissions in octal, in every output, as strace shows them.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use tests::log_reader::{Log, text};
use tests::rights::missing_right;
use tests::{dist, tools};

const CALLS: &str = "umask,openat,fchmod,chmod,fchmodat,creat,mkdir,mkdirat";

/// A call and the permissions that it was given, or that it returned.
type Modes = Vec<(String, String)>;

/// Tells whether a word is an octal integer.
fn is_octal(word: &str) -> bool {
    word.len() > 1 && word.starts_with('0') && word.bytes().all(|byte| byte.is_ascii_digit())
}

/// The permissions in `NAME(…, MODE)` and in `NAME(…) = MODE`.
fn parse_call(call: &str) -> Modes {
    let (name, rest) = call.split_once('(').unwrap_or((call, ""));
    let (arguments, result) = rest.rsplit_once(')').unwrap_or((rest, ""));
    let argument = arguments.rsplit(", ").next().unwrap_or_default();
    [argument, result.trim_start_matches([' ', '='])]
        .into_iter()
        .filter(|word| is_octal(word))
        .map(|word| (name.trim().to_owned(), word.to_owned()))
        .collect()
}

fn strace(program: &Path, folder: &Path) -> Modes {
    let said = folder.join("strace");
    let status = Command::new("strace")
        .args(["-qq", "-o"])
        .arg(&said)
        .args(["-e", &format!("trace={CALLS}")])
        .arg(program)
        .current_dir(emptied(folder))
        .status()
        .unwrap();
    assert!(status.success(), "{status}");
    let said = fs::read_to_string(said).unwrap();
    said.lines().flat_map(parse_call).collect()
}

/// A new folder below `folder`.
fn emptied(folder: &Path) -> std::path::PathBuf {
    let inside = folder.join("inside");
    let _ = fs::remove_dir_all(&inside);
    fs::create_dir(&inside).unwrap();
    inside
}

fn traced(program: &Path, folder: &Path) -> Log {
    Log::written_by(|log| {
        let status = Command::new(dist::tracer_user()?)
            .args(["run", "--syscalls", CALLS, "--log"])
            .arg(log)
            .arg(program)
            .current_dir(emptied(folder))
            .stderr(Stdio::null())
            .status()?;
        anyhow::ensure!(status.success(), "{status}");
        Ok(())
    })
    .unwrap()
}

/// Returns the modes that the data of an event show: in its arguments by name, or in its result.
fn collect_from_data(data: &Value) -> Modes {
    let name = text(data, "name");
    let arguments = &data["arguments"];
    let modes = ["mode", "mask"].map(|key| text(arguments, key));
    let all = modes.into_iter().chain([text(data, "result")]);
    all.filter(|word| is_octal(word))
        .map(|word| (name.to_owned(), word.to_owned()))
        .collect()
}

/// Returns the modes of a slice, which has the arguments and the result.
fn collect_from_slice(name: &str, arguments: &Value) -> Modes {
    let words = ["mode", "mask", "ret"].map(|key| text(arguments, key));
    words
        .into_iter()
        .filter(|word| is_octal(word))
        .map(|word| (name.to_owned(), word.to_owned()))
        .collect()
}

fn rows(log: &Log) -> [Modes; 3] {
    let csv = log.file("csv");
    log.run("read", &["--format", "csv", "-o", csv.to_str().unwrap()])
        .unwrap();
    let csv = tools::python(&["csv_events.py"], &csv).unwrap();
    let parquet = log.export("parquet", &[]).unwrap();
    let parquet = tools::python(&["parquet_file.py", "events"], &parquet).unwrap();
    let parsed = |row: &Value| {
        collect_from_data(&serde_json::from_str(text(row, "data")).unwrap_or_default())
    };
    let events = log.events(&[]).unwrap();
    [
        events
            .iter()
            .flat_map(|event| collect_from_data(&event["data"]))
            .collect(),
        csv.iter().flat_map(parsed).collect(),
        parquet.iter().flat_map(parsed).collect(),
    ]
}

/// `… { name = "mkdir", …, arguments = "0x1, 0700" }`, or with a `result`.
fn babeltrace(log: &Log) -> Modes {
    let (printed, _) = tools::babeltrace2(&[], &log.export("ctf", &[]).unwrap()).unwrap();
    let quoted = |line: &str, name: &str| {
        let (_, rest) = line.split_once(&format!(" {name} = \""))?;
        // Quotes within are escaped.
        let rest = rest.replace("\\\"", "'");
        Some(rest.split_once('"')?.0.to_owned())
    };
    let of_line = |line: &str| {
        let (_, line) = line.split_once("}, {").unwrap_or_default();
        let name = quoted(line, "name").unwrap_or_default();
        let arguments = quoted(line, "arguments").unwrap_or_default();
        let result = quoted(line, "result").unwrap_or_default();
        parse_call(&format!("{name}({arguments}) = {result}"))
    };
    printed.lines().flat_map(of_line).collect()
}

fn chrome(log: &Log) -> Modes {
    let trace = fs::read(log.export("chrome", &[]).unwrap()).unwrap();
    let trace: Value = serde_json::from_slice(&trace).unwrap();
    let slices = trace["traceEvents"].as_array().unwrap().iter();
    slices
        .flat_map(|slice| collect_from_slice(text(slice, "name"), &slice["args"]))
        .collect()
}

fn perfetto(log: &Log) -> Modes {
    let query = "SELECT name, key, string_value FROM slice JOIN args USING (arg_set_id)
        WHERE key IN ('debug.mode', 'debug.mask', 'debug.ret') AND string_value IS NOT NULL
        ORDER BY ts, args.id";
    let trace = log.export("perfetto", &[]).unwrap();
    let answers = tools::trace_processor(&trace, &[query]).unwrap();
    let found = answers[0].iter().map(|row| {
        (
            text(row, "name").to_owned(),
            text(row, "string_value").to_owned(),
        )
    });
    found.collect()
}

#[test]
#[ignore = "loads eBPF"]
fn permissions_are_octal_in_every_output_as_strace_shows_them() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = dist::compile("modes", folder.path()).unwrap();
    let expected = strace(&program, folder.path());
    assert_eq!(expected.len(), 2 * 2 + 7, "{expected:?}");

    let log = traced(&program, folder.path());
    let printed = log.run("read", &[]).unwrap();
    let printed = String::from_utf8(printed.stdout).unwrap();
    let of_line = |line: &str| {
        let (_, call) = line.split_once(" syscall ").unwrap_or_default();
        // The time that it took is at the end.
        parse_call(call.rsplit_once(" <").unwrap_or_default().0)
    };
    let found: Modes = printed.lines().flat_map(of_line).collect();
    assert_eq!(found, expected, "{printed}");
    assert_eq!(rows(&log), [(); 3].map(|()| expected.clone()));
    assert_eq!(babeltrace(&log), expected);
    assert_eq!(chrome(&log), expected);
    assert_eq!(perfetto(&log), expected);
}
