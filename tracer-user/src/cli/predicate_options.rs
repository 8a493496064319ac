//! Options that select events by their data.

use std::sync::Arc;

use anyhow::{Context, ensure};
use tracer_common::event_type::EventTypeId;

use tracer_event::predicate::{Expression, Narrowed, Predicate};
use tracer_event::selection::Selection;
use tracer_syscalls::choice::SyscallSet;
use tracer_text::say;

/// Conditions on events, as typed.
#[derive(Debug, Default, clap::Args)]
pub struct PredicateArgs {
    /// Of system calls, only those that return an error: of the chosen ones, or of all where none
    /// are chosen. Other events are not affected
    #[arg(long)]
    failed: bool,
    /// Only events of which this is true, in the Common Expression Language: 'ret < 0 && comm ==
    /// "nginx"'. Names are type, syscall, pid, tid, comm, cpu, time, what JSON shows of an event
    /// (filename, child_pid, error), and duration of a system call, as in duration >
    /// duration("5ms"). Signals go by name or number. A condition on a name that an event does not
    /// have is false; has(error) tells whether it has one. A call's entry has the names of its exit
    /// too, and the exit those of the entry. What the expression names is recorded, unless --events
    /// chooses the events
    #[arg(long, value_name = "EXPR")]
    filter: Option<String>,
}

impl PredicateArgs {
    /// Returns the conditions, checked.
    ///
    /// # Errors
    ///
    /// `--filter` is not a valid expression.
    pub fn predicate(self) -> anyhow::Result<Predicate> {
        let expression = self.filter.as_deref().map(Expression::parse).transpose();
        let expression = expression.context("--filter")?;
        for doubt in expression.iter().flat_map(Expression::doubts) {
            say(&format!("--filter: {doubt}"));
        }
        Ok(Predicate {
            is_failed: self.failed,
            expression: expression.map(Arc::new),
            spares_others: false,
        })
    }
}

/// Refuses a predicate that can judge a system call only at its exit, where there is a log: the
/// entry would wait for the exit, and a log takes events in order of time.
pub fn refuse_waiting(predicate: &Predicate, has_log: bool) -> anyhow::Result<()> {
    let Some(what) = predicate.needs_exit().filter(|_| has_log) else {
        return Ok(());
    };
    anyhow::bail!(
        "{what} is known when a system call ends, and a log has its beginning before that; record \
         without it, and ask `tracer-user read LOG` by --failed and --filter"
    )
}

/// Removes the types and system calls that cannot match, so that the tracer does not record them.
/// Refuses a predicate that matches no event that is traced, or that removes one of `needed`: the
/// types that --when has to see.
pub fn narrow(
    predicate: &Predicate,
    selection: Selection,
    syscalls: SyscallSet,
    needed: &[EventTypeId],
    has_probes: bool,
) -> anyhow::Result<Narrowed> {
    let Some(expression) = &predicate.expression else {
        return Ok(Narrowed {
            selection,
            syscalls,
        });
    };
    let narrowed = expression.narrow(selection, syscalls);
    let left = &narrowed.selection;
    ensure!(
        left.has_user() || !left.kernel_types().is_empty() || has_probes,
        "--filter {:?} can be true of no event that is traced; --events and --syscalls add what it \
         names",
        expression.text()
    );
    ensure!(
        needed.iter().all(|id| left.has(*id)),
        "--filter {:?} leaves out what --when has to see; leave one of them out",
        expression.text()
    );
    Ok(narrowed)
}
