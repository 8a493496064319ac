//! Events and rows that are chosen, as they are given in Python.

use std::sync::Arc;

use anyhow::{Context as _, ensure};
use tracer_answers::queries::{Scope, SpanSpec};
use tracer_common::event_type::FIRST_USER_EVENT;
use tracer_engine::event::MonotonicNs;
use tracer_engine::{ClockPair, EventTypes};
use tracer_event::predicate::{Expression, Predicate};
use tracer_event::selection::Selection;
use tracer_log_view::{Moment, TimePoint, WantedEvents};
use tracer_syscalls::choice::SyscallSet;
use tracer_text::NamePattern;

/// Query, as it was given.
#[derive(Clone, Debug, Default)]
pub struct TableQuery {
    /// Types and families of events, and names of the log's own.
    pub types: Option<Vec<String>>,
    /// Processes.
    pub pids: Vec<i32>,
    /// Threads.
    pub tids: Vec<i32>,
    /// Name of threads, with `*` and `?`.
    pub comm: Option<String>,
    /// System calls, as `--syscalls` takes them.
    pub syscalls: Option<String>,
    /// Expression, as `--filter` takes it.
    pub filter: Option<String>,
    /// Beginning of the time.
    pub start: Option<String>,
    /// End of the time.
    pub end: Option<String>,
    /// Most events.
    pub limit: Option<u64>,
    /// Spans, as `--span` takes them.
    pub spans: Vec<String>,
}

impl TableQuery {
    /// Returns the events that are wanted for rows of `events`; `known` are the log's types.
    ///
    /// # Errors
    ///
    /// A part of the choice makes no sense.
    pub fn events(&self, known: &EventTypes) -> anyhow::Result<WantedEvents> {
        let (from, to) = self.times()?;
        let mut wanted = WantedEvents {
            pids: self.pids.clone(),
            tids: self.tids.clone(),
            from,
            to,
            ..self.inputs()?
        };
        if let Some(types) = &self.types {
            let (own, words): (Vec<&String>, Vec<&String>) =
                types.iter().partition(|name| is_own(known, name));
            wanted.has_probes = words.iter().any(|word| *word == "probe");
            let words = words.into_iter().map(String::as_str);
            wanted.types = Some(
                Selection::from_words(words.filter(|word| *word != "probe")).context("types")?,
            );
            wanted.names = own.iter().map(|name| name.as_bytes().to_vec()).collect();
        }
        Ok(wanted)
    }

    /// Returns the events that rows of other tables are made of: all that may matter for them.
    ///
    /// # Errors
    ///
    /// A part of the choice makes no sense.
    pub fn inputs(&self) -> anyhow::Result<WantedEvents> {
        let comm = self.comm.as_deref();
        let comm =
            comm.map(|typed| NamePattern::new(typed).with_context(|| format!("comm {typed:?}")));
        let expression = self.filter.as_deref().map(Expression::parse).transpose();
        let wanted = WantedEvents {
            comm: comm.transpose()?,
            predicate: Predicate {
                expression: expression.context("filter")?.map(Arc::new),
                ..Predicate::default()
            },
            limit: self.limit,
            ..WantedEvents::default()
        };
        Ok(match &self.syscalls {
            Some(list) => wanted.with_syscalls(SyscallSet::of_list(list).context("syscalls")?),
            None => wanted,
        })
    }

    /// Returns the rows that are wanted of tables other than `events`.
    ///
    /// # Errors
    ///
    /// The times make no sense.
    pub fn scope(&self, anchor: ClockPair) -> anyhow::Result<Scope> {
        let (from, to) = self.times()?;
        let moment = |point: Option<TimePoint>, without| match point {
            None => without,
            Some(point) => match point.moment(anchor.monotonic) {
                Moment::Time(time) => time,
                Moment::Date(date) => {
                    let since = date.0.saturating_sub(anchor.realtime.0);
                    MonotonicNs(anchor.monotonic.0.saturating_add(since))
                }
            },
        };
        Ok(Scope {
            from: moment(from, MonotonicNs(0)),
            until: moment(to, MonotonicNs(u64::MAX)),
            pids: self.pids.clone(),
        })
    }

    /// Returns the spans.
    ///
    /// # Errors
    ///
    /// One of them is none.
    pub fn specs(&self) -> anyhow::Result<Vec<SpanSpec>> {
        let specs = self.spans.iter().map(|typed| SpanSpec::parse(typed));
        specs.collect()
    }

    fn times(&self) -> anyhow::Result<(Option<TimePoint>, Option<TimePoint>)> {
        let point = |name, typed: &Option<String>| {
            let typed = typed.as_deref();
            typed.map(|typed| TimePoint::parse(name, typed)).transpose()
        };
        let (from, to) = (point("start", &self.start)?, point("end", &self.end)?);
        let is_backwards = match (from, to) {
            (Some(TimePoint::Offset(from)), Some(TimePoint::Offset(to))) => from > to,
            (Some(TimePoint::Date(from)), Some(TimePoint::Date(to))) => from > to,
            _ => false,
        };
        ensure!(
            !is_backwards,
            "start is later than end, which leaves nothing"
        );
        Ok((from, to))
    }
}

/// Tells whether a log has a user event type of this name.
fn is_own(known: &EventTypes, name: &str) -> bool {
    let id = known.id(name.as_bytes());
    id.is_some_and(|id| id.0 >= FIRST_USER_EVENT)
}
