//! Part of the events that the service gives which a trace takes: the service gives all system
//! calls.

use std::collections::HashMap;

use tracer_common::event_type::EventTypeId;
use tracer_common::kernel::{SyscallEnterData, SyscallExitData};
use tracer_engine::event::{EventHeader, MonotonicNs};
use tracer_engine::source::{Batch, Loss};
use tracer_kernel::{GivenStacks, NO_CONTEXT, no_contexts};
use tracer_syscalls::choice::SyscallSet;
use tracer_syscalls::names::Table;
use zerocopy::FromBytes as _;

use super::acquaintances::ShownProcesses;
use super::detail;
use super::searches::Searches;
use crate::Setup;

/// System calls that a trace is to have, and whether with what their arguments point to.
#[derive(Debug)]
pub struct CallChoice {
    calls: SyscallSet,
    /// Whether what arguments point to is recorded and not wanted.
    cuts_arguments: bool,
}

impl CallChoice {
    /// Returns the choice of a trace, which may have a detail of its own; `None` where it takes all
    /// that there is.
    pub fn from_setup(setup: &Setup, has_detail: bool) -> Option<Self> {
        let choice = Self {
            calls: setup.recording.syscalls.clone(),
            cuts_arguments: setup.recording.string_bytes == 0 && !has_detail,
        };
        let is_all = !choice.cuts_arguments && choice.calls == SyscallSet::all();
        (!is_all).then_some(choice)
    }

    /// Returns as much of an event's data as the trace takes; `None` where it does not take the
    /// event.
    pub fn taken<'d>(&self, header: &EventHeader, data: &'d [u8]) -> Option<&'d [u8]> {
        let (number, compat, bytes) = match header.event_type {
            EventTypeId::SYSCALL_ENTER => {
                let (call, _) = SyscallEnterData::read_from_prefix(data).ok()?;
                (call.number, call.compat, size_of_val(&call))
            }
            EventTypeId::SYSCALL_EXIT => {
                let (call, _) = SyscallExitData::read_from_prefix(data).ok()?;
                (call.number, call.compat, size_of_val(&call))
            }
            _ => return Some(data),
        };
        let table = if compat == 0 {
            Table::Native
        } else {
            Table::Compat
        };
        if !self.calls.has(table, number) {
            return None;
        }
        if self.cuts_arguments {
            data.get(..bytes)
        } else {
            Some(data)
        }
    }
}

/// Filter of events, which finds the functions of stacks.
#[derive(Debug)]
pub struct GivenEvents {
    choice: Option<CallChoice>,
    stacks: Option<GivenStacks>,
    /// Processes that are shown, where others are named too.
    shown: Option<ShownProcesses>,
    /// Searches in processes.
    searches: Searches,
    /// Stacks of system calls that may not be taken, by thread: each comes before its call.
    held: HashMap<i32, (EventHeader, Vec<u8>)>,
}

impl GivenEvents {
    /// Returns the filter of a trace, which shows these alone; `None` where it takes all that there
    /// is as it comes.
    pub fn from_setup(
        setup: &Setup,
        shown: Option<ShownProcesses>,
        searches: Searches,
    ) -> Option<Self> {
        let has_detail = detail::from_setup(setup).is_some();
        let stacks = &setup.recording.stacks;
        let given = Self {
            choice: CallChoice::from_setup(setup, has_detail),
            stacks: stacks
                .are_wanted()
                .then(|| GivenStacks::begin(stacks, searches.interpreters())),
            shown,
            searches,
            held: HashMap::new(),
        };
        let is_any = given.choice.is_some()
            || given.stacks.is_some()
            || given.shown.is_some()
            || given.searches.are_any()
            || setup.recording.most_call_cost.is_some();
        is_any.then_some(given)
    }

    /// Takes a loss: what threads work for may be among what is missing.
    pub fn lose(&self, loss: Loss, batch: &mut Batch<'_>) {
        if self.searches.are_for_contexts() {
            batch.push(no_contexts(loss.since), NO_CONTEXT);
        }
        batch.lose(loss);
    }

    /// Notes that the events that are taken after this are not older than `since`.
    pub fn look(&mut self, since: MonotonicNs) {
        if let Some(stacks) = &mut self.stacks {
            stacks.look(since);
        }
    }

    /// Takes an event.
    pub fn take(&mut self, header: &EventHeader, data: &[u8], batch: &mut Batch<'_>) {
        self.searches.note(header, data);
        if let Some(shown) = &self.shown
            && !shown.takes(header, data)
        {
            return;
        }
        let Some(choice) = &self.choice else {
            return self.push(header, data, batch);
        };
        if header.event_type == EventTypeId::STACK && is_of_call(data) {
            self.held.insert(header.tid, (*header, data.to_vec()));
            return;
        }
        let is_call = is_call(header.event_type);
        let stack = is_call.then(|| self.held.remove(&header.tid)).flatten();
        let Some(taken) = choice.taken(header, data) else {
            return;
        };
        if let Some((header, data)) = stack {
            self.push(&header, &data, batch);
        }
        self.push(header, taken, batch);
    }

    fn push(&mut self, header: &EventHeader, data: &[u8], batch: &mut Batch<'_>) {
        match &mut self.stacks {
            Some(stacks) => stacks.push(header, data, batch),
            None => batch.push(*header, data),
        }
    }
}

fn is_call(event_type: EventTypeId) -> bool {
    matches!(
        event_type,
        EventTypeId::SYSCALL_ENTER | EventTypeId::SYSCALL_EXIT
    )
}

/// Tells whether a stack is that of a system call.
fn is_of_call(stack: &[u8]) -> bool {
    let of = stack.first_chunk();
    of.is_some_and(|of| is_call(EventTypeId(u32::from_ne_bytes(*of))))
}
