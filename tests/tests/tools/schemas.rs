//! Every answer in JSON is as `--schema` says: judged by Python's `jsonschema`, which allows no
//! member that the schema does not have.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::BTreeMap;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};
use tests::log_reader::Log;
use tests::rights::missing_right;
use tests::{dist, tools};

use super::budgets::LOGS;

/// Answers about a log. What they write is JSON, an object or lines of them.
const ABOUT_LOGS: [&[&str]; 8] = [
    &["info", "--format=json"],
    &["stat", "--format=json"],
    &["stat", "--format=json", "--locks", "--by=comm"],
    &["why", "--format=json"],
    &["why", "--format=json", "--whole", "--segments"],
    &["explain", "--format=json"],
    &["top", "--format=json", "--once", "--window=all"],
    &["read", "--format=json", "--budget=30000"],
];

fn tracer_user(arguments: &[&str]) -> Output {
    let mut command = Command::new(dist::tracer_user().unwrap());
    command
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

/// Answers, each with the schema of its command.
#[derive(Default)]
struct Answers {
    schemas: BTreeMap<String, Value>,
    all: Vec<Value>,
}

impl Answers {
    /// Adds what was written to both outputs: answers, and an error at the end of the second one.
    /// Returns how many objects that are.
    fn add(&mut self, arguments: &[&str], what: &str, output: &Output) -> usize {
        let command = arguments[0];
        let schema = self.schemas.entry(command.to_owned()).or_insert_with(|| {
            let printed = tracer_user(&[command, "--schema"]);
            serde_json::from_slice(&printed.stdout).unwrap()
        });
        let mut objects: Vec<Value> = Vec::new();
        for written in [&output.stdout, &output.stderr] {
            // A document is over several lines; notes for people never begin with a brace.
            let text = std::str::from_utf8(written).unwrap();
            let lines = text.lines().skip_while(|line| !line.starts_with('{'));
            let text = lines.collect::<Vec<_>>().join("\n");
            let read = serde_json::Deserializer::from_str(&text).into_iter();
            objects.extend(
                read.map(|object| object.unwrap_or_else(|e| panic!("{what}: {e}: {text:?}"))),
            );
        }
        let count = objects.len();
        let what = format!("{arguments:?} {what}");
        let answers = objects
            .into_iter()
            .map(|object| json!([what, schema, object]));
        self.all.extend(answers);
        count
    }

    /// Checks that what the command did is no more than the time that there was.
    fn check_times(&self) {
        let explained = self.all.iter().map(|answer| &answer[2]);
        for explained in explained.filter(|answer| answer["path_of"].is_string()) {
            let parts = explained["time"].as_object().unwrap().values();
            let sum: u64 = parts.map(|ns| ns.as_u64().unwrap()).sum();
            assert!(Some(sum) <= explained["wall_ns"].as_u64(), "{explained:#}");
        }
    }

    /// Runs a command, and adds its answer, of which there is one.
    fn ask(&mut self, arguments: &[&str], what: &str) {
        let output = tracer_user(arguments);
        assert!(
            self.add(arguments, what, &output) > 0,
            "{arguments:?} {output:?}"
        );
    }

    #[track_caller]
    fn check(&self) {
        self.check_times();
        let said = tools::json_by_schema(&self.all).unwrap();
        assert_eq!(said, [format!("{} checked", self.all.len())], "{said:#?}");
    }
}

#[test]
fn every_answer_about_a_log_is_as_its_schema_says() {
    let mut answers = Answers::default();
    let mut logs = Vec::new();
    // The test of a thousand answers has all of them.
    for (name, write) in LOGS.into_iter().step_by(3) {
        let log = Log::written_by(write).unwrap();
        let path = log.path().to_str().unwrap().to_owned();
        for command in ABOUT_LOGS {
            answers.ask(&[command, &[&path]].concat(), name);
        }
        logs.push((log, path));
    }
    let [(_, a), .., (_, b)] = &logs[..] else {
        panic!("no logs");
    };
    answers.ask(&["compare", "--format=json", a, b], "first and last");
    answers.ask(&["compare", "--format=json", a, a], "one twice");
    answers.check();
}

#[test]
fn every_answer_about_this_machine_is_as_its_schema_says() {
    let mut answers = Answers::default();
    answers.ask(&["doctor", "--format=json"], "");
    answers.ask(&["events", "--format=json"], "");
    answers.ask(&["probes", "/proc/self/exe", "main", "--format=json"], "");
    for wrong in [
        &["info", "/nowhere", "--format=json"][..],
        &["stat", "--format=json", "--frmat=json"],
        &["read", "/proc/self/exe", "--format=json"],
        &["compare", "--format=json", "/nowhere"],
        &["why", "--format=json", "--now", "-p", "4194305"],
        &["attach", "4194305", "--format=json"],
    ] {
        answers.ask(wrong, "wrong");
    }
    answers.check();
}

#[test]
#[ignore = "loads eBPF"]
fn every_answer_of_a_trace_is_as_its_schema_says() {
    if missing_right().is_some() {
        return;
    }
    let mut sleeper = Command::new("sleep").arg("60").spawn().unwrap();
    let pid = sleeper.id().to_string();
    let command = [
        "--",
        "sh",
        "-c",
        "for i in 1 2 3; do ls /proc/self/fd >/dev/null; done",
    ];
    let mut answers = Answers::default();
    answers.ask(
        &["why", "--now", "--stack", "--format=json", "-p", &pid],
        "",
    );
    answers.ask(&["events", "--tracepoints=sched:*", "--format=json"], "");
    for options in [
        &[
            "run",
            "--format=json",
            "--output=/dev/stderr",
            "--syscalls=all",
            "--stack=user",
        ][..],
        &[
            "stat",
            "--count",
            "--by=thread",
            "--format=json",
            "--interval=100ms",
        ],
        &["stat", "--count", "--format=json"],
        &[
            "stat",
            "--format=json",
            "--locks",
            "--syscalls=all",
            "--add-events=fault,irq,block",
        ],
        &["explain", "--format=json"],
    ] {
        answers.ask(&[options, &command].concat(), "a command");
    }
    sleeper.kill().unwrap();
    sleeper.wait().unwrap();
    answers.check();
}

/// Answers that have budgets.
const WITH_BUDGETS: [&[&str]; 8] = [
    &["explain"],
    &["explain", "--format=json"],
    &["stat"],
    &["stat", "--format=json"],
    &["why", "--whole"],
    &["why", "--whole", "--format=json"],
    &["info", "--format=json"],
    &["read", "--format=json"],
];

#[test]
fn a_thousand_answers_are_the_same_twice_within_their_budgets_and_as_their_schemas_say() {
    let budgets: Vec<usize> = (0..14)
        .map(|step| (256 << (step / 2)) + (step % 2) * 77)
        .collect();
    let mut answers = Answers::default();
    let mut runs = 0;
    for (name, write) in LOGS {
        let log = Log::written_by(write).unwrap();
        let path = log.path().to_str().unwrap().to_owned();
        for command in WITH_BUDGETS {
            for budget in &budgets {
                let option = format!("--budget={budget}");
                let typed = [command, &[&path, &option]].concat();
                let output = tracer_user(&typed);
                assert_eq!(
                    output.stdout,
                    tracer_user(&typed).stdout,
                    "{typed:?} of {name}"
                );
                let length = output.stdout.len();
                assert!(length <= *budget, "{typed:?} of {name}: {length}");
                if command.contains(&"--format=json") {
                    answers.add(&typed, name, &output);
                }
                runs += 1;
            }
        }
    }
    assert!(runs >= 1000, "{runs}");
    answers.check();
}
