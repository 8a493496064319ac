//! The options that say where events are shown, and how they look.

use std::path::PathBuf;

use crate::report::{Look, TimeColumn};
use crate::terminal::output::{ColorChoice, Sink};

/// Where events are shown and how, as typed.
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
    /// The file that was typed.
    #[must_use]
    pub fn file(&self) -> Option<PathBuf> {
        self.output.clone()
    }

    /// Where events go: to `otherwise` where nothing else was said.
    #[must_use]
    pub fn sink(&self, otherwise: Sink) -> Sink {
        self.output.clone().map_or(otherwise, Sink::of)
    }

    /// How text looks.
    #[must_use]
    pub fn look(&self) -> Look {
        Look {
            time: self.time,
            color: self.color,
        }
    }
}
