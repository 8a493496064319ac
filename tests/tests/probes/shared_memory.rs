//! Names of code that one process maps into the memory that it shares with another one, beside the
//! program's own words.

use std::fs;

use tests::comes_and_goes::callers_of_point;
use tests::command;
use tests::rights::missing_right;

use crate::names_by_time::{compile_with_two_places, read, run, unwinding};

/// Rounds of the program. In each, both processes make a call.
const ROUNDS: usize = 60;

#[test]
#[ignore = "loads eBPF"]
fn code_that_one_process_maps_has_its_name_in_another_one_of_that_memory() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    compile_with_two_places("shares_memory", folder.path());
    for (has_log, unwind) in [(false, ""), (true, ""), (true, "dwarf")] {
        let mut tool = run(unwinding(unwind));
        tool.args(if has_log {
            &["--force", "--log"][..]
        } else {
            &["-o"]
        });
        tool.arg(file("made"))
            .arg("--")
            .arg(file("shares_memory"))
            .arg(file("notes"));
        tool.arg(ROUNDS.to_string()).arg(file("library.so"));
        command::text(&mut tool).unwrap();
        let lines = if has_log {
            read(&file("made"))
        } else {
            fs::read_to_string(file("made")).unwrap()
        };
        let said = fs::read_to_string(file("notes")).unwrap();
        let said: Vec<_> = said.lines().collect();
        assert_eq!(said.len(), 2 * ROUNDS + 2);
        let found = callers_of_point(&lines).unwrap();
        let found: Vec<_> = found
            .iter()
            .map(|name| name.as_deref().unwrap_or("?"))
            .collect();
        assert_eq!(said, found, "{has_log} {unwind}");
    }
}
