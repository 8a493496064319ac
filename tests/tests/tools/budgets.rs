//! Answers of at most so many bytes, and the same ones each time, of logs of all kinds.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::path::Path;
use std::process::Command;

use serde_json::Value;
use tests::log_reader::Log;
use tests::terminal::{self, Terminal, rows_of};
use tests::{
    dist, made, made_calls, made_ends, made_hostile, made_log, made_many, made_slices, made_stacks,
    made_storm,
};

/// Function that writes a log.
pub type Write = fn(&Path) -> anyhow::Result<()>;

pub const LOGS: [(&str, Write); 9] = [
    ("calls", |path| made_calls::write(path, 400)),
    ("each type", made::write_each_type),
    ("ends", made_ends::write),
    ("hostile", made_hostile::write),
    ("lost", |path| made_log::write(path, 3).map(drop)),
    ("many", |path| made_many::write(path).map(drop)),
    ("slices", made_slices::write),
    ("stacks", made_stacks::write),
    ("storm", made_storm::write),
];

/// Commands that have budgets, and whether what they write is JSON: one object, or lines of them.
const COMMANDS: [(&[&str], Form); 13] = [
    (&["explain"], Form::Text),
    (&["explain", "--format", "json"], Form::Document),
    (&["stat"], Form::Text),
    (&["stat", "--format", "json"], Form::Document),
    (&["why", "--whole"], Form::Text),
    (&["why", "--whole", "--format", "json"], Form::Document),
    (&["compare"], Form::Text),
    (&["compare", "--format", "json"], Form::Document),
    (&["info"], Form::Text),
    (&["info", "--format", "json"], Form::Document),
    (&["read"], Form::Text),
    (&["read", "--format", "json"], Form::Lines),
    (&["read", "--format", "csv"], Form::Text),
];

const BUDGETS: [usize; 4] = [256, 1000, 4096, 10_000_000];

#[derive(Clone, Copy, PartialEq)]
enum Form {
    Text,
    Document,
    Lines,
}

/// Runs a command about a log, which is compared with itself, and returns its answer.
fn answer(command: &[&str], log: &Path, budget: Option<usize>) -> Vec<u8> {
    let mut asked = Command::new(dist::tracer_user().unwrap());
    asked.args(command).arg(log);
    if command.first() == Some(&"compare") {
        asked.arg(log);
    }
    if let Some(bytes) = budget {
        asked.args(["--budget", &bytes.to_string()]);
    }
    let output = asked.output().unwrap();
    // Logs that lack something are answered for too; where there is no answer, there is an error.
    assert!(output.status.code().is_some(), "{output:?}");
    output.stdout
}

#[test]
fn no_answer_is_longer_than_its_budget_and_each_is_the_same_twice() {
    let mut answers = 0;
    for (name, write) in LOGS {
        let log = Log::written_by(write).unwrap();
        for (command, form) in COMMANDS {
            let whole = answer(command, &log.path(), None);
            for budget in BUDGETS {
                let said = answer(command, &log.path(), Some(budget));
                let what = format!("{command:?} of {name} in {budget}");
                assert!(said.len() <= budget, "{what}: {}", said.len());
                if budget == BUDGETS[1] {
                    assert_eq!(said, answer(command, &log.path(), Some(budget)), "{what}");
                }
                // What fits is whole.
                if whole.len() * 2 + 4096 <= budget {
                    assert_eq!(said, whole, "{what}");
                }
                let text = String::from_utf8(said).unwrap();
                match form {
                    Form::Text => {}
                    Form::Document if text.is_empty() => assert!(whole.is_empty(), "{what}"),
                    Form::Document => {
                        let value: Value = serde_json::from_str(&text).unwrap();
                        assert_eq!(value["schema"], 1, "{what}");
                        let is_cut = text.as_bytes() != whole;
                        assert_eq!(value.get("truncated").is_some(), is_cut, "{what}: {text}");
                    }
                    Form::Lines => {
                        for line in text.lines() {
                            serde_json::from_str::<Value>(line).unwrap();
                        }
                    }
                }
                answers += 1;
            }
        }
    }
    assert_eq!(answers, LOGS.len() * COMMANDS.len() * BUDGETS.len());
}

#[test]
fn what_is_left_out_of_lines_is_counted_by_the_last_one() {
    // The last call of it does not end.
    let log = Log::written_by(|path| made_calls::write(path, 400)).unwrap();
    let whole = text(answer(&["read"], &log.path(), None));
    let whole: Vec<_> = whole.lines().collect();
    assert!(whole.last().unwrap().ends_with("<unfinished ...>"));
    for budget in [1000, 4096, 20_000] {
        let said = text(answer(&["read"], &log.path(), Some(budget)));
        let mut said: Vec<_> = said.lines().collect();
        let last = said.pop().unwrap();
        assert_eq!(said, whole[..said.len()], "{budget}");
        // A call that never returns is shown with the one before it.
        let left_out = whole[said.len()..].iter();
        let left_out = left_out.filter(|line| !line.ends_with(") = ?")).count();
        let counted = format!("truncated: {left_out} entries are left out; ");
        assert!(last.starts_with(&counted), "{budget}: {left_out}: {last}");
    }
}

#[test]
fn an_explanation_fits_a_screen_and_names_do_nothing_to_a_terminal() {
    for (name, write) in LOGS {
        let log = Log::written_by(write).unwrap();
        let said = String::from_utf8(answer(&["explain"], &log.path(), None)).unwrap();
        assert!(
            said.lines().count() <= 40 && said.len() <= 4096,
            "{name}: {said}"
        );
        let is_harmless = |character: char| character == '\n' || !character.is_control();
        assert!(said.chars().all(is_harmless), "{name}: {said:?}");
    }
}

#[test]
fn a_budget_that_leaves_no_room_is_refused() {
    let log = Log::written_by(made_slices::write).unwrap();
    for typed in ["0", "255", "x", "-1"] {
        let output = Command::new(dist::tracer_user().unwrap())
            .arg("stat")
            .arg(log.path())
            .arg(format!("--budget={typed}"))
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(2), "{typed}");
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.contains("--budget"), "{said}");
    }
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap()
}

/// Commands whose text fits the screen of a terminal.
const ON_A_SCREEN: [&[&str]; 6] = [
    &["explain"],
    &["stat"],
    &["why", "--whole"],
    &["compare"],
    &["info"],
    &["read"],
];

/// Logs whose answers are larger than a screen, and smaller.
const CUT_ON_A_SCREEN: [&str; 4] = ["calls", "each type", "hostile", "slices"];

/// Returns the command about a log, as it is typed.
fn typed(command: &[&str], log: &Path) -> Vec<String> {
    let log = log.to_str().unwrap();
    let logs = if command.first() == Some(&"compare") {
        2
    } else {
        1
    };
    let words = command.iter().copied().chain(vec![log; logs]);
    words.map(str::to_owned).collect()
}

/// Returns what a command writes to a terminal, answer and messages.
fn on_a_terminal(words: &[String], size: (u16, u16)) -> String {
    let mut command = Command::new(dist::tracer_user().unwrap());
    command.args(words);
    terminal::written_to(command, size).unwrap()
}

#[test]
fn on_a_terminal_an_answer_fits_the_screen_and_says_what_shows_the_rest() {
    let mut cut = 0;
    let logs = LOGS
        .iter()
        .filter(|(name, _)| CUT_ON_A_SCREEN.contains(name));
    for (name, write) in logs {
        let log = Log::written_by(*write).unwrap();
        for command in ON_A_SCREEN {
            let words = typed(command, &log.path());
            let mut piped = Command::new(dist::tracer_user().unwrap());
            let piped = piped.args(&words).output().unwrap();
            let (answer, messages) = (text(piped.stdout), text(piped.stderr));
            let whole = format!("{answer}{messages}");
            assert!(!whole.contains("left out; all:"), "{whole}");
            for (columns, rows) in [(80, 24), (100, 50)] {
                let shown = on_a_terminal(&words, (columns, rows));
                let what = format!("{command:?} of {name} in {rows} rows: {shown}");
                // The prompt of a shell has room below.
                assert!(rows_of(&shown, columns) < usize::from(rows), "{what}");
                assert_eq!(shown, on_a_terminal(&words, (columns, rows)), "{what}");
                let said = shown
                    .lines()
                    .find(|line| line.contains(" are left out; all: "));
                let is_read = command == ["read"];
                let Some(said) = said else {
                    // Long lines of events are shortened.
                    let has_all = shown == whole || shown == format!("{messages}{answer}");
                    assert!(is_read || has_all, "{what}");
                    let lines = whole.lines().count();
                    assert_eq!(shown.lines().count(), lines, "{what}");
                    continue;
                };
                cut += 1;
                assert!(rows_of(&whole, columns) + 2 > usize::from(rows), "{what}");
                let rest = format!("all: tracer-user {} | less", words.join(" "));
                assert!(said.ends_with(&rest), "{what}");
                if is_read {
                    continue;
                }
                // Each line that is not shown is counted.
                let kept = shown
                    .lines()
                    .filter(|line| answer.lines().any(|of| of == *line));
                let (kept, lines) = (kept.count(), answer.lines().count());
                let counted = format!("truncated: {} of {lines} lines ", lines - kept);
                assert!(said.starts_with(&counted), "{what}");
            }
        }
    }
    assert!(cut > 10, "{cut}");
}

#[test]
#[ignore = "needs root"]
fn for_what_is_left_out_of_a_trace_that_is_over_nothing_is_run_again() {
    for command in [
        &["stat"][..],
        &["explain"],
        &["why", "--whole"],
        &["stat", "--count"],
    ] {
        let words = [command, &["--", "sh", "-c", "ls /; ls /; ls /"]].concat();
        let words: Vec<String> = words.into_iter().map(str::to_owned).collect();
        let shown = on_a_terminal(&words, (80, 8));
        let said = shown.lines().find(|line| line.contains(" are left out"));
        let said = said.unwrap_or_else(|| panic!("{words:?}: {shown}"));
        assert!(
            said.ends_with("left out; a pipe or a file gets all"),
            "{said}"
        );
    }
}

#[test]
fn a_real_terminal_shows_an_answer_from_its_first_line_to_its_last() {
    let log = Log::written_by(made_hostile::write).unwrap();
    let terminal = Terminal::start((80, 24), &[("NO_COLOR", "1")]).unwrap();
    for (nth, command) in ON_A_SCREEN.into_iter().enumerate() {
        let words = typed(command, &log.path());
        let shown = on_a_terminal(&words, (80, 24));
        let first: String = shown
            .chars()
            .take(40)
            .take_while(|of| *of != '\n')
            .collect();
        let program = dist::tracer_user().unwrap();
        let program = program.to_str().unwrap();
        let words = words.join(" ");
        terminal
            .text(&format!(
                "clear; {program} {words}; echo $((40+{nth})) is all"
            ))
            .unwrap();
        terminal.keys(&["Enter"]).unwrap();
        let end = format!("\n{} is all\n$", 40 + nth);
        let screen = terminal.wait_for_all("an answer", |screen| screen.contains(&end));
        let screen = screen.unwrap();
        assert!(
            screen.starts_with(first.trim_end()),
            "{command:?}: {first}\n{screen}"
        );
    }
}
