//! The threads that a thread had to give way to, beside the kernel's count of what those ran.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::process::Command;

use serde_json::Value;
use tests::dist;
use tests::rights::missing_right;
use tests::target::Target;

/// Returns how long a process ran so far, in nanoseconds.
fn ran_ns(pid: i32) -> u64 {
    let said = std::fs::read_to_string(format!("/proc/{pid}/schedstat")).unwrap();
    said.split(' ').next().unwrap().parse().unwrap()
}

/// Adds up the waits for a CPU: by the name of the thread that had it last, and whether others had
/// it too.
fn blame(parts: &Value, sums: &mut BTreeMap<(String, String), u64>) {
    for part in parts.as_array().unwrap() {
        if let Some(comm) = part["behind"]["comm"].as_str() {
            let key = (comm.to_owned(), part["behind_others"].to_string());
            *sums.entry(key).or_default() += part["ns"].as_u64().unwrap();
        }
        if let Some(within) = part.get("within") {
            blame(within, sums);
        }
    }
}

/// Waits of a victim for its CPU, by the name of the thread that had it last and whether others had
/// it too. Each of the others runs as the program has it, before and meanwhile; `ran` is how long.
struct Waits {
    sums: BTreeMap<(String, String), u64>,
    ran: Vec<u64>,
}

impl Waits {
    /// Runs a victim beside these roles.
    fn beside(others: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let program = dist::compile("given_way", folder.path()).unwrap();
        let start = |role: &&str| Target::start(Command::new(&program).arg(role)).unwrap().0;
        let others: Vec<Target> = others.iter().map(start).collect();
        let all = || others.iter().map(|one| ran_ns(one.pid()));
        let before: Vec<u64> = all().collect();

        let mut why = Command::new(dist::tracer_user().unwrap());
        why.args(["why", "--whole", "--format", "json", "--"]);
        let output = why.arg(&program).arg("victim").output().unwrap();
        assert!(output.status.success(), "{output:?}");

        let ran = all().zip(before).map(|(after, before)| after - before);
        let ran = ran.collect();
        let said = String::from_utf8(output.stderr).unwrap();
        let end = said.rfind("\n}").unwrap() + 2;
        let answer: Value = serde_json::from_str(&said[..end]).unwrap();
        let mut sums = BTreeMap::new();
        blame(&answer["slowest"][0]["parts"], &mut sums);
        Self { sums, ran }
    }

    fn sum(&self, name: &str, others: &str) -> u64 {
        let sum = self.sums.get(&(name.to_owned(), others.to_owned()));
        sum.copied().unwrap_or_default()
    }
}

#[test]
#[ignore = "needs root"]
fn of_those_that_are_not_traced_none_is_to_blame_for_more_than_it_ran() {
    if missing_right().is_some() {
        return;
    }
    let waits = Waits::beside(&["hog", "innocent"]);

    for (name, ran) in ["hog", "innocent"].into_iter().zip(&waits.ran) {
        // Interrupts count for no thread, nor does what a host takes.
        let alone = waits.sum(name, "false") + waits.sum(name, "null");
        assert!(alone <= ran + ran / 2, "{name} ran {ran}: {:?}", waits.sums);
    }
    // The innocent one has the CPU last, and both had it in most waits.
    assert!(waits.sum("innocent", "true") > 0, "{:?}", waits.sums);
    // Of some waits, one thread is all that there was.
    let mut alone = waits.sums.keys().filter(|(_, others)| others == "false");
    assert!(alone.next().is_some(), "{:?}", waits.sums);
}
