//! Programs whose first thread ends before others.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::process::Command;

use serde_json::Value;
use tests::dist;
use tests::rights::missing_right;

/// Sums the parts in a state, and those within, which lie in others.
fn sum(parts: &Value, is_meant: &impl Fn(&Value) -> bool) -> u64 {
    let parts = parts.as_array().into_iter().flatten();
    let sums = parts.map(|part| match is_meant(part) {
        true => part["ns"].as_u64().unwrap(),
        false => sum(&part["within"], is_meant),
    });
    sums.sum()
}

/// Returns what a program says, and the whole of what it did.
fn whole(name: &str) -> (String, Value) {
    let folder = tempfile::tempdir().unwrap();
    let program = dist::compile(name, folder.path()).unwrap();
    let mut why = Command::new(dist::tracer_user().unwrap());
    why.args(["why", "--whole", "--format", "json", "--"]);
    let output = why.arg(&program).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let said = String::from_utf8(output.stderr).unwrap();
    let end = said.rfind("\n}").unwrap() + 2;
    let answer: Value = serde_json::from_str(&said[..end]).unwrap();
    let words = String::from_utf8(output.stdout).unwrap();
    (words, answer["slowest"][0].clone())
}

#[test]
#[ignore = "needs root"]
fn the_path_of_a_program_goes_up_to_its_last_thread() {
    if missing_right().is_some() {
        return;
    }
    let (words, slowest) = whole("first_ends");
    let took: u64 = words.trim().parse().unwrap();
    assert_eq!(slowest["name"], "first_ends", "{slowest}");
    assert_eq!(slowest["comm"], "second", "{slowest}");
    let all = slowest["ns"].as_u64().unwrap();
    assert!(all >= took, "{all} {took}");
    let parts = &slowest["parts"];
    let slept = sum(parts, &|part| part["in"] == "clock_nanosleep");
    assert!(slept >= 200_000_000, "{parts}");
    // What the first thread did is what the second one had to wait for.
    let unmade = sum(parts, &|part| part["maker"]["comm"] == "first_ends");
    assert!(unmade >= 50_000_000, "{parts}");
    assert!(sum(parts, &|_| true) == all, "{all} {parts}");
}

#[test]
#[ignore = "needs root"]
fn the_path_of_a_program_that_its_first_thread_ends_is_that_of_this_thread() {
    if missing_right().is_some() {
        return;
    }
    // Which of the others ends last is by chance.
    for _ in 0..5 {
        let (_, slowest) = whole("all_end");
        assert_eq!(slowest["comm"], "all_end", "{slowest}");
        let ran = sum(&slowest["parts"], &|part| part["state"] == "running");
        // The program computes for 100 ms of CPU time, some of which interrupts may have.
        assert!(ran >= 95_000_000, "{slowest}");
    }
}
