//! Searches in traced processes for what the service, which opens no file of them, is told.

use std::sync::{Arc, Mutex};

use tracer_common::event_type::EventTypeId;
use tracer_engine::event::EventHeader;
use tracer_kernel::{FoundInterpreters, ProcessSearch, search_contexts, search_interpreters};
use tracer_posix::agent::{AgentError, AgentSource};
use tracer_text::say;

use super::service::{Link, lock};
use crate::Recording;

/// Searches of a trace, each in a thread of its own.
#[derive(Clone, Debug)]
pub struct Searches {
    /// For the contexts of threads, where these are recorded.
    contexts: Option<ProcessSearch>,
    /// For interpreters of Python, where their frames are recorded, and those that were found.
    interpreters: Option<(ProcessSearch, FoundInterpreters)>,
}

impl Searches {
    /// Begins those that a trace needs. They tell the service over `link`.
    pub fn begin(recording: &Recording, link: &Arc<Mutex<Link>>) -> Self {
        let contexts = recording.trace_context.then(|| {
            let link = Arc::clone(link);
            search_contexts(move |pid, place| {
                tell(&link, pid, |agent| agent.place_contexts(pid, place))
            })
        });
        let interpreters = (recording.stacks.python_frames > 0).then(|| {
            let link = Arc::clone(link);
            search_interpreters(move |pid, process| {
                tell(&link, pid, |agent| agent.place_interpreter(pid, process))
            })
        });
        Self {
            contexts: begun(contexts, "contexts of threads"),
            interpreters: begun(interpreters, "interpreters of Python"),
        }
    }

    /// Tells whether there are any.
    pub fn are_any(&self) -> bool {
        self.each().next().is_some()
    }

    /// Tells whether there is one for the contexts of threads.
    pub fn are_for_contexts(&self) -> bool {
        self.contexts.is_some()
    }

    /// Returns the interpreters that are found.
    pub fn interpreters(&self) -> Option<&FoundInterpreters> {
        let (_, found) = self.interpreters.as_ref()?;
        Some(found)
    }

    /// Looks into a process, which is traced by now.
    pub fn begins(&self, pid: i32) {
        self.each().for_each(|search| search.begins(pid));
    }

    /// Notes that the service has gone, with all that it was told.
    pub fn doubt(&self) {
        if let Some((_, found)) = &self.interpreters {
            found.doubt();
        }
    }

    /// Looks into all processes anew: another service is there.
    pub fn begin_anew(&self) {
        self.each().for_each(ProcessSearch::begin_anew);
    }

    /// Looks into a process that an event says is new, or another program.
    pub fn note(&self, header: &EventHeader, data: &[u8]) {
        let pid = header.pid;
        for search in self.each() {
            match header.event_type {
                EventTypeId::FORK => {
                    if let Some(child) = data.first_chunk() {
                        search.makes(pid, i32::from_ne_bytes(*child), header.time.0);
                    }
                }
                EventTypeId::EXEC => search.becomes(pid, header.time.0),
                EventTypeId::EXIT => search.ends(pid),
                _ => {}
            }
        }
    }

    fn each(&self) -> impl Iterator<Item = &ProcessSearch> {
        let interpreters = self.interpreters.as_ref().map(|(search, _)| search);
        self.contexts.iter().chain(interpreters)
    }
}

/// Tells the service something of a process. Returns whether it has taken that.
fn tell(
    link: &Mutex<Link>,
    pid: i32,
    place: impl FnOnce(&mut AgentSource) -> Result<(), AgentError>,
) -> bool {
    let told = match &mut lock(link).agent {
        Some(agent) => place(agent),
        None => return false,
    };
    if let Err(error) = &told {
        tracing::debug!(pid, error = error as &dyn std::error::Error, "not told");
    }
    told.is_ok()
}

/// Returns a search that has begun. Where it could not begin, says so.
fn begun<T>(search: Option<std::io::Result<T>>, sought: &str) -> Option<T> {
    search?
        .inspect_err(|error| say(&format!("no thread looks for {sought}: {error}")))
        .ok()
}
