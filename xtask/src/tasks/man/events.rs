//! Manual page of the system event types, from their table.

use tracer_common::event_type::{
    EventOrigin, FieldKind, SYSTEM_EVENT_TYPES, SystemEventType, SystemField,
};

const HEAD: &str = r#".\" Made by cargo xtask man from the table of system event types; do not edit.
.TH LINUX_TRACE_EVENTS 7 2026-11-21 "POSIX tracing for Linux"
.SH NAME
linux_trace_events \- system event types of trace streams
.SH DESCRIPTION
System events are recorded by the trace system itself and not by programs.
The type of each is a constant of
.IR <trace.h> ,
and has a name, which
.BR posix_trace_eventid_get_name (3)
returns.
"#;

const STREAM: &str = ".SS Of the standard
";

const KERNEL: &str = ".SS Of the kernel
These record what the kernel does with the traced processes.
The data of each is the structure named like the type; its members begin with
.IR linux_ .
Process and thread identifiers are those of the pid namespace of the
.B tracer-user
that traces; 0 is a process that has no identifier there, or none.
";

const NOTES: &str = r".SH NOTES
.SS What running means
A thread runs from
.B LINUX_TRACE_SWITCH_IN
to the next
.BR LINUX_TRACE_SWITCH_OUT ;
.I linux_ran_ns
is the time between both, or 0 where the switch to it was not seen.
Both times are taken where the kernel switches, with the run queue locked:
after the scheduler has chosen the next thread and before the registers are changed.
So what the scheduler does on behalf of a switch counts for the thread that leaves,
and the change of registers and memory for the one that comes.
Interrupts that come while a thread has the CPU are part of its time, and so is the time in which the host gave the CPU to another guest.
The first field of
.I /proc/PID/task/TID/schedstat
leaves out the host's part, where the kernel knows of it
.RB ( CONFIG_PARAVIRT_TIME_ACCOUNTING ),
and interrupts
.RB ( CONFIG_IRQ_TIME_ACCOUNTING );
it is less by these.
Its clock is read before the scheduler chooses:
a run is longer there, by 10 to 1,400 nanoseconds on the machines that were measured.
.SS What the kernel does not say
A kernel may run no program while certain threads have the CPU, and does not count that.
Where a later event shows it, it is counted as
.BR kernel_not_told :
a thread leaves a CPU that it never got
.RI ( linux_ran_ns
is 0, and it was seen to run before); a request to a disk begins where another was that never ended (Linux 6.5 and later; before,
where it is a request of which the start was seen).
A program's own stream has this word of a switch alone.
A request without an end is one that has not ended, or the end of which was not recorded and that was not reused before the trace ended.
.SS Calls without a beginning
A system call that a filter
.RB ( seccomp (2))
refuses, or answers instead of the kernel, ends without having begun: the filter is asked first, and the kernel shows the beginning of
calls that pass alone.
There is a
.B LINUX_TRACE_SYSCALL_EXIT
with what the program gets, and no
.BR LINUX_TRACE_SYSCALL_ENTER .
";

const FOOT: &str = ".SH SEE ALSO
.BR posix_trace_eventset_add (3),
.BR posix_trace_get_filter (3),
.BR posix_trace (7)
";

/// Formats the page.
pub fn page() -> String {
    let of = |origin| {
        let types = SYSTEM_EVENT_TYPES
            .iter()
            .filter(move |entry| entry.origin == origin);
        types.map(entry).collect::<String>()
    };
    let (stream, kernel) = (of(EventOrigin::Stream), of(EventOrigin::Kernel));
    format!("{HEAD}{STREAM}{stream}{KERNEL}{kernel}{NOTES}{FOOT}")
}

fn entry(entry: &SystemEventType) -> String {
    let about = capitalised(entry.about);
    let mut text = format!(
        ".TP\n.BR {} \" (\" {} )\n{about}.\n",
        entry.constant, entry.name
    );
    if !entry.fields.is_empty() {
        let fields: Vec<String> = entry.fields.iter().map(field).collect();
        text += &format!("Data: {}.\n", fields.join(", "));
    }
    text
}

fn field(field: &SystemField) -> String {
    let kind = match field.kind {
        FieldKind::I32 => "an integer",
        FieldKind::U32 => "an integer without sign",
        FieldKind::Pid => "a process or thread",
        FieldKind::Comm => "the name of a thread",
        FieldKind::Text => "text",
        FieldKind::Strings => "texts",
        FieldKind::TaskState => "state bits of the kernel",
        FieldKind::Flag | FieldKind::ShortFlag | FieldKind::IoWait => "0 or 1",
        FieldKind::WaitsIn => "the system call in which it blocks, or what else",
        FieldKind::ThreadState => "what the thread does",
        FieldKind::HeldSyscall => "the number of a system call, or -1",
        FieldKind::HeldArguments => "six arguments",
        FieldKind::NamedHeldArguments => "arguments with their names",
        FieldKind::Signal => "a signal, or 0",
        FieldKind::U64 => "a 64-bit integer without sign",
        FieldKind::SignalResult => "what became of the signal",
        FieldKind::Address => "an address, or 0",
        FieldKind::Syscall => "the number of a system call",
        FieldKind::Arguments => "six arguments",
        FieldKind::NamedArguments => {
            "the same, with their names: descriptors with a sign, modes in octal"
        }
        FieldKind::SyscallResult => "what the call returned",
        FieldKind::ShownResult => {
            "the same, as text: with the error's name, addresses in hexadecimal"
        }
        FieldKind::FilledArguments => {
            "arguments that the call has filled in, with their names; with --calls exit, all"
        }
        FieldKind::Softirq => "a soft interrupt",
        FieldKind::BlockOperation => "what the request asks for",
        FieldKind::WakerContext => "what asks for the wake-up",
        FieldKind::Others => "whether other threads had the CPU before, while this one waited",
        FieldKind::LockType => "the type of lock that the memory shows",
        FieldKind::LockOwner => {
            "the thread that has it, as the memory says, in its own pid namespace, or 0"
        }
        FieldKind::EventSet => "a set of types",
    };
    format!("\\fI{}\\fR ({kind})", field.name)
}

fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| {
        first.to_uppercase().chain(letters).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_system_event_type_is_on_the_page() {
        let page = page();
        for entry in SYSTEM_EVENT_TYPES {
            assert!(page.contains(entry.constant), "{}", entry.constant);
        }
    }
}
