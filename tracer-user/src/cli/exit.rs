//! Exit codes, and the one line that reports a failure: words, or a JSON object.

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitCode, ExitStatus};

use serde::Serialize;

use super::advice::{Advice, advice};
use tracer_event::document::object_line;
use tracer_output::terminal::Outcome;
use tracer_text::say;

/// Done, but events were lost.
pub const EVENTS_LOST: u8 = 1;
/// Failed.
pub const FAILED: u8 = 2;

/// Form in which a failure is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureForm {
    /// In words.
    InWords,
    /// As a JSON object.
    AsJson,
}

impl FailureForm {
    /// Returns the form that was asked for.
    #[must_use]
    pub fn choose(is_json: bool) -> Self {
        if is_json { Self::AsJson } else { Self::InWords }
    }
}

/// Returns the exit code of a result, and reports a failure in one line on the standard error.
pub fn code(result: anyhow::Result<ExitCode>, told: FailureForm) -> ExitCode {
    match result {
        Ok(code) => code,
        // `tracer-user attach 1 | head` closes the pipe: that is no failure.
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::debug!("{error:?}");
            let typed: Vec<OsString> = std::env::args_os().skip(1).collect();
            match told {
                FailureForm::InWords => say(&line(&error, &typed)),
                // A caller that has closed the standard error wants no messages.
                FailureForm::AsJson => {
                    drop(io::stderr().write_all(object(&error, &typed).as_bytes()));
                }
            }
            FAILED.into()
        }
    }
}

/// Returns the exit code of a trace.
pub fn from_outcome(outcome: Outcome) -> ExitCode {
    match outcome {
        Outcome::Complete => ExitCode::SUCCESS,
        Outcome::EventsLost => EVENTS_LOST.into(),
    }
}

/// Returns the exit code of a command that failed, as a shell shows it: its status, or 128 and the
/// signal that ended it. `None` for a command that did not fail.
pub fn from_command(status: ExitStatus) -> Option<ExitCode> {
    let code = match (status.code(), status.signal()) {
        (Some(code), _) => code,
        (None, Some(signal)) => 128 + signal,
        (None, None) => i32::from(FAILED),
    };
    (code != 0).then(|| u8::try_from(code).unwrap_or(FAILED).into())
}

/// Failure as a JSON object.
#[derive(Serialize)]
struct Failure {
    error: String,
    /// The innermost cause, where there are several.
    cause: Option<String>,
    /// What to do, where that is known.
    remedy: Option<String>,
    /// Command to type next.
    next: String,
    exit_code: u8,
}

fn object(error: &anyhow::Error, typed: &[OsString]) -> String {
    let said = chain(error);
    let Advice { remedy, next } = advice(error, &said, typed);
    let innermost = error.chain().skip(1).last();
    object_line(&Failure {
        cause: innermost.map(|cause| in_one_line(&cause.to_string())),
        error: said,
        remedy,
        next,
        exit_code: FAILED,
    })
}

/// Returns the line about a failure, which ends with the command to type next.
fn line(error: &anyhow::Error, typed: &[OsString]) -> String {
    let said = chain(error);
    let Advice { remedy, next } = advice(error, &said, typed);
    let is_said = |remedy: &String| said.contains(remedy.as_str());
    let remedy = remedy.filter(|remedy| !is_said(remedy));
    let remedy = remedy.map_or_else(String::new, |remedy| format!("; {remedy}"));
    if said.contains(&format!("`{next}`")) {
        return format!("{}{remedy}", shortened(said));
    }
    format!("{}{remedy} (next: {next})", shortened(said))
}

/// Joins the causes of an error on one line. A cause that ends the line already is not repeated.
fn chain(error: &anyhow::Error) -> String {
    let mut line = String::new();
    for cause in error.chain().map(|cause| without_path(cause.to_string())) {
        if line.is_empty() {
            line = cause;
        } else if !line.ends_with(&cause) {
            line = format!("{line}: {cause}");
        }
    }
    in_one_line(&line)
}

/// Leaves out the path that the kernel's verifier prints before what it refuses: it has thousands
/// of lines, which --verbose shows.
fn without_path(cause: String) -> String {
    const SAID: &str = " Verifier output: ";
    const LINES: usize = 3;
    let Some((before, path)) = cause.split_once(SAID) else {
        return cause;
    };
    let lines: Vec<&str> = path.lines().filter(|line| !line.is_empty()).collect();
    let left_out = lines.len().saturating_sub(LINES);
    if left_out == 0 {
        return cause;
    }
    let last = lines.get(left_out..).unwrap_or_default().join("\n");
    format!("{before}{SAID}[{left_out} lines, which --verbose shows]\n{last}")
}

fn in_one_line(lines: &str) -> String {
    let words: Vec<&str> = lines.lines().map(str::trim).collect();
    words.join(" ")
}

/// Shortens a line to a length that a person still reads. The kernel's verifier prints its whole
/// path, and the error at its end; `--verbose` shows all of it.
fn shortened(line: String) -> String {
    const HEAD: usize = 400;
    const TAIL: usize = 300;
    let length = line.chars().count();
    if length <= HEAD + TAIL {
        return line;
    }
    let head: String = line.chars().take(HEAD).collect();
    let tail: String = line.chars().skip(length - TAIL).collect();
    format!("{head} […] {tail}")
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .downcast_ref::<io::Error>()
        .is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_what_the_verifier_says_the_last_lines_are_shown() {
        let path: String = (0..5000)
            .map(|at| format!("{at}: (bf) r6 = r1\n"))
            .collect();
        let said = format!("EAGAIN. Verifier output: {path}\nR1 is bad\n");
        let error = anyhow::anyhow!(said).context("not taken");
        let line = chain(&error);
        assert!(
            line.starts_with("not taken: EAGAIN. Verifier output: [4998 lines"),
            "{line}"
        );
        assert!(line.ends_with("4999: (bf) r6 = r1 R1 is bad"), "{line}");
        let short = anyhow::anyhow!("EINVAL. Verifier output: R1 is bad");
        assert_eq!(chain(&short), "EINVAL. Verifier output: R1 is bad");
    }

    #[test]
    fn a_failure_of_several_lines_is_reported_in_one() {
        let error = anyhow::anyhow!("the verifier said:\n  no\n").context("cannot load");
        assert_eq!(chain(&error), "cannot load: the verifier said: no");
    }

    #[test]
    fn a_cause_that_was_reported_already_is_not_reported_twice() {
        #[derive(Debug, thiserror::Error)]
        #[error("cannot read the log: {0}")]
        struct Twice(#[from] io::Error);

        let error = io::Error::from_raw_os_error(libc::EISDIR);
        let error = anyhow::Error::new(Twice(error)).context("/etc is no log");
        assert_eq!(
            chain(&error),
            "/etc is no log: cannot read the log: Is a directory (os error 21)"
        );
    }

    #[test]
    fn an_object_has_all_of_a_failure() {
        let long = format!("cannot load: {}", "x".repeat(1000));
        let error = anyhow::anyhow!("no\n \u{1b}").context(long.clone());
        let line = object(&error, &["info".into()]);
        assert_eq!(line.matches('\n').count(), 1);
        assert!(!line.contains('\u{1b}'), "{line}");
        let parsed: serde_json::Value = serde_json::from_str(&line).unwrap();
        let expected = format!("{long}: no \u{1b}");
        assert_eq!(
            parsed,
            serde_json::json!({
                "error": expected,
                "cause": "no \u{1b}",
                "remedy": null,
                "next": "tracer-user info --help",
                "exit_code": 2,
                "schema": 1,
            })
        );
    }

    #[test]
    fn a_line_ends_with_the_command_to_type_next_once() {
        let typed = ["info".into()];
        let error = anyhow::anyhow!("no");
        assert_eq!(line(&error, &typed), "no (next: tracer-user info --help)");
        let error = anyhow::anyhow!("no; `tracer-user doctor` says why");
        assert_eq!(line(&error, &typed), "no; `tracer-user doctor` says why");
    }

    #[test]
    fn a_line_without_end_keeps_its_start_and_its_end() {
        let line = format!("cannot load: {} invalid access", "é".repeat(100_000));
        let line = shortened(line);

        assert!(line.starts_with("cannot load: é"), "{line}");
        assert!(line.ends_with("é invalid access"), "{line}");
        assert!(line.chars().count() < 1000);
    }

    #[test]
    fn a_command_that_failed_decides() {
        let status = |raw| from_command(ExitStatus::from_raw(raw));
        assert_eq!(status(0), None);
        assert_eq!(status(3 << 8), Some(ExitCode::from(3)));
        assert_eq!(status(libc::SIGKILL), Some(ExitCode::from(137)));
    }
}
