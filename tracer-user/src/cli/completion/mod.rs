//! Candidates that a shell offers when Tab is pressed.
//!
//! A script for each shell (`tracer-user/completions`) asks the program itself: `tracer-user
//! __complete SHELL WORD...`. The answer has a line for each candidate. Text that others have
//! chosen, such as names of processes, is data for the shell and never code: text that could harm a
//! terminal is left out, and text that bash would interpret is quoted.

mod line;
mod probes;
mod processes;
mod values;

use std::ffi::OsString;
use std::io::{self, Write};
use std::process::ExitCode;

use clap_complete::CompletionCandidate;
use clap_complete::engine::complete;
use line::{BashLine, unquoted};
use tracer_text::escape::{harmless_line, is_harmless_line};

/// First argument of a shell's request.
const QUESTION: &str = "__complete";

/// Print what makes a shell complete the command line of this program
///
/// Packages install it. Elsewhere, in bash: source <(tracer-user completion bash). In zsh, the same
/// after compinit. In fish: tracer-user completion fish | source.
#[derive(Debug, clap::Args)]
pub struct CompletionArgs {
    /// Which shell
    #[arg(value_enum, value_name = "SHELL")]
    shell: Shell,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Shell {
    Bash,
    Zsh,
    Fish,
}

impl Shell {
    /// Returns the script that teaches the shell to ask.
    fn script(self) -> &'static str {
        match self {
            Self::Bash => include_str!("../../../completions/tracer-user.bash"),
            Self::Zsh => include_str!("../../../completions/_tracer-user"),
            Self::Fish => include_str!("../../../completions/tracer-user.fish"),
        }
    }
}

/// Prints the script.
///
/// # Errors
///
/// It cannot be printed.
pub fn run(args: &CompletionArgs) -> anyhow::Result<ExitCode> {
    io::stdout()
        .lock()
        .write_all(args.shell.script().as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

/// Answers the request of a shell, when the command line is one.
pub fn answer(definition: fn() -> clap::Command) -> Option<ExitCode> {
    let mut typed = std::env::args_os().skip(1);
    if typed.next()? != QUESTION {
        return None;
    }
    let words: Vec<OsString> = typed.collect();
    // Who presses Tab wants no messages between what was typed: no answer is one.
    let lines = lines(definition(), &words).unwrap_or_default();
    let written = io::stdout().lock().write_all(lines.as_bytes());
    Some(match written {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    })
}

/// Returns the lines of an answer.
fn lines(definition: clap::Command, question: &[OsString]) -> Option<String> {
    let (shell, rest) = question.split_first()?;
    let text = |word: &OsString| word.to_str().map(str::to_owned);
    match (shell.to_str()?, rest) {
        ("bash", [line, replaced]) => {
            let line = BashLine::new(line.to_str()?, replaced.to_str()?);
            let candidates = candidates(definition, &line.words)?;
            let replies = candidates.iter().filter_map(|(value, _)| line.reply(value));
            Some(replies.map(|reply| reply + "\n").collect())
        }
        // The words before the last one come without quotes. fish has the last one as it was
        // typed.
        (shell @ ("zsh" | "fish"), [.., _]) => {
            let mut words: Vec<String> = rest.iter().map(text).collect::<Option<_>>()?;
            if shell == "fish" {
                let last = words.pop()?;
                words.push(unquoted(&last));
            }
            let candidates = candidates(definition, &words)?;
            let lines = candidates.iter();
            Some(
                lines
                    .map(|(value, help)| format!("{value}\t{help}\n"))
                    .collect(),
            )
        }
        _ => None,
    }
}

/// Finds the possible last words, with descriptions. The last of `words` is the one that is
/// completed.
fn candidates(definition: clap::Command, words: &[String]) -> Option<Vec<(String, String)>> {
    let (last, before) = words.split_last()?;
    let mut definition = values::attach(definition, before);
    let typed = words.iter().map(OsString::from).collect();
    let here = std::env::current_dir().ok();
    let found = complete(&mut definition, typed, before.len(), here.as_deref()).ok()?;
    let of_options = found.iter().filter(|found| found.get_id().is_some());
    let is_option = |value: &str| of_options.clone().any(|option| option.get_value() == value);
    let all = found.iter().filter_map(|found| {
        let value = found.get_value().to_str()?;
        // A name that looks like an option would be taken for one.
        let is_in_disguise = value.starts_with('-') && !last.starts_with('-') && !is_option(value);
        if is_in_disguise || !is_harmless_line(value) {
            return None;
        }
        let help = found
            .get_help()
            .map(ToString::to_string)
            .unwrap_or_default();
        let first_line = help.lines().next().unwrap_or_default();
        Some((value.to_owned(), harmless_line(first_line).into_owned()))
    });
    Some(all.collect())
}

/// Creates a candidate from a value and its description.
pub fn candidate(value: impl Into<String>, help: impl Into<String>) -> CompletionCandidate {
    let help: String = help.into();
    CompletionCandidate::new(value.into()).help((!help.is_empty()).then(|| help.into()))
}

/// Returns the candidates that begin with the typed text.
pub fn that_begin_with(
    typed: &str,
    all: impl IntoIterator<Item = (String, String)>,
) -> Vec<CompletionCandidate> {
    let fitting = all
        .into_iter()
        .filter(|(value, _)| value.starts_with(typed));
    fitting
        .map(|(value, help)| candidate(value, help))
        .collect()
}

/// Does the same as [`that_begin_with`] for the last word of a list with commas: the text before
/// that word stays. Such words may have `!` before them.
pub fn in_list(
    typed: &str,
    all: impl IntoIterator<Item = (String, String)>,
) -> Vec<CompletionCandidate> {
    let begins = typed.rfind(',').map_or(0, |comma| comma + 1);
    let (before, word) = typed.split_at(begins);
    let bare = word.trim_start_matches('!');
    let before = typed.strip_suffix(bare).unwrap_or(before);
    let found = that_begin_with(bare, all).into_iter();
    found.map(|found| found.add_prefix(before)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complete(words: &[&str]) -> Vec<String> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let found = candidates(super::super::definition(), &words).unwrap();
        found.into_iter().map(|(value, _)| value).collect()
    }

    #[test]
    fn commands_options_and_values_of_options_are_offered() {
        assert_eq!(complete(&["tracer-user", "att"]), ["attach"]);
        assert_eq!(complete(&["tracer-user", "attach", "--cgr"]), ["--cgroup"]);
        assert_eq!(
            complete(&["tracer-user", "attach", "1", "--format", ""]),
            ["text", "json"]
        );
        assert!(complete(&["tracer-user", "completion", "z"]) == ["zsh"]);
    }

    #[test]
    fn event_types_are_offered_after_each_comma() {
        let offered = complete(&["tracer-user", "attach", "1", "--events", "fork,thread-cr"]);
        assert_eq!(offered, ["fork,thread-create"]);
        let offered = complete(&["tracer-user", "attach", "1", "--events", "us"]);
        assert_eq!(offered, ["user"]);
        let offered = complete(&["tracer-user", "run", "--syscalls", "%file,!opena"]);
        assert_eq!(offered, ["%file,!openat", "%file,!openat2"]);
    }

    #[test]
    fn this_process_is_offered_by_pid_and_what_it_is_called_is_the_help() {
        let pid = std::process::id().to_string();
        let words = ["tracer-user", "attach", &pid].map(str::to_owned);
        let found = candidates(super::super::definition(), &words).unwrap();
        let name = std::fs::read_to_string("/proc/self/comm").unwrap();
        let ours = found.iter().find(|(value, _)| *value == pid).unwrap();
        assert!(ours.1.starts_with(name.trim()), "{ours:?}");
    }

    #[test]
    fn a_shell_that_is_none_gets_no_answer() {
        for question in [&[][..], &["ksh", "x"], &["bash"], &["zsh"], &["bash", "a"]] {
            let words: Vec<OsString> = question.iter().map(OsString::from).collect();
            assert_eq!(lines(super::super::definition(), &words), None);
        }
    }
}
