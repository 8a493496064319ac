//! Options for the output of events and its look.

use std::ffi::OsString;
use std::path::PathBuf;

use super::source_options::EventSource;
use tracer_answers::budget::{Budget, LEAST_BYTES};
use tracer_output::report::{TextLook, TimeColumn};
use tracer_output::terminal::output::{ColorChoice, Sink};
use tracer_text::quantity::size;
use tracer_text::shell_word;

/// Output of events and its look, as typed.
#[derive(Debug, clap::Args)]
pub struct OutputArgs {
    /// Write events to this file; `-` is the standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// In text, what the first column shows
    #[arg(long, value_enum, value_name = "KIND", default_value = "relative")]
    time: TimeColumn,
    /// In text, when kinds of events have colours
    #[arg(long, value_enum, value_name = "WHEN", default_value = "auto")]
    color: ColorChoice,
}

impl OutputArgs {
    /// Returns the file that was typed.
    #[must_use]
    pub fn file(&self) -> Option<PathBuf> {
        self.output.clone()
    }

    /// Returns the sink of events: `otherwise` when no output was given.
    #[must_use]
    pub fn sink(&self, otherwise: Sink) -> Sink {
        self.output.clone().map_or(otherwise, Sink::from_typed)
    }

    /// Returns the look of text.
    #[must_use]
    pub fn look(&self) -> TextLook {
        TextLook {
            time: self.time,
            color: self.color,
        }
    }
}

/// Budget of an answer, as typed.
#[derive(Clone, Debug, clap::Args)]
pub struct BudgetArgs {
    /// At most so many bytes (4096, 16K; 256 at least): what does not fit is left out by whole
    /// lines, in JSON by whole entries of lists, and counted in a last line, or as "truncated".
    /// Without it, text on a terminal is cut to what its screen shows, and whole elsewhere
    #[arg(long, value_name = "BYTES")]
    budget: Option<String>,
}

impl BudgetArgs {
    /// Returns the budget of an answer that goes to `output`, as text or as JSON: text fits the
    /// screen there, where nothing else was asked for.
    ///
    /// # Errors
    ///
    /// It is no number of bytes, or too small.
    pub fn budget(&self, is_json: bool, output: &Sink) -> anyhow::Result<Budget> {
        let bytes = self.budget.as_deref();
        let bytes = bytes.map(|typed| size("--budget", typed, LEAST_BYTES, u64::from(u32::MAX)));
        let bytes = bytes.transpose()?.map(usize::try_from).transpose()?;
        let rest = without_budget(std::env::args_os().skip(1));
        let screen = output.screen().filter(|_| bytes.is_none() && !is_json);
        // What goes into a pipe is whole.
        let rest = match (screen, output) {
            (None, _) => rest,
            (Some(_), Sink::Stderr) => format!("{rest} 2>&1 | less"),
            (Some(_), _) => format!("{rest} | less"),
        };
        Ok(Budget {
            bytes,
            screen,
            rest: Some(rest),
        })
    }

    /// Returns the budget of an answer about this source. What was traced is over: the command that
    /// was typed would trace anew, and shows nothing of what was left out.
    ///
    /// # Errors
    ///
    /// It is no number of bytes, or too small.
    pub fn of_source(&self, is_json: bool, source: &EventSource) -> anyhow::Result<Budget> {
        let budget = self.budget(is_json, &source.output())?;
        let rest = budget.rest.filter(|_| !source.is_live());
        Ok(Budget { rest, ..budget })
    }
}

/// Returns the command that was typed, without the budget.
fn without_budget(typed: impl Iterator<Item = OsString>) -> String {
    let mut words = vec!["tracer-user".to_owned()];
    let mut typed = typed.map(|word| word.to_string_lossy().into_owned());
    let mut are_options = true;
    while let Some(word) = typed.next() {
        are_options &= word != "--";
        if are_options && word == "--budget" {
            typed.next();
        } else if !are_options || !word.starts_with("--budget=") {
            words.push(shell_word(&word));
        }
    }
    words.join(" ")
}

/// Format of an answer, as typed.
#[derive(Clone, Debug, clap::Args)]
pub struct FormatArgs {
    /// How it is shown: text, or json
    #[arg(long, value_enum, default_value = "text", hide_possible_values = true)]
    format: AnswerFormat,
    /// As --format json
    // What some commands had before all had a format.
    #[arg(long, hide = true, conflicts_with = "format")]
    json: bool,
}

/// Format of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum AnswerFormat {
    /// For people.
    Text,
    /// For programs.
    Json,
}

impl FormatArgs {
    /// Tells whether the format is JSON.
    #[must_use]
    pub fn is_json(&self) -> bool {
        self.json || self.format == AnswerFormat::Json
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rest_is_shown_by_what_was_typed_without_the_budget() {
        let typed = [
            "stat",
            "--budget",
            "4096",
            "--by=comm",
            "--",
            "sh",
            "--budget",
            "x y",
        ];
        let rest = without_budget(typed.iter().map(OsString::from));
        assert_eq!(rest, "tracer-user stat --by=comm -- sh --budget 'x y'");
        let typed = ["info", "log", "--budget=1K"];
        let rest = without_budget(typed.iter().map(OsString::from));
        assert_eq!(rest, "tracer-user info log");
    }
}
