//! `tracer-user mcp`, asked by the protocol's own client: Python's `mcp`.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::BTreeSet;
use std::path::PathBuf;

use serde_json::{Value, json};
use tests::log_reader::Log;
use tests::rights::missing_right;
use tests::{dist, made_hostile, made_slices, tools};

const ABOUT_LOGS: [&str; 7] = [
    "open", "explain", "stat", "why", "compare", "read", "report",
];

fn program() -> PathBuf {
    dist::tracer_user().unwrap()
}

fn path(log: &Log) -> String {
    log.path().to_str().unwrap().to_owned()
}

/// The text of an answer, of which there is one, without a second copy of it.
fn text(answer: &Value) -> &str {
    assert_eq!(answer["others"], json!([]), "{answer}");
    let texts = answer["texts"].as_array().unwrap();
    assert_eq!(texts.len(), 1, "{answer}");
    texts[0].as_str().unwrap()
}

#[test]
fn a_client_lists_and_calls_every_tool_within_its_budget() {
    let log = Log::written_by(made_hostile::write).unwrap();
    let other = Log::written_by(made_slices::write).unwrap();
    let (log_path, other_path) = (path(&log), path(&other));
    for (mode, budgets) in [("auto", &[512, 3000, 200_000][..]), ("legacy", &[3000])] {
        let mut calls = vec![("open", json!({ "log": log_path }))];
        for (format, budget) in ["text", "json"]
            .into_iter()
            .flat_map(|format| budgets.iter().map(move |budget| (format, budget)))
        {
            for tool in ["open", "explain", "stat", "why", "read"] {
                calls.push((tool, json!({ "budget": budget, "format": format })));
            }
            let sides = json!({
                "a": other_path, "b": [other_path], "budget": budget, "format": format,
            });
            calls.push(("compare", sides));
        }
        calls.push(("report", json!({ "budget": "512" })));
        // The page of the first time is there.
        std::fs::remove_file(log.path().with_extension("html")).ok();
        let said = tools::mcp_client(&program(), &[], mode, &calls).unwrap();
        let listed = said["tools"].as_array().unwrap();
        let names: Vec<&str> = listed
            .iter()
            .map(|tool| tool["name"].as_str().unwrap())
            .collect();
        assert_eq!(names, ABOUT_LOGS, "{mode}");
        assert_eq!(said["server"], "tracer-user");
        assert!(
            said["instructions"]
                .as_str()
                .unwrap()
                .contains("tracer-user explain")
        );
        let answers = said["answers"].as_array().unwrap();
        assert_eq!(answers.len(), calls.len());
        let called: BTreeSet<&str> = calls.iter().map(|(tool, _)| *tool).collect();
        assert_eq!(called.len(), names.len());
        for (answer, (tool, arguments)) in answers.iter().zip(&calls) {
            let text = text(answer);
            assert_eq!(answer["error"], false, "{tool} {arguments}: {text}");
            let budget = arguments["budget"].as_u64().unwrap_or(8192);
            assert!(
                text.len() as u64 <= budget,
                "{tool} {arguments}: {}",
                text.len()
            );
            if arguments["format"] == "json" {
                let value: Value = serde_json::from_str(text).unwrap();
                let is_whole = value.get("truncated").is_none();
                assert!(value["note"].is_string() || !is_whole, "{text}");
                assert!(
                    is_whole || text.len() as u64 * 4 > budget || budget > 4096,
                    "{text}"
                );
            } else {
                assert!(text.starts_with("[recorded data: "), "{tool}: {text}");
            }
        }
        assert!(log.path().with_extension("html").is_file());
    }
}

#[test]
fn what_is_wrong_with_a_call_is_said_by_name_with_what_to_call_next() {
    let log = Log::written_by(made_slices::write).unwrap();
    let log = path(&log);
    let calls = [
        ("stat", json!({}), "no log was opened"),
        ("stat", json!({"log": "/nowhere/at/all"}), "/nowhere/at/all"),
        (
            "stat",
            json!({"log": log, "budgt": 600}),
            "is budget meant?",
        ),
        ("explian", json!({"log": log}), "is explain meant?"),
        ("stat", json!({"log": log, "sort": "runnin"}), "running"),
        (
            "read",
            json!({"log": log, "events": "frok"}),
            "is fork meant?",
        ),
        ("read", json!({"log": log, "filter": "ret <"}), "--filter"),
        (
            "read",
            json!({"log": "/proc/self/exe", "format": "json"}),
            "not a trace log",
        ),
        ("why", json!({"log": log, "span": "nonsense"}), "nonsense"),
        (
            "record",
            json!({"log": "/tmp/x", "command": ["true"]}),
            "--allow-record",
        ),
        ("waits", json!({"pid": 1}), "--allow-record"),
    ];
    let asked: Vec<_> = calls
        .iter()
        .map(|(tool, given, _)| (*tool, given.clone()))
        .collect();
    let said = tools::mcp_client(&program(), &[], "auto", &asked).unwrap();
    for (answer, (tool, given, words)) in said["answers"].as_array().unwrap().iter().zip(&calls) {
        assert_eq!(answer["error"], true, "{tool} {given}: {answer}");
        let text = text(answer);
        assert!(text.contains(words), "{tool} {given}: {text}");
        let refusal: Value = serde_json::from_str(text).unwrap();
        assert!(refusal["error"].is_string(), "{text}");
        assert!(
            refusal["next"].is_string() || refusal["remedy"].is_string(),
            "{text}"
        );
    }
}

/// Replaces the names of threads in all strings.
fn renamed(value: &Value, names: &[(String, &str)]) -> Value {
    match value {
        Value::String(text) => {
            let mut text = text.clone();
            for (name, to) in names {
                text = text.replace(name, to);
            }
            text.into()
        }
        Value::Array(all) => all.iter().map(|one| renamed(one, names)).collect(),
        Value::Object(all) => {
            let all = all.iter().map(|(key, one)| {
                // The file has the bytes of the names too; dates go by when it was made.
                let is_of_file = ["bytes", "first", "last", "time"].contains(&&**key);
                let one = if is_of_file {
                    Value::Null
                } else {
                    renamed(one, names)
                };
                (key.clone(), one)
            });
            Value::Object(all.collect())
        }
        other => other.clone(),
    }
}

#[test]
fn a_hostile_name_changes_nothing_but_a_string() {
    let hostile = Log::written_by(made_hostile::write).unwrap();
    let harmless = Log::written_by(made_hostile::write_harmless).unwrap();
    let calls = |log: &str, format: &str| -> Vec<(&str, Value)> {
        let tools = ["open", "explain", "stat", "why", "read"];
        let given = json!({ "log": log, "format": format, "budget": 1_000_000 });
        tools.iter().map(|tool| (*tool, given.clone())).collect()
    };
    // As they are in JSON, and as people read them.
    let escaped = ["\\u{202e}txt.exe", "a\\nb\\u{1b}[2J"];
    let mut names: Vec<(String, &str)> = Vec::new();
    for (name, to) in made_hostile::NAMES {
        let to = std::str::from_utf8(to).unwrap();
        names.push((String::from_utf8(name.to_vec()).unwrap(), to));
        let as_read = escaped
            .iter()
            .find(|as_read| as_read.ends_with(&*String::from_utf8_lossy(&name[name.len() - 3..])));
        names.extend(as_read.map(|as_read| ((*as_read).to_owned(), to)));
    }
    names.push((path(&hostile), "log"));
    names.push((path(&harmless), "log"));
    for format in ["text", "json"] {
        let ask = |log: &Log| {
            let log = path(log);
            tools::mcp_client(&program(), &[], "auto", &calls(&log, format)).unwrap()
        };
        let (of_hostile, of_harmless) = (ask(&hostile), ask(&harmless));
        assert_eq!(of_hostile["tools"], of_harmless["tools"]);
        let pairs = of_hostile["answers"].as_array().unwrap().iter();
        for (one, other) in pairs.zip(of_harmless["answers"].as_array().unwrap()) {
            let (one, other) = (text(one), text(other));
            let is_harmless = |character: char| character == '\n' || !character.is_control();
            assert!(one.chars().all(is_harmless), "{one:?}");
            assert!(!one.contains('\u{202e}'), "{one}");
            if format == "text" {
                assert_eq!(one.lines().count(), other.lines().count(), "{one}\n{other}");
                assert!(one.starts_with("[recorded data: "), "{one}");
                continue;
            }
            let value = |text: &str| serde_json::from_str::<Value>(text).unwrap();
            let (one, other) = (value(one), value(other));
            assert_ne!(one, other);
            assert_eq!(renamed(&one, &names), renamed(&other, &names));
        }
    }
}

#[test]
#[ignore = "loads eBPF"]
fn a_recording_is_made_where_that_is_allowed_and_later_calls_are_about_it() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("new.log");
    let mut sleeper = std::process::Command::new("sleep")
        .arg("60")
        .spawn()
        .unwrap();
    let calls = [
        (
            "record",
            json!({"log": log, "command": ["sleep", "0.2"], "budget": 3000}),
        ),
        ("stat", json!({"format": "json"})),
        ("waits", json!({"pid": sleeper.id(), "format": "json"})),
        ("record", json!({"log": log, "command": ["true"]})),
    ];
    let said = tools::mcp_client(&program(), &["--allow-record"], "auto", &calls).unwrap();
    sleeper.kill().unwrap();
    sleeper.wait().unwrap();
    assert_eq!(said["tools"].as_array().unwrap().len(), 9);
    let answers = said["answers"].as_array().unwrap();
    let explained = text(&answers[0]);
    assert!(explained.contains("clock_nanosleep"), "{explained}");
    assert!(explained.len() <= 3000);
    let stat: Value = serde_json::from_str(text(&answers[1])).unwrap();
    let threads = stat["answer"]["threads"].as_array().unwrap();
    assert!(
        threads.iter().any(|thread| thread["comm"] == "sleep"),
        "{stat}"
    );
    let waits: Value = serde_json::from_str(text(&answers[2])).unwrap();
    assert_eq!(waits["answer"]["threads"][0]["comm"], "sleep", "{waits}");
    // What is there is not replaced.
    assert_eq!(answers[3]["error"], true, "{}", answers[3]);
    assert!(text(&answers[3]).contains("already"), "{}", answers[3]);
}
