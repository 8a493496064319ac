//! Data of events, in words. This is the one file that has the words of a type.

use std::mem::offset_of;

use tracer_analysis::is_frozen;
use tracer_common::event_type::{EventTypeId, FieldKind, SystemEventType, read_grown};
use tracer_common::kernel::{
    ExecData, ExitData, ForkData, KERNEL_EVENT_TYPES, SwitchInData, SwitchOutData, WakeupData,
    others, waits_in, waker_context,
};
use zerocopy::FromBytes;

use super::fields::{ExecArguments, FieldValue, until_null, value};
use super::kernel_words::{
    push_arguments, push_filled, push_kernel, push_returned, push_signal, push_syscall_name,
    push_task,
};
use super::recorded::push_recorded;
use super::task_state::{WaitsIn, push_waits_in, task_state};
use tracer_syscalls::pointer_data::Texts;
use tracer_syscalls::shown::push_address;
use tracer_text::digits::{push_decimal, push_hex};
use tracer_text::escape::{as_text, push_for_people, push_name};

/// Appends the data of a system event. Data that does not fit the type is shown field by field, as
/// far as it reaches.
pub fn push_system(out: &mut Vec<u8>, entry: &SystemEventType, data: &[u8]) {
    if push_known(out, entry.id, data).is_none() && push_words(out, entry, data).is_none() {
        push_fields(out, entry, data);
    }
}

/// Appends the words of the types that have words in the table; returns `None` for other types and
/// for data that is truncated.
fn push_words(out: &mut Vec<u8>, entry: &SystemEventType, data: &[u8]) -> Option<()> {
    let mut known = KERNEL_EVENT_TYPES.iter();
    let known = known.find(|known| known.entry.id == entry.id)?;
    let mut rest = known.words?;
    if data.len() < known.text_at.unwrap_or(known.data_bytes) {
        return None;
    }
    while let Some((before, named)) = rest.split_once('{') {
        let (name, after) = named.split_once('}')?;
        let field = entry.fields.iter().find(|field| field.name == name)?;
        out.extend_from_slice(before.as_bytes());
        match (field.kind, value(field, data)?) {
            (FieldKind::Comm, FieldValue::Bytes(name)) => push_name(out, name),
            (_, value) => push_value(out, value),
        }
        rest = after;
    }
    out.extend_from_slice(rest.as_bytes());
    Some(())
}

/// Appends the data of a user event: fields where it has any, text when it is text, or else hex, of
/// at most `most` bytes.
pub fn push_user(out: &mut Vec<u8>, data: &[u8], most: Option<usize>) {
    if data.is_empty() || push_recorded(out, data).is_some() {
        return;
    }
    if let Some(text) = as_text(data) {
        out.push(b'"');
        push_for_people(out, text.as_bytes());
        out.push(b'"');
        return;
    }
    out.extend_from_slice(b"0x");
    let shown = data.get(..most.unwrap_or(usize::MAX)).unwrap_or(data);
    push_hex(out, shown);
    if shown.len() < data.len() {
        out.extend_from_slice("… (".as_bytes());
        push_decimal(out, data.len());
        out.extend_from_slice(b" bytes)");
    }
}

/// Appends the words of the types that have their own; returns `None` for other types and for data
/// that is truncated.
fn push_known(out: &mut Vec<u8>, id: EventTypeId, data: &[u8]) -> Option<()> {
    match id {
        EventTypeId::FORK => {
            let fork = ForkData::read_from_prefix(data).ok()?.0;
            out.extend_from_slice(b"child ");
            push_task(out, fork.child_pid, fork.child_tid, &fork.child_comm);
        }
        EventTypeId::THREAD_CREATE => {
            let fork = ForkData::read_from_prefix(data).ok()?.0;
            out.extend_from_slice(b"thread ");
            push_task(out, fork.child_tid, fork.child_tid, &fork.child_comm);
        }
        EventTypeId::EXEC => {
            let file = data.get(offset_of!(ExecData, file)..)?;
            push_for_people(out, until_null(file));
            if let Some(arguments) = ExecArguments::behind(file) {
                out.push(b' ');
                arguments.push(out);
            }
        }
        EventTypeId::EXIT | EventTypeId::THREAD_EXIT => {
            push_exit(out, &ExitData::read_from_prefix(data).ok()?.0);
        }
        EventTypeId::SWITCH_IN => {
            let switch: SwitchInData = read_grown(data, offset_of!(SwitchInData, others))?;
            out.extend_from_slice(b"after ");
            push_task(out, switch.prev_pid, switch.prev_tid, &switch.prev_comm);
            if switch.others == others::SOME {
                out.extend_from_slice(b", others before");
            }
        }
        EventTypeId::SWITCH_OUT => {
            let switch: SwitchOutData = read_grown(data, offset_of!(SwitchOutData, ran_ns))?;
            let (letter, word) = match task_state(switch.state, switch.preempted != 0) {
                (letter @ ("S" | "D"), _) if is_frozen(&switch) => (letter, "frozen"),
                words => words,
            };
            out.extend_from_slice(letter.as_bytes());
            out.push(b' ');
            out.extend_from_slice(word.as_bytes());
            match WaitsIn::from_switch_out(&switch) {
                WaitsIn::Unknown => {}
                WaitsIn::GroupQuota => {
                    out.extend_from_slice(b", throttled by its control group");
                }
                WaitsIn::DeadlineBudget => {
                    out.extend_from_slice(b", throttled: its deadline budget is used up");
                }
                waits_in => {
                    out.extend_from_slice(b" in ");
                    push_waits_in(out, waits_in);
                }
            }
            if switch.waits_in & waits_in::IO != 0 {
                out.extend_from_slice(b", for a device");
            }
            out.extend_from_slice(" → ".as_bytes());
            push_task(out, switch.next_pid, switch.next_tid, &switch.next_comm);
        }
        EventTypeId::WAKEUP => {
            let wakeup: WakeupData = read_grown(data, offset_of!(WakeupData, waker_context))?;
            out.extend_from_slice(b"on cpu ");
            push_decimal(out, wakeup.target_cpu);
            if wakeup.new_thread != 0 {
                out.extend_from_slice(b", for the first time");
            }
            push_waker(out, &wakeup);
        }
        _ => return push_kernel(out, id, data),
    }
    Some(())
}

/// Appends the waker, where it is known.
fn push_waker(out: &mut Vec<u8>, wakeup: &WakeupData) {
    out.extend_from_slice(match wakeup.waker_context {
        waker_context::UNKNOWN if wakeup.waker_tid == 0 => return,
        waker_context::IRQ => b", by an interrupt",
        waker_context::SOFTIRQ => b", by a soft interrupt",
        waker_context::HRTIMER | waker_context::TIMER => b", by a timer",
        context => {
            out.extend_from_slice(match context {
                waker_context::PACKET => b", by a packet of ",
                _ => b", by ",
            });
            return push_task(out, wakeup.waker_pid, wakeup.waker_tid, &wakeup.waker_comm);
        }
    });
}

fn push_exit(out: &mut Vec<u8>, exit: &ExitData) {
    if exit.signal == 0 {
        out.extend_from_slice(b"status ");
        push_decimal(out, exit.status);
        return;
    }
    out.extend_from_slice(b"killed by ");
    push_signal(out, exit.signal);
}

fn push_fields(out: &mut Vec<u8>, entry: &SystemEventType, data: &[u8]) {
    for (index, field) in entry.fields.iter().enumerate() {
        let Some(value) = value(field, data) else {
            return;
        };
        if index > 0 {
            out.push(b' ');
        }
        out.extend_from_slice(field.name.as_bytes());
        out.push(b'=');
        push_value(out, value);
    }
}

fn push_value(out: &mut Vec<u8>, value: FieldValue<'_>) {
    match value {
        FieldValue::Signed(value) => push_decimal(out, value),
        FieldValue::Unsigned(value) | FieldValue::Signal(value) => push_decimal(out, value),
        FieldValue::Large(value) => push_decimal(out, value),
        FieldValue::Address(address) => push_address(out, address),
        FieldValue::Named(_, Some(name)) => out.extend_from_slice(name.as_bytes()),
        FieldValue::Named(value, None) => push_decimal(out, value),
        FieldValue::Syscall(table, nr) => push_syscall_name(out, table, nr),
        FieldValue::Arguments(call) => push_arguments(out, &call, Texts::default()),
        FieldValue::Strings(arguments) => arguments.push(out),
        FieldValue::NamedArguments(call, texts) => push_arguments(out, &call, texts),
        FieldValue::Filled(call, texts, returned) => push_filled(out, &call, texts, returned),
        FieldValue::Result(returned) | FieldValue::ShownResult(returned) => {
            push_returned(out, returned)
        }
        FieldValue::Bytes(bytes) => push_for_people(out, bytes),
        FieldValue::TaskState(bits) => out.extend_from_slice(task_state(bits, false).0.as_bytes()),
        FieldValue::WaitsIn(waits_in) => push_waits_in(out, waits_in),
        FieldValue::Flag(flag) => push_decimal(out, u8::from(flag)),
        FieldValue::Set(members) => {
            push_decimal(out, members.len());
            out.extend_from_slice(b" types");
        }
    }
}

#[cfg(test)]
mod tests {
    use tracer_common::event_type::{SYSTEM_EVENT_TYPES, system_event_type};
    use tracer_common::kernel::MigrateData;
    use tracer_engine::event::ANOTHER_PROCESS;
    use zerocopy::IntoBytes;

    use super::*;

    fn words(id: EventTypeId, data: &[u8]) -> String {
        let mut out = Vec::new();
        push_system(&mut out, system_event_type(id).unwrap(), data);
        String::from_utf8(out).unwrap()
    }

    fn user(data: &[u8]) -> String {
        let mut out = Vec::new();
        push_user(&mut out, data, Some(64));
        String::from_utf8(out).unwrap()
    }

    const COMM: [u8; 16] = *b"sh\0\0\0\0\0\0\0\0\0\0\0\0\0\0";

    #[test]
    fn a_fork_names_the_child() {
        let data = ForkData {
            child_pid: 7,
            child_tid: 7,
            child_comm: COMM,
            child_ns_pid: 7,
            child_ns_tid: 7,
        };
        assert_eq!(words(EventTypeId::FORK, data.as_bytes()), "child sh 7");
    }

    #[test]
    fn an_exec_names_the_file() {
        let mut data = vec![0; 20];
        data.extend_from_slice(b"/bin/\x1bls\0");
        assert_eq!(words(EventTypeId::EXEC, &data), "/bin/\\u{1b}ls");
    }

    #[test]
    fn an_exit_says_how() {
        let exit =
            |status, signal| words(EventTypeId::EXIT, ExitData { status, signal }.as_bytes());
        assert_eq!(exit(3, 0), "status 3");
        assert_eq!(exit(0, 9), "killed by SIGKILL");
        assert_eq!(exit(0, 40), "killed by signal 40");
    }

    #[test]
    fn a_switch_says_why_and_who_is_next() {
        let blocked = |(waits_in, syscall), state, preempted, next_tid, next_comm| {
            let data = SwitchOutData {
                next_pid: 7,
                next_tid,
                next_comm,
                state,
                preempted,
                waits_in,
                syscall,
                ran_ns: 0,
            };
            words(EventTypeId::SWITCH_OUT, data.as_bytes())
        };
        let switch = |state, preempted, next_tid, next_comm| {
            blocked(
                (waits_in::UNKNOWN, 0),
                state,
                preempted,
                next_tid,
                next_comm,
            )
        };
        let read = u16::try_from(libc::SYS_read).unwrap();
        assert_eq!(
            blocked((waits_in::SYSCALL, read), 1, 0, 8, COMM),
            "S sleeping in read → sh 7/8"
        );
        assert_eq!(
            blocked((waits_in::FAULT | waits_in::IO, 0), 2, 0, 8, COMM),
            "D uninterruptible in page fault, for a device → sh 7/8"
        );
        // By a freezer of version 1, and of version 2.
        for (state, letter) in [(0x8000, 'D'), (0x2001, 'S')] {
            assert_eq!(
                blocked((waits_in::FAULT, 0), state, 0, 8, COMM),
                format!("{letter} frozen → sh 7/8")
            );
        }
        assert_eq!(
            blocked((waits_in::SYSCALL, read), 0x8000, 0, 8, COMM),
            "D frozen in read → sh 7/8"
        );
        assert_eq!(switch(1, 0, 8, COMM), "S sleeping → sh 7/8");
        let idle = *b"swapper/3\0\0\0\0\0\0\0";
        assert_eq!(switch(0, 1, 0, idle), "R preempted → idle");
        assert_eq!(
            switch(1, 0, 0, ANOTHER_PROCESS),
            "S sleeping → another process"
        );
        assert_eq!(
            switch(1, 0, 0, COMM),
            "S sleeping → sh outside the tracer's pid namespace"
        );
    }

    #[test]
    fn a_first_wakeup_is_said() {
        let data = |waker_tid| WakeupData {
            target_cpu: 3,
            new_thread: 1,
            waker_pid: 7,
            waker_tid,
            waker_comm: COMM,
            waker_context: 0,
            reserved: 0,
        };
        assert_eq!(
            words(EventTypeId::WAKEUP, data(0).as_bytes()),
            "on cpu 3, for the first time"
        );
        assert_eq!(
            words(EventTypeId::WAKEUP, data(8).as_bytes()),
            "on cpu 3, for the first time, by sh 7/8"
        );
    }

    #[test]
    fn what_asks_for_a_wakeup_is_said() {
        let said = |waker_context, waker_tid| {
            let data = WakeupData {
                target_cpu: 0,
                new_thread: 0,
                waker_pid: waker_tid,
                waker_tid,
                waker_comm: if waker_tid == 0 { [0; 16] } else { COMM },
                waker_context,
                reserved: 0,
            };
            words(EventTypeId::WAKEUP, data.as_bytes())
        };
        assert_eq!(said(waker_context::THREAD, 7), "on cpu 0, by sh 7");
        assert_eq!(said(waker_context::THREAD, 0), "on cpu 0, by idle");
        assert_eq!(
            said(waker_context::PACKET, 7),
            "on cpu 0, by a packet of sh 7"
        );
        assert_eq!(said(waker_context::IRQ, 0), "on cpu 0, by an interrupt");
        assert_eq!(
            said(waker_context::SOFTIRQ, 0),
            "on cpu 0, by a soft interrupt"
        );
        assert_eq!(said(waker_context::HRTIMER, 0), "on cpu 0, by a timer");
        assert_eq!(said(waker_context::UNKNOWN, 0), "on cpu 0");
    }

    #[test]
    fn what_an_earlier_version_wrote_is_read() {
        let mut data = [0; 32];
        data[8] = 7;
        data[12] = 7;
        data[16..18].copy_from_slice(b"sh");
        assert_eq!(words(EventTypeId::WAKEUP, &data), "on cpu 0, by sh 7");
    }

    #[test]
    fn user_data_is_text_or_hex_and_never_endless() {
        assert_eq!(user(b""), "");
        assert_eq!(user(b"worker=1\0"), "\"worker=1\"");
        assert_eq!(user(b"two\nlines"), "\"two\\nlines\"");
        assert_eq!(
            user(br#"level=INFO "two\nlines" a="b c""#),
            r#"level=INFO "two\nlines" a="b c""#
        );
        assert_eq!(user(&[0xbe, 0xef]), "0xbeef");
        assert!(user(&[0xff; 65]).ends_with("ff… (65 bytes)"));
    }

    #[test]
    fn the_words_of_the_table_name_fields_that_there_are() {
        let with_words = KERNEL_EVENT_TYPES
            .iter()
            .filter(|known| known.words.is_some());
        for known in with_words {
            let data = vec![0; known.data_bytes];
            assert_eq!(push_words(&mut Vec::new(), &known.entry, &data), Some(()));
        }
    }

    #[test]
    fn the_words_of_the_table_are_filled_with_the_fields() {
        let data = MigrateData {
            from_cpu: 3,
            to_cpu: 14,
        };
        assert_eq!(words(EventTypeId::MIGRATE, data.as_bytes()), "cpu 3 → 14");
        assert_eq!(words(EventTypeId::RENAME, &COMM), "now sh");
        // Of data that is truncated, the fields that are whole.
        assert_eq!(
            words(EventTypeId::MIGRATE, &data.as_bytes()[..5]),
            "from_cpu=3"
        );
        assert_eq!(words(EventTypeId::RENAME, &COMM[..2]), "comm=sh");
    }

    #[test]
    fn data_of_any_length_is_shown_without_a_panic() {
        for entry in SYSTEM_EVENT_TYPES {
            for length in 0..400 {
                words(entry.id, &vec![0x9b; length]);
            }
        }
    }
}
