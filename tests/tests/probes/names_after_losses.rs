//! Names of code where the reader of a stream is late, so that newer events replace others, and
//! with them what was mapped, beside what each event itself says of where it was made.

use std::fs;
use std::process::Command;

use tests::rights::missing_right;
use tests::{dist, is_whole};

use crate::names_by_time::compile_with_two_places;

#[test]
#[ignore = "loads eBPF"]
fn where_mappings_may_be_lost_names_are_unknown_and_come_back() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    compile_with_two_places("says_where", folder.path());
    let (mut right, mut overflows) = (0, 0);
    for _ in 0..if is_whole() { 10 } else { 3 } {
        let mut tool = Command::new(dist::tracer_user().unwrap());
        tool.args(["run", "--format", "json", "--syscalls", "close"]);
        tool.args(["--stack", "user", "--stack-for", "syscall-enter"]);
        // There is room for some 200 calls.
        tool.args(["--ring-size", "64M", "--stream-size", "64K", "-o"]);
        tool.arg(file("shown")).arg("--").arg(file("says_where"));
        tool.args(["40", "700"]).arg(file("library.so"));
        // Its events are lost, which is said.
        assert_eq!(tool.output().unwrap().status.code(), Some(1));
        for line in fs::read_to_string(file("shown")).unwrap().lines() {
            let event: serde_json::Value = serde_json::from_str(line).unwrap();
            overflows += usize::from(event["type"] == "posix_trace_overflow");
            if event["type"] != "linux_trace_syscall_enter" {
                continue;
            }
            let expected = match event["data"]["arguments"]["fd"].as_u64() {
                Some(1000) => "in_a",
                Some(1001) => "in_b",
                _ => continue,
            };
            let found = [0, 1].map(|at| event["stack"][at]["symbol"].as_str());
            let is_right = found[1].is_none_or(|found| found == expected);
            assert!(is_right, "{line}");
            right += usize::from(found == [Some("point"), Some(expected)]);
        }
    }
    assert!(overflows > 0 && right > 100, "{overflows} {right}");
}
