//! Words for threads, system calls, signals and addresses, and for the event types that consist of
//! them.

use std::mem::offset_of;

use tracer_analysis::layouts::LockOwner;
use tracer_analysis::{LockType, recorded_lock};
use tracer_common::event_type::{EventTypeId, read_grown};
use tracer_common::kernel::{
    BlockCompleteData, BlockIssueData, FaultData, IrqExitData, LockWaitData, SignalDeliverData,
    SignalGenerateData, SoftirqData, SyscallEnterData, SyscallExitData, ThreadStateData,
    signal_result, thread_state, waits_in,
};
use tracer_engine::event::ANOTHER_PROCESS;
use zerocopy::FromBytes;

use super::fields::{self, failure_of, table, until_null};
use super::task_state::{WaitsIn, push_waits_in};
use super::value_names::{
    block_operation, signal_result, softirq, thread_state as thread_state_name,
};
use tracer_syscalls::arguments::{Call, MOST, Returned};
use tracer_syscalls::descriptors::Named;
use tracer_syscalls::names::{self, Table};
use tracer_syscalls::pointer_data::Texts;
use tracer_syscalls::results::push_returned_descriptor;
use tracer_syscalls::shape::{Filling, Shape, push_pointed};
use tracer_syscalls::shown::{push_address, push_argument};
use tracer_text::digits::push_decimal;
use tracer_text::escape::push_name;
use tracer_text::signal_name;

/// Appends the name of a system call, or the number of an unknown one.
pub fn push_syscall_name(out: &mut Vec<u8>, table: Table, nr: i32) {
    match names::name(table, nr) {
        Some(name) => out.extend_from_slice(name.as_bytes()),
        None => {
            out.extend_from_slice(b"syscall_");
            push_decimal(out, nr);
        }
    }
}

/// Appends the name of a signal.
pub fn push_signal(out: &mut Vec<u8>, signal: u32) {
    match signal_name(signal) {
        Some(name) => out.extend_from_slice(name.as_bytes()),
        None => {
            out.extend_from_slice(b"signal ");
            push_decimal(out, signal);
        }
    }
}

/// Appends the words of the types that this file knows; returns `None` for other types and for data
/// that is truncated.
pub fn push_kernel(out: &mut Vec<u8>, id: EventTypeId, data: &[u8]) -> Option<()> {
    match id {
        EventTypeId::SIGNAL_GENERATE => {
            push_generate(out, &SignalGenerateData::read_from_prefix(data).ok()?.0);
        }
        EventTypeId::SIGNAL_DELIVER => {
            push_deliver(
                out,
                &read_grown(data, offset_of!(SignalDeliverData, address))?,
            );
        }
        EventTypeId::SYSCALL_ENTER => {
            push_call(out, data)?;
        }
        EventTypeId::SYSCALL_EXIT => {
            push_return(out, data)?;
        }
        EventTypeId::THREAD_STATE => {
            push_thread_state(out, data)?;
        }
        EventTypeId::LOCK_WAIT => push_lock_wait(out, data)?,
        EventTypeId::FAULT_USER | EventTypeId::FAULT_KERNEL => {
            push_fault(out, &FaultData::read_from_prefix(data).ok()?.0);
        }
        EventTypeId::IRQ_EXIT => {
            let irq = IrqExitData::read_from_prefix(data).ok()?.0;
            push_decimal(out, irq.irq);
            if irq.handled == 0 {
                out.extend_from_slice(b" not handled");
            }
        }
        EventTypeId::SOFTIRQ_ENTER | EventTypeId::SOFTIRQ_EXIT => {
            let vector = SoftirqData::read_from_prefix(data).ok()?.0.vector;
            push_named(out, vector, softirq(vector));
        }
        EventTypeId::BLOCK_ISSUE => {
            push_block(out, &BlockIssueData::read_from_prefix(data).ok()?.0);
        }
        EventTypeId::BLOCK_COMPLETE => {
            // It begins as the other does.
            push_block(out, &BlockIssueData::read_from_prefix(data).ok()?.0);
            let status = BlockCompleteData::read_from_prefix(data).ok()?.0.status;
            if status != 0 {
                out.extend_from_slice(b", failed with status ");
                push_decimal(out, status);
            }
        }
        _ => return None,
    }
    Some(())
}

/// Description of a process outside of the tracer's pid namespace.
const ELSEWHERE: &[u8] = b"outside the tracer's pid namespace";

/// Appends a name and a thread; the idle task, whose tid is 0 on every CPU, as a word, and a
/// process that the reader may not see as two.
pub fn push_task(out: &mut Vec<u8>, pid: u32, tid: u32, comm: &[u8]) {
    let comm = until_null(comm);
    if tid == 0 && (comm.is_empty() || comm.starts_with(b"swapper")) {
        out.extend_from_slice(b"idle");
        return;
    }
    if tid == 0 && comm == until_null(&ANOTHER_PROCESS) {
        out.extend_from_slice(comm);
        return;
    }
    push_name(out, comm);
    if tid == 0 {
        out.push(b' ');
        out.extend_from_slice(ELSEWHERE);
        return;
    }
    out.push(b' ');
    push_decimal(out, pid);
    if tid != pid {
        out.push(b'/');
        push_decimal(out, tid);
    }
}

fn push_named(out: &mut Vec<u8>, code: u32, name: Option<&str>) {
    match name {
        Some(name) => out.extend_from_slice(name.as_bytes()),
        None => push_decimal(out, code),
    }
}

/// Tells whether a signal of this `si_code` was sent by `kill`, `sigqueue` or `tkill`.
fn is_by_call(code: i32) -> bool {
    matches!(code, 0 | -1 | -6)
}

fn push_generate(out: &mut Vec<u8>, signal: &SignalGenerateData) {
    push_signal(out, signal.signal);
    out.extend_from_slice(b" to ");
    push_task(
        out,
        signal.target_pid,
        signal.target_tid,
        &signal.target_comm,
    );
    if signal.sender_pid == 0 && is_by_call(signal.code) {
        out.extend_from_slice(b" from a process ");
        out.extend_from_slice(ELSEWHERE);
    } else if signal.sender_pid == 0 {
        out.extend_from_slice(b" from the kernel");
    } else if signal.sender_pid != signal.target_pid {
        out.extend_from_slice(b" from ");
        push_decimal(out, signal.sender_pid);
    }
    if signal.result != signal_result::DELIVERED {
        out.extend_from_slice(b", ");
        push_named(out, signal.result, signal_result(signal.result));
    }
}

fn push_deliver(out: &mut Vec<u8>, signal: &SignalDeliverData) {
    push_signal(out, signal.signal);
    match signal.handler {
        0 => out.extend_from_slice(b" by default"),
        1 => out.extend_from_slice(b" ignored"),
        handler => {
            out.extend_from_slice(b" to handler ");
            push_address(out, handler);
        }
    }
    push_about(out, signal);
}

/// Appends the details of a signal beside its name: `, SEGV_MAPERR at 0x10`.
fn push_about(out: &mut Vec<u8>, signal: &SignalDeliverData) {
    const TIMER: i32 = -2;
    if let Some(name) = fault_name(signal.signal, signal.code) {
        out.extend_from_slice(b", ");
        out.extend_from_slice(name.as_bytes());
        out.extend_from_slice(b" at ");
        push_address(out, signal.address);
    } else if signal.address != 0 {
        out.extend_from_slice(b", at ");
        push_address(out, signal.address);
    }
    if signal.code == TIMER {
        out.extend_from_slice(b", by timer ");
        push_decimal(out, signal.timer);
        if signal.overrun != 0 {
            out.extend_from_slice(b", overrun ");
            push_decimal(out, signal.overrun);
        }
    }
    push_process(out, signal);
    if signal.value != 0 {
        out.extend_from_slice(b", with value ");
        push_address(out, signal.value);
    }
}

/// Appends the process that sent a signal, or that it reports: `, CLD_EXITED of 12, uid 0, status
/// 7`.
fn push_process(out: &mut Vec<u8>, signal: &SignalDeliverData) {
    if signal.si_pid == 0 {
        return;
    }
    let child = child_name(signal.signal, signal.code);
    out.extend_from_slice(match child {
        Some(_) => b", ",
        None => b", sent by ",
    });
    if let Some(name) = child {
        out.extend_from_slice(name.as_bytes());
        out.extend_from_slice(b" of ");
    }
    push_decimal(out, signal.si_pid);
    out.extend_from_slice(b", uid ");
    push_decimal(out, signal.si_uid);
    if child.is_none() {
        return;
    }
    out.extend_from_slice(b", status ");
    let by_signal = u32::try_from(signal.si_status).ok();
    match by_signal.filter(|_| signal.code != libc::CLD_EXITED) {
        Some(by) => push_signal(out, by),
        None => push_decimal(out, signal.si_status),
    }
}

/// Returns the name of the change in a child's state.
fn child_name(signal: u32, code: i32) -> Option<&'static str> {
    const NAMES: [&str; 6] = [
        "CLD_EXITED",
        "CLD_KILLED",
        "CLD_DUMPED",
        "CLD_TRAPPED",
        "CLD_STOPPED",
        "CLD_CONTINUED",
    ];
    if signal.cast_signed() != libc::SIGCHLD {
        return None;
    }
    let nth = usize::try_from(code).ok()?.checked_sub(1)?;
    NAMES.get(nth).copied()
}

/// Returns the name of the cause of a fault.
fn fault_name(signal: u32, code: i32) -> Option<&'static str> {
    const OF_SEGV: [&str; 4] = ["SEGV_MAPERR", "SEGV_ACCERR", "SEGV_BNDERR", "SEGV_PKUERR"];
    const OF_BUS: [&str; 3] = ["BUS_ADRALN", "BUS_ADRERR", "BUS_OBJERR"];
    const OF_FPE: [&str; 3] = ["FPE_INTDIV", "FPE_INTOVF", "FPE_FLTDIV"];
    const OF_ILL: [&str; 2] = ["ILL_ILLOPC", "ILL_ILLOPN"];
    let names: &[&str] = match signal.cast_signed() {
        libc::SIGSEGV => &OF_SEGV,
        libc::SIGBUS => &OF_BUS,
        libc::SIGFPE => &OF_FPE,
        libc::SIGILL => &OF_ILL,
        _ => return None,
    };
    names
        .get(usize::try_from(code).ok()?.checked_sub(1)?)
        .copied()
}

fn push_call(out: &mut Vec<u8>, untrusted: &[u8]) -> Option<()> {
    let (call, _) = SyscallEnterData::read_from_prefix(untrusted).ok()?;
    let call = fields::call(&call);
    push_syscall_name(out, call.table, call.nr);
    out.push(b'(');
    let texts = Texts::behind(size_of::<SyscallEnterData>(), untrusted);
    push_arguments(out, &call, texts);
    out.push(b')');
    Some(())
}

/// Appends the observed state of a thread, and its call, as one that has begun.
fn push_thread_state(out: &mut Vec<u8>, untrusted: &[u8]) -> Option<()> {
    let (seen, _) = ThreadStateData::read_from_prefix(untrusted).ok()?;
    out.extend_from_slice(match seen.state {
        thread_state::UNKNOWN => b"in an unknown state",
        thread_state::TRACED => b"stopped by who traces it",
        state => thread_state_name(state)?.as_bytes(),
    });
    if seen.number >= 0 {
        let call = Call {
            table: table(seen.compat),
            nr: seen.number,
            registers: seen.args,
        };
        out.extend_from_slice(b" in ");
        push_syscall_name(out, call.table, call.nr);
        out.push(b'(');
        push_arguments(out, &call, Texts::behind(0, &[]));
        out.push(b')');
    } else if let inside @ (WaitsIn::Fault | WaitsIn::Exit | WaitsIn::Kernel) =
        WaitsIn::from_bits(seen.waits_in, seen.syscall)
    {
        out.extend_from_slice(b" in ");
        push_waits_in(out, inside);
    }
    if seen.waits_in & waits_in::IO != 0 {
        out.extend_from_slice(b", for a device");
    }
    Some(())
}

/// Appends the futex that a thread waits for, and what its memory says of it: `mutex
/// 0x55d0c0a010, held by 4713`.
fn push_lock_wait(out: &mut Vec<u8>, untrusted: &[u8]) -> Option<()> {
    let data = LockWaitData::read_from_prefix(untrusted).ok()?.0;
    let lock = recorded_lock(untrusted);
    let kind = lock.map_or(LockType::Futex, |lock| lock.kind.into());
    out.extend_from_slice(kind.name().replace('_', " ").as_bytes());
    out.push(b' ');
    push_address(out, data.address);
    match lock.map(|lock| lock.owner) {
        Some(LockOwner::Thread(tid)) => {
            out.extend_from_slice(b", held by ");
            push_decimal(out, tid);
        }
        Some(LockOwner::Readers(count)) => {
            out.extend_from_slice(b", readers: ");
            push_decimal(out, count);
        }
        None => {}
    }
    Some(())
}

/// Appends the arguments of a call, with commas between them.
pub fn push_arguments(out: &mut Vec<u8>, call: &Call, texts: Texts<'_>) {
    let shape = Shape::from_call(call);
    let filling = Filling {
        call,
        before: texts,
        after: None,
        returned: None,
    };
    shape.push(out, 0..shape.count(), &filling);
}

/// Appends the arguments that a call has filled in: `buf="..."`.
pub fn push_filled(out: &mut Vec<u8>, call: &Call, texts: Texts<'_>, returned: i64) {
    let arguments = call.arguments().enumerate();
    let filled = arguments.filter_map(|(index, (name, _))| Some((index, name, texts.find(index)?)));
    for (nth, (index, name, text)) in filled.enumerate() {
        if nth > 0 {
            out.extend_from_slice(b", ");
        }
        out.extend_from_slice(name.as_bytes());
        out.push(b'=');
        if push_pointed(
            out,
            call,
            index,
            &text,
            Some(returned),
            Named::from_texts(texts),
        )
        .is_none()
        {
            out.push(b'?');
        }
    }
}

fn push_return(out: &mut Vec<u8>, untrusted: &[u8]) -> Option<()> {
    let (call, _) = SyscallExitData::read_from_prefix(untrusted).ok()?;
    let (table, nr) = (table(call.compat), call.number);
    push_syscall_name(out, table, nr);
    out.extend_from_slice(b" = ");
    let returned = Returned {
        table,
        nr,
        value: call.ret,
    };
    push_returned(out, returned);
    let texts = Texts::behind(size_of::<SyscallExitData>(), untrusted);
    push_returned_descriptor(out, returned, texts);
    if texts.iter().next().is_some() {
        let registers = [0; MOST];
        out.extend_from_slice(b", ");
        push_filled(
            out,
            &Call {
                table,
                nr,
                registers,
            },
            texts,
            call.ret,
        );
    }
    Some(())
}

/// Appends the result of a call, with the name of an error.
pub fn push_returned(out: &mut Vec<u8>, returned: Returned) {
    push_argument(out, returned.shown());
    if let Some(error) = failure_of(returned) {
        out.push(b' ');
        out.extend_from_slice(error.as_bytes());
    }
}

fn push_fault(out: &mut Vec<u8>, fault: &FaultData) {
    let access: &[u8] = match (fault.fetch, fault.write) {
        (0, 0) => b"read of ",
        (0, _) => b"write to ",
        _ => b"fetch from ",
    };
    out.extend_from_slice(access);
    push_address(out, fault.address);
    if fault.protection != 0 {
        out.extend_from_slice(b", protected");
    }
}

fn push_block(out: &mut Vec<u8>, request: &BlockIssueData) {
    push_named(out, request.operation, block_operation(request.operation));
    out.push(b' ');
    push_decimal(out, request.bytes);
    out.extend_from_slice(b" bytes at sector ");
    push_decimal(out, request.sector);
    out.extend_from_slice(b" of ");
    push_decimal(out, request.major);
    out.push(b':');
    push_decimal(out, request.minor);
}

#[cfg(test)]
mod tests {
    use zerocopy::{FromZeros as _, IntoBytes};

    use super::*;

    fn words(id: EventTypeId, data: &impl AsBytes) -> String {
        let mut out = Vec::new();
        push_kernel(&mut out, id, data.bytes()).unwrap();
        String::from_utf8(out).unwrap()
    }

    trait AsBytes {
        fn bytes(&self) -> &[u8];
    }

    impl<T: IntoBytes + zerocopy::Immutable> AsBytes for T {
        fn bytes(&self) -> &[u8] {
            self.as_bytes()
        }
    }

    fn openat() -> i32 {
        i32::try_from(libc::SYS_openat).unwrap()
    }

    #[test]
    fn a_system_call_is_shown_with_its_arguments_as_people_know_them() {
        let call = SyscallEnterData {
            number: openat(),
            compat: 0,
            args: [0xffff_ff9c, 0x7ffd_0010, 0x80041, 0o644, 9, 10],
        };
        assert_eq!(
            words(EventTypeId::SYSCALL_ENTER, &call),
            "openat(AT_FDCWD, 0x7ffd0010, O_WRONLY|O_CREAT|O_CLOEXEC, 0644)"
        );
    }

    #[test]
    fn a_result_is_a_value_an_error_or_an_address() {
        let exit = |ret| SyscallExitData {
            number: openat(),
            compat: 0,
            ret,
        };
        let result = |ret| words(EventTypeId::SYSCALL_EXIT, &exit(ret));
        assert_eq!(result(3), "openat = 3");
        assert_eq!(result(-2), "openat = -2 ENOENT");
        assert_eq!(result(-5000), "openat = 18446744073709546616");
        assert_eq!(result(1 << 40), "openat = 1099511627776");
        let nr = i32::try_from(libc::SYS_mmap).unwrap();
        let mapped = SyscallExitData {
            number: nr,
            ..exit(0x7f00_dead_b000)
        };
        let mapped = words(EventTypeId::SYSCALL_EXIT, &mapped);
        assert_eq!(mapped, "mmap = 0x7f00deadb000");
    }

    #[test]
    fn an_unknown_call_has_no_name() {
        let call = SyscallExitData {
            number: -1,
            compat: 0,
            ret: 0,
        };
        assert_eq!(words(EventTypeId::SYSCALL_EXIT, &call), "syscall_-1 = 0");
    }

    #[test]
    fn a_signal_names_the_other_side() {
        let mut signal = SignalGenerateData {
            signal: 15,
            code: 0,
            target_pid: 7,
            target_tid: 7,
            target_comm: *b"sh\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
            sender_pid: 3,
            sender_tid: 3,
            group: 1,
            result: 0,
        };
        assert_eq!(
            words(EventTypeId::SIGNAL_GENERATE, &signal),
            "SIGTERM to sh 7 from 3"
        );
        signal.sender_pid = 0;
        assert_eq!(
            words(EventTypeId::SIGNAL_GENERATE, &signal),
            "SIGTERM to sh 7 from a process outside the tracer's pid namespace"
        );
        signal.code = 0x80;
        signal.result = 2;
        assert_eq!(
            words(EventTypeId::SIGNAL_GENERATE, &signal),
            "SIGTERM to sh 7 from the kernel, pending already"
        );
    }

    #[test]
    fn a_taken_signal_says_what_is_done() {
        let deliver = |handler| {
            let mut data = SignalDeliverData::new_zeroed();
            data.signal = 10;
            data.handler = handler;
            words(EventTypeId::SIGNAL_DELIVER, &data)
        };
        assert_eq!(deliver(0), "SIGUSR1 by default");
        assert_eq!(deliver(1), "SIGUSR1 ignored");
        assert_eq!(deliver(0x40_11d6), "SIGUSR1 to handler 0x4011d6");
        let about = |signal, code, address, value| {
            let mut data = SignalDeliverData::new_zeroed();
            (data.signal, data.code) = (signal, code);
            (data.address, data.value) = (address, value);
            (data.timer, data.overrun) = (3, 2);
            words(EventTypeId::SIGNAL_DELIVER, &data)
        };
        assert_eq!(
            about(11, 1, 16, 0),
            "SIGSEGV by default, SEGV_MAPERR at 0x10"
        );
        assert_eq!(
            about(14, -2, 0, 77),
            "SIGALRM by default, by timer 3, overrun 2, with value 0x4d"
        );
        assert_eq!(about(12, -1, 0, 7), "SIGUSR2 by default, with value 7");
        let of_process = |signal, code, status| {
            let mut data = SignalDeliverData::new_zeroed();
            (data.signal, data.code) = (signal, code);
            (data.si_pid, data.si_uid, data.si_status) = (12, 34, status);
            words(EventTypeId::SIGNAL_DELIVER, &data)
        };
        assert_eq!(
            of_process(10, 0, 0),
            "SIGUSR1 by default, sent by 12, uid 34"
        );
        assert_eq!(
            of_process(17, 1, 7),
            "SIGCHLD by default, CLD_EXITED of 12, uid 34, status 7"
        );
        assert_eq!(
            of_process(17, 2, 9),
            "SIGCHLD by default, CLD_KILLED of 12, uid 34, status SIGKILL"
        );
    }

    #[test]
    fn a_fault_names_the_access() {
        let fault = |write, fetch, protection| {
            let data = FaultData {
                address: 0x1000,
                write,
                fetch,
                protection,
                reserved: 0,
            };
            words(EventTypeId::FAULT_USER, &data)
        };
        assert_eq!(fault(0, 0, 0), "read of 0x1000");
        assert_eq!(fault(1, 0, 1), "write to 0x1000, protected");
        assert_eq!(fault(0, 1, 0), "fetch from 0x1000");
    }

    #[test]
    fn a_request_says_what_where_and_how_it_went() {
        let mut data = BlockCompleteData {
            operation: 1,
            major: 254,
            minor: 16,
            bytes: 4096,
            sector: 99,
            status: 0,
            reserved: 0,
        };
        let done = "write 4096 bytes at sector 99 of 254:16";
        assert_eq!(words(EventTypeId::BLOCK_COMPLETE, &data), done);
        data.status = 10;
        assert_eq!(
            words(EventTypeId::BLOCK_COMPLETE, &data),
            format!("{done}, failed with status 10")
        );
    }
}
