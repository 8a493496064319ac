//! Following to the end, and reporting then.

use std::io;
use std::process::ExitStatus;
use std::time::Duration;

use anyhow::Context;
use tokio::runtime::{Builder, Runtime};

use tracer_area::monotonic_now;

use super::Setup;
use super::follow::{End, Follow};
use super::wake::Wake;
use tracer_output::terminal::Outcome;
use tracer_text::say;

/// End of a trace.
pub struct Ended {
    /// Whether everything was shown.
    pub outcome: Outcome,
    /// The status of the command, when there was one and it has ended.
    pub status: Option<ExitStatus>,
    /// Reason why the command could not be started.
    pub not_started: Option<io::Error>,
}

impl Ended {
    fn not_started(error: io::Error) -> Self {
        Self {
            outcome: Outcome::Complete,
            status: None,
            not_started: Some(error),
        }
    }
}

/// Follows to the end, writes the last lines, and reports how many events were shown and lost.
///
/// # Errors
///
/// The lines cannot be written. A closed pipe is no failure.
pub async fn end(mut follow: Follow, setup: &Setup) -> anyhow::Result<Ended> {
    let end = follow
        .run()
        .await
        .context("cannot wait for the kernel's events")?;
    if let End::NotStarted(error) = end {
        return Ok(Ended::not_started(error));
    }
    let status = match follow.status().await {
        Ok(status) => status,
        Err(error) => return Ok(Ended::not_started(error)),
    };
    let end_time = monotonic_now();
    let elapsed = Duration::from_nanos(end_time.0.saturating_sub(follow.start.0));
    let summary = follow.tracer.end(elapsed);
    let last = std::mem::take(&mut *follow.tracer.lines().bytes());
    let failure = follow.tracer.take_failure();
    let (unseen, unread) = (follow.tracer.unseen(), follow.tracer.unread());
    let lacks_events = follow.tracer.lacks_events();
    let (claimed, unnamed) = (follow.tracer.claimed(), follow.tracer.unnamed());
    let names_refused = follow.tracer.names_refused();
    // Traced no more from here on, however long the last lines take.
    drop(follow.tracer);
    if !matches!(end, End::AtOnce) {
        let written = tokio::select! {
            biased;
            written = follow.writer.finish(last) => written,
            () = next_signal(&mut follow.wakes) => Ok(()),
        };
        match written {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                return Err(error).with_context(|| format!("cannot write to {}", setup.output));
            }
            _ => {}
        }
    }
    if setup.consumer.is_for_people() {
        summary.for_people().lines().for_each(say);
        if failure.as_ref().is_some_and(is_unwritten) {
            say(
                "not all of these events could be written, and the trace ended there: what came later \
                 was not recorded",
            );
        }
    }
    if lacks_events {
        say(
            "the trace lacks an unknown number of events of its last moments: they did not come in time",
        );
    }
    if let Some(line) = unseen {
        say(&line);
    }
    if claimed > 0 {
        say(&format!(
            "{claimed} user events say that they are of processes that do not use the trace area in which they are: they are \
             shown without a process"
        ));
    }
    if unnamed > 0 {
        say(&format!(
            "{unnamed} event types are shown without their names: a trace has 65,279 names, of which the programs of another \
             user may bring 24,000, and those of all other users 40,000"
        ));
    }
    if names_refused > 0 {
        say(&format!(
            "{names_refused} names of event types were given to no type: a process, its parents and all their children have \
             32,766 names between them, and events of more are shown without one"
        ));
    }
    if unread > 0 {
        say(&format!(
            "the user events of {unread} processes could not be read: no descriptor or memory was left, their trace area is \
             damaged or hidden from others, or their user has more of them than are read (1,024)"
        ));
    }
    if let Some(failure) = failure {
        return Err(failure);
    }
    let outcome = if summary.is_complete() && unread == 0 && !lacks_events {
        Outcome::Complete
    } else {
        Outcome::EventsLost
    };
    Ok(Ended {
        outcome,
        status,
        not_started: None,
    })
}

/// Tells whether a consumer has failed since what it makes of the events cannot be written.
fn is_unwritten(failure: &anyhow::Error) -> bool {
    failure.chain().any(|cause| cause.is::<io::Error>())
}

/// Builds the runtime of this thread, which waits for everything.
///
/// # Errors
///
/// The kernel has no descriptor for it.
pub fn runtime() -> anyhow::Result<Runtime> {
    Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot wait for events")
}

async fn next_signal(wakes: &mut tokio::sync::mpsc::UnboundedReceiver<Wake>) {
    loop {
        match wakes.recv().await {
            Some(Wake::Signal(_)) => return,
            Some(_) => {}
            None => return std::future::pending().await,
        }
    }
}
