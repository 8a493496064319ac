//! Options for the output of events and its look.

use std::path::PathBuf;

use tracer_output::report::{TextLook, TimeColumn};
use tracer_output::terminal::output::{ColorChoice, Sink};

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
