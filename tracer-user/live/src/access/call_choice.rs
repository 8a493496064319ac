//! Choice of system calls, where the service gives all of them.

use tracer_common::event_type::EventTypeId;
use tracer_common::kernel::{SyscallEnterData, SyscallExitData};
use tracer_engine::event::EventHeader;
use tracer_syscalls::choice::SyscallSet;
use tracer_syscalls::names::Table;
use zerocopy::FromBytes as _;

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
