//! Open log.

use std::path::PathBuf;
use std::sync::Arc;

use pyo3::prelude::*;
use serde::Serialize;
use serde_json::json;
use tracer_answers::queries::{Paths, Question, SpanChoice};
use tracer_answers::stat::{self, Statistics, View};
use tracer_answers::why::{self, Why};
use tracer_engine::ClockPair;
use tracer_event::document::document;
use tracer_log_view::{Inventory, Walk, WantedEvents, json as inventory_json, open};
use tracer_tables::{RowOrigin, TableDefinition, TableSetup};

use crate::choice::TableQuery;
use crate::failure::exception;
use crate::reading::LogReading;
use crate::table::PyTable;

/// Log that was opened.
#[pyclass(frozen, name = "Log", module = "tracer._native")]
pub struct PyLog {
    path: PathBuf,
    origin: RowOrigin,
    anchor: ClockPair,
}

/// Query of events and rows, by keyword.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct Chosen {
    types: Option<Vec<String>>,
    pids: Option<Vec<i32>>,
    tids: Option<Vec<i32>>,
    comm: Option<String>,
    syscalls: Option<String>,
    filter: Option<String>,
    start: Option<String>,
    end: Option<String>,
    limit: Option<u64>,
    spans: Option<Vec<String>>,
}

impl From<Chosen> for TableQuery {
    fn from(chosen: Chosen) -> Self {
        Self {
            types: chosen.types,
            pids: chosen.pids.unwrap_or_default(),
            tids: chosen.tids.unwrap_or_default(),
            comm: chosen.comm,
            syscalls: chosen.syscalls,
            filter: chosen.filter,
            start: chosen.start,
            end: chosen.end,
            limit: chosen.limit,
            spans: chosen.spans.unwrap_or_default(),
        }
    }
}

/// Spans or the thread that `why` is asked about.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct Asked {
    spans: Option<Vec<String>>,
    thread: Option<i32>,
    whole: bool,
    slowest: usize,
    longer_than_ns: u64,
    pids: Option<Vec<i32>>,
}

#[pymethods]
impl PyLog {
    /// Opens the log at `path`; host and boot are those of its rows.
    #[new]
    fn new(path: PathBuf, host: Option<String>, boot_id: Option<String>) -> PyResult<Self> {
        let log = open(&path).map_err(|error| exception(&error))?;
        let header = log.header();
        let anchor = header.anchor;
        let origin = RowOrigin::from_trace(header.attributes.name().as_bytes(), anchor);
        Ok(Self {
            path,
            origin: RowOrigin {
                host: host.map(Into::into),
                boot_id: boot_id.map(Into::into),
                ..origin
            },
            anchor,
        })
    }

    /// Identifier of its trace.
    #[getter]
    fn trace_id(&self) -> &str {
        &self.origin.trace_id
    }

    /// Time of its beginning on the monotonic clock, in nanoseconds.
    #[getter]
    fn start_ns(&self) -> u64 {
        self.anchor.monotonic.0
    }

    /// Date of its beginning, in nanoseconds since 1970.
    #[getter]
    fn start_date_ns(&self) -> u64 {
        self.anchor.realtime.0
    }

    /// Returns a table with the rows that are chosen.
    fn table(
        &self,
        name: &str,
        chosen: Chosen,
        columns: Option<Vec<String>>,
        most_rows: usize,
        follow: bool,
    ) -> PyResult<PyTable> {
        let made = self.reading(name, &chosen.into(), columns, most_rows, follow);
        made.map(PyTable::new).map_err(|error| exception(&error))
    }

    /// Returns what `tracer-user info` says, as JSON.
    fn info(&self, py: Python<'_>) -> PyResult<String> {
        py.detach(|| {
            let log = open(&self.path)?;
            let bytes = std::fs::metadata(&self.path)?.len();
            let inventory = Inventory::take(Walk::new(log, WantedEvents::default()), bytes)?;
            Ok(document(&inventory_json(&inventory)))
        })
        .map_err(|error: anyhow::Error| exception(&error))
    }

    /// Returns what `tracer-user stat` says, as JSON.
    fn stat(&self, py: Python<'_>, chosen: Chosen) -> PyResult<String> {
        let choice = TableQuery::from(chosen);
        py.detach(|| {
            let walk = Walk::new(open(&self.path)?, WantedEvents::default());
            let scope = choice.scope(self.anchor)?;
            let statistics = Statistics::take(walk.naming_by(&self.path), choice.specs()?, scope)?;
            statistics.check_scope()?;
            let notes = statistics.paths.unmet();
            answer(&stat::json(&statistics, View::default()), &notes)
        })
        .map_err(|error: anyhow::Error| exception(&error))
    }

    /// Returns what `tracer-user why` says, as JSON.
    fn why(&self, py: Python<'_>, asked: Asked) -> PyResult<String> {
        py.detach(|| self.explain(asked))
            .map_err(|error| exception(&error))
    }
}

impl PyLog {
    fn reading(
        &self,
        name: &str,
        choice: &TableQuery,
        columns: Option<Vec<String>>,
        most_rows: usize,
        follow: bool,
    ) -> anyhow::Result<LogReading> {
        let Some(table) = TableDefinition::named(name) else {
            anyhow::bail!("there is no table {name:?}; tracer.TABLES has them");
        };
        let unknown = columns.iter().flatten().find(|name| {
            let mut columns = table.columns();
            !columns.any(|column| column.name == **name)
        });
        if let Some(unknown) = unknown {
            anyhow::bail!("table {name} has no column {unknown:?}; tracer.TABLES lists them");
        }
        let log = open(&self.path)?;
        let wanted = if name == "events" {
            choice.events(log.event_types())?
        } else {
            choice.inputs()?
        };
        Ok(LogReading {
            path: Arc::from(self.path.as_path()),
            wanted,
            setup: TableSetup {
                columns,
                spans: choice.specs()?,
                scope: choice.scope(self.anchor)?,
                tids: choice.tids.clone(),
                most_rows,
                defers: true,
                ..TableSetup::new(table, self.origin.clone())
            },
            follow,
        })
    }

    fn explain(&self, asked: Asked) -> anyhow::Result<String> {
        let question = if asked.whole || asked.thread.is_some() {
            Question::Thread {
                tid: asked.thread,
                from: None,
                until: None,
            }
        } else {
            let choice = TableQuery {
                spans: asked.spans.unwrap_or_default(),
                ..TableQuery::default()
            };
            Question::Spans(choice.specs()?)
        };
        let choice = SpanChoice {
            slowest: asked.slowest,
            longer_than: asked.longer_than_ns,
            ..SpanChoice::default()
        };
        let scope = TableQuery {
            pids: asked.pids.unwrap_or_default(),
            ..TableQuery::default()
        }
        .scope(self.anchor)?;
        let walk = Walk::new(open(&self.path)?, WantedEvents::default()).naming_by(&self.path);
        let why = Why::find(walk, Paths::new(question, choice).within(scope))?;
        if let Some(unmet) = why.unanswered() {
            anyhow::bail!("{}: {unmet}", self.path.display());
        }
        let notes = why.paths.unmet();
        answer(&why::json(&why), &notes)
    }
}

/// Returns an answer as JSON, with what is to be said beside it.
fn answer(value: &impl Serialize, notes: &[String]) -> anyhow::Result<String> {
    Ok(serde_json::to_string(
        &json!({ "answer": value, "notes": notes }),
    )?)
}
