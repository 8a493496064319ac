//! Formats of other tools: a row each.

use super::{TraceOrigin, chrome, ctf, parquet, perfetto};
use tracer_event::consumer::Consumer;
use tracer_event::robots::Callbacks;
use tracer_output::destination::Destination;

/// Format of another tool.
#[derive(Debug)]
pub struct ExportFormat {
    /// Name by which it is chosen.
    pub name: &'static str,
    /// Extension of its files' names.
    pub extension: &'static str,
    /// Whether people can read it.
    pub is_text: bool,
    /// Whether its view of an event depends on none being missing before.
    pub needs_gaps: bool,
    /// Whether it shows what has a beginning and an end, so that callbacks of robots are called
    /// after their nodes.
    has_slices: bool,
    /// Files of its folder; empty where it is one file.
    pub files: &'static [&'static str],
    /// Function that makes the consumer that writes to the destination.
    start: Start,
}

type Start = fn(&TraceOrigin, &Destination) -> anyhow::Result<Box<dyn Consumer>>;

/// All formats.
pub const FORMATS: &[ExportFormat] = &[
    // Perfetto's protobuf.
    ExportFormat {
        name: "perfetto",
        extension: "pftrace",
        is_text: false,
        needs_gaps: false,
        has_slices: true,
        files: &[],
        start: |origin, to| Ok(Box::new(perfetto::Perfetto::new(to.writer()?, origin)?)),
    },
    // The JSON trace event format.
    ExportFormat {
        name: "chrome",
        extension: "json",
        is_text: true,
        needs_gaps: false,
        has_slices: true,
        files: &[],
        start: |origin, to| Ok(Box::new(chrome::Chrome::new(to.writer()?, origin)?)),
    },
    // The Common Trace Format 1.8.
    ExportFormat {
        name: "ctf",
        extension: "ctf",
        is_text: false,
        needs_gaps: false,
        has_slices: false,
        files: &ctf::FILES,
        start: |origin, to| start_ctf(origin, to, ctf::Version::First),
    },
    // The Common Trace Format 2.
    ExportFormat {
        name: "ctf2",
        extension: "ctf2",
        is_text: false,
        needs_gaps: false,
        has_slices: false,
        files: &ctf::FILES,
        start: |origin, to| start_ctf(origin, to, ctf::Version::Second),
    },
    // Apache Parquet.
    ExportFormat {
        name: "parquet",
        extension: "parquet",
        is_text: false,
        needs_gaps: true,
        has_slices: false,
        files: &[],
        start: |origin, to| Ok(Box::new(parquet::Parquet::new(to.writer()?, origin)?)),
    },
];

fn start_ctf(
    origin: &TraceOrigin,
    to: &Destination,
    version: ctf::Version,
) -> anyhow::Result<Box<dyn Consumer>> {
    let ctf = ctf::Ctf::new(to.path(), origin.clone(), version)?;
    Ok(Box::new(ctf))
}

impl ExportFormat {
    /// Returns the format of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        FORMATS.iter().find(|format| format.name == name)
    }

    /// Makes the consumer that writes a trace to `destination`.
    ///
    /// # Errors
    ///
    /// It cannot be written.
    pub fn start(
        &self,
        origin: &TraceOrigin,
        destination: &Destination,
    ) -> anyhow::Result<Box<dyn Consumer>> {
        let format = (self.start)(origin, destination)?;
        Ok(if self.has_slices {
            Box::new(Callbacks::before(format))
        } else {
            format
        })
    }
}
