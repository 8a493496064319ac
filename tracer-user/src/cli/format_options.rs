//! Options for the format of an answer.

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
