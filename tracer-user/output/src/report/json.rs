//! Events as JSON, one object a line, for programs.
//!
//! The members `thread_id` (the thread's `pthread_t`) and `prog_address` (the user address of the
//! trace point or system call) are there where they are known; `ns_pid` and `ns_tid` where the
//! process has other ids in its own pid namespace. Of text that is no UTF-8 all bytes are beside
//! it, as a member whose name ends with `_bytes`.

use tracer_common::event_type::{FieldKind, SystemEventType};
use tracer_engine::event::Truncation;

use super::calls::CallTimes;
use crate::report::LineFormat;
use tracer_event::document::push_line_end;
use tracer_event::event_view::EventView;
use tracer_event::fields::{FieldValue, failure_of, value};
use tracer_event::kernel_words::{push_returned, push_syscall_name};
use tracer_event::probe::ArgumentValues;
use tracer_event::recorded::{push_recorded_json, recorded};
use tracer_event::self_describing::push_typed_json;
use tracer_event::summary::Summary;
use tracer_event::task_state::{WaitsIn, push_waits_in, task_state};
use tracer_syscalls::arguments::{Call, Shown};
use tracer_syscalls::calls::strings;
use tracer_syscalls::descriptors::Named;
use tracer_syscalls::pointer_data::{Text, Texts};
use tracer_syscalls::shape::push_pointed;
use tracer_syscalls::shown::push_argument;
use tracer_text::WallClock;
use tracer_text::digits::{push_decimal, push_hex};
use tracer_text::escape::{as_text, push_json_bytes_beside, push_json_string};
use tracer_text::self_describing::Typed;

/// Format that shows events as JSON lines.
#[derive(Debug, Default)]
pub struct JsonLines {
    clock: WallClock,
    calls: CallTimes,
}

impl LineFormat for JsonLines {
    fn gap(&mut self) {
        self.calls.forget();
    }

    fn event(&mut self, out: &mut Vec<u8>, line: &EventView<'_>) {
        let header = &line.event.header;
        out.extend_from_slice(b"{\"ns\":");
        push_decimal(out, header.time.0);
        out.extend_from_slice(b",\"time\":\"");
        self.clock.push_date(out, line.date);
        out.extend_from_slice(b"\",\"type\":");
        push_json_string(out, line.name);
        push_json_bytes_beside(out, b"type", line.name);
        out.extend_from_slice(b",\"class\":");
        out.extend_from_slice(if header.event_type.is_user() {
            b"\"user\""
        } else {
            b"\"system\""
        });
        out.extend_from_slice(b",\"pid\":");
        push_decimal(out, header.pid);
        out.extend_from_slice(b",\"tid\":");
        push_decimal(out, header.tid);
        out.extend_from_slice(b",\"comm\":");
        let comm = line.comm.unwrap_or_default();
        push_json_string(out, comm);
        push_json_bytes_beside(out, b"comm", comm);
        out.extend_from_slice(b",\"cpu\":");
        match header.cpu {
            Some(cpu) => push_decimal(out, cpu),
            None => out.extend_from_slice(b"null"),
        }
        out.extend_from_slice(b",\"data\":");
        push_data(out, line);
        out.extend_from_slice(b",\"truncated\":");
        push_bool(out, header.truncation != Truncation::None);
        if let Some(ns) = self.calls.took(line) {
            out.extend_from_slice(b",\"duration_ns\":");
            push_decimal(out, ns);
        }
        if let Some(inside) = line.inside {
            out.extend_from_slice(b",\"ns_pid\":");
            push_decimal(out, inside.pid);
            out.extend_from_slice(b",\"ns_tid\":");
            push_decimal(out, inside.tid);
        }
        if header.thread_id != 0 {
            out.extend_from_slice(b",\"thread_id\":");
            push_decimal(out, header.thread_id);
        }
        if header.program_address != 0 {
            out.extend_from_slice(b",\"prog_address\":");
            push_decimal(out, header.program_address);
        }
        if let Some(context) = line.context {
            out.extend_from_slice(b",\"trace_id\":\"");
            push_hex(out, &context.trace_id);
            out.extend_from_slice(b"\",\"span_id\":\"");
            push_hex(out, &context.span_id);
            out.push(b'"');
        }
        if let Some(stack) = &line.stack {
            out.extend_from_slice(b",\"stack\":");
            stack.push_json(out);
            if let Some(end) = stack.why_it_ends() {
                out.extend_from_slice(b",\"stack_ends\":\"");
                out.extend_from_slice(end.name().as_bytes());
                out.push(b'"');
            }
        }
        push_line_end(out);
    }

    fn end(&mut self, out: &mut Vec<u8>, summary: &Summary) {
        summary.push_json(out);
    }
}

/// Appends the data of an event, as a JSON object.
pub fn push_data(out: &mut Vec<u8>, line: &EventView<'_>) {
    let data = line.event.data;
    out.push(b'{');
    if let Some(entry) = line.entry {
        let mut described = None;
        for (index, field) in entry.fields.iter().enumerate() {
            out.extend_from_slice(if index == 0 { b"\"" } else { b",\"" });
            out.extend_from_slice(field.name.as_bytes());
            out.extend_from_slice(b"\":");
            match value(field, data) {
                Some(value) => {
                    push_value(out, &value);
                    push_beside(out, field.name, &value);
                    if matches!(
                        field.kind,
                        FieldKind::NamedArguments | FieldKind::FilledArguments
                    ) {
                        described = described.or(Some(value));
                    }
                }
                None => out.extend_from_slice(b"null"),
            }
        }
        if let Some(call) = described {
            push_descriptors(out, &call);
        }
    } else if let Some(arguments) = ArgumentValues::parse(line.name, data) {
        arguments.push_json(out);
    } else if let Some(typed) = Typed::parse_event(line.name, data) {
        push_typed_json(out, typed);
    } else {
        if let Some(record) = recorded(&line.event) {
            push_recorded_json(out, &record);
        }
        if let Some(text) = as_text(data) {
            out.extend_from_slice(b"\"text\":");
            push_json_string(out, text.as_bytes());
            out.push(b',');
        }
        out.extend_from_slice(b"\"hex\":\"");
        push_hex(out, data);
        out.push(b'"');
    }
    out.push(b'}');
}

/// Appends one field of a system event's data, as [`push_data`] does. Returns false where the data
/// does not have it; then nothing is appended.
pub fn push_field(out: &mut Vec<u8>, entry: &SystemEventType, name: &str, data: &[u8]) -> bool {
    let field = entry.fields.iter().find(|field| field.name == name);
    let value = field.and_then(|field| value(field, data));
    value.inspect(|value| push_value(out, value)).is_some()
}

fn push_value(out: &mut Vec<u8>, value: &FieldValue<'_>) {
    match value {
        FieldValue::Signed(value) => push_decimal(out, *value),
        FieldValue::Unsigned(value) | FieldValue::Signal(value) => push_decimal(out, *value),
        FieldValue::Large(value) | FieldValue::Address(value) => push_decimal(out, *value),
        FieldValue::Named(_, Some(name)) => push_json_string(out, name.as_bytes()),
        FieldValue::Named(value, None) => push_decimal(out, *value),
        FieldValue::Syscall(table, nr) => {
            out.push(b'"');
            push_syscall_name(out, *table, *nr);
            out.push(b'"');
        }
        // As signed integers: most are small or addresses, which every reader of JSON holds
        // exactly.
        FieldValue::Arguments(call) => {
            push_list(out, call.arguments().map(|(_, argument)| argument.value()));
        }
        FieldValue::NamedArguments(call, texts) => push_arguments(out, call, *texts),
        FieldValue::Filled(call, texts, returned) => {
            push_filled(out, call, *texts, Some(*returned))
        }
        FieldValue::Result(returned) => {
            push_decimal(out, returned.value);
            if let Some(name) = failure_of(*returned) {
                out.extend_from_slice(b",\"error\":");
                push_json_string(out, name.as_bytes());
            }
        }
        FieldValue::ShownResult(returned) => {
            out.push(b'"');
            push_returned(out, *returned);
            out.push(b'"');
        }
        FieldValue::Bytes(bytes) => push_json_string(out, bytes),
        // Whether it was preempted has a field of its own.
        FieldValue::TaskState(bits) => push_json_string(out, task_state(*bits, false).0.as_bytes()),
        FieldValue::WaitsIn(WaitsIn::Unknown) => out.extend_from_slice(b"null"),
        FieldValue::WaitsIn(waits_in) => {
            out.push(b'"');
            push_waits_in(out, *waits_in);
            out.push(b'"');
        }
        FieldValue::Strings(arguments) => {
            // What is missing is said beside them: dots might be its own.
            push_texts(out, arguments.iter().map(|(text, _)| Some((text, false))));
            if arguments.has_more() {
                out.extend_from_slice(b",\"argv_missing_bytes\":");
                match arguments.missing() {
                    Some(missing) => push_decimal(out, missing),
                    None => out.extend_from_slice(b"null"),
                }
            }
        }
        FieldValue::Flag(flag) => push_bool(out, *flag),
        FieldValue::Set(members) => push_list(out, members.iter().map(|member| member.0)),
    }
}

/// Appends the bytes of a field beside it, where it is text that is no UTF-8; of several texts,
/// those that are no UTF-8, with `null` for the others.
fn push_beside(out: &mut Vec<u8>, key: &str, value: &FieldValue<'_>) {
    match value {
        FieldValue::Bytes(bytes) => push_json_bytes_beside(out, key.as_bytes(), bytes),
        FieldValue::Strings(arguments) => {
            let texts: Vec<_> = arguments.iter().map(|(text, _)| text).collect();
            push_all_beside(out, key, &texts);
        }
        _ => {}
    }
}

fn push_all_beside(out: &mut Vec<u8>, key: &str, texts: &[&[u8]]) {
    let is_text = |bytes: &[u8]| std::str::from_utf8(bytes).is_ok();
    if texts.iter().all(|text| is_text(text)) {
        return;
    }
    out.extend_from_slice(b",\"");
    out.extend_from_slice(key.as_bytes());
    out.extend_from_slice(b"_bytes\":[");
    for (nth, bytes) in texts.iter().enumerate() {
        if nth > 0 {
            out.push(b',');
        }
        if is_text(bytes) {
            out.extend_from_slice(b"null");
        } else {
            out.push(b'"');
            push_hex(out, bytes);
            out.push(b'"');
        }
    }
    out.push(b']');
}

/// Appends descriptions of the descriptors of a call, whose arguments these are, by the names of
/// its arguments, where they are known.
fn push_descriptors(out: &mut Vec<u8>, arguments: &FieldValue<'_>) {
    let all = match arguments {
        FieldValue::NamedArguments(call, texts) => Named::from_texts(*texts).all(call),
        FieldValue::Filled(call, texts, _) => Named::from_texts(*texts).all(call),
        _ => return,
    };
    for (nth, (name, words)) in all.iter().enumerate() {
        out.extend_from_slice(if nth == 0 {
            b",\"descriptors\":{"
        } else {
            b","
        });
        push_json_string(out, name.as_bytes());
        out.push(b':');
        push_json_string(out, words);
        push_json_bytes_beside(out, name.as_bytes(), words);
    }
    if !all.is_empty() {
        out.push(b'}');
    }
}

/// Appends the arguments of a call by their names, in readable form.
fn push_arguments(out: &mut Vec<u8>, call: &Call, texts: Texts<'_>) {
    out.push(b'{');
    for (index, (name, argument)) in call.arguments().enumerate() {
        push_key(out, index == 0, name);
        match texts.find(index) {
            Some(text) => {
                push_text(out, call, index, &text, None);
                push_text_beside(out, call, index, name, &text);
            }
            None => push_shown(out, argument),
        }
    }
    out.push(b'}');
}

/// Appends the arguments that a call has filled in.
fn push_filled(out: &mut Vec<u8>, call: &Call, texts: Texts<'_>, returned: Option<i64>) {
    let arguments = call.arguments().enumerate();
    let filled = arguments.filter_map(|(index, (name, _))| Some((index, name, texts.find(index)?)));
    out.push(b'{');
    for (nth, (index, name, text)) in filled.enumerate() {
        push_key(out, nth == 0, name);
        push_text(out, call, index, &text, returned);
        push_text_beside(out, call, index, name, &text);
    }
    out.push(b'}');
}

fn push_key(out: &mut Vec<u8>, is_first: bool, name: &str) {
    out.extend_from_slice(if is_first { b"\"" } else { b",\"" });
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b"\":");
}

/// Appends the data that an argument points to: a struct in words; dots after text of which only
/// the beginning was read.
fn push_text(out: &mut Vec<u8>, call: &Call, index: usize, text: &Text<'_>, returned: Option<i64>) {
    let given = call.given(index).filter(|_| text.is_bytes);
    if given.is_some_and(|given| given.kind.is_text_list()) {
        return match strings(text.bytes) {
            Some((texts, has_more)) => {
                let more = (has_more || text.has_more).then_some(Some((&b""[..], true)));
                push_texts(out, texts.into_iter().chain(more));
            }
            None => out.extend_from_slice(b"null"),
        };
    }
    if given.is_some() {
        let mut words = Vec::new();
        return match push_pointed(&mut words, call, index, text, returned, Named::default()) {
            Some(()) => push_json_string(out, &words),
            None => out.extend_from_slice(b"null"),
        };
    }
    if text.has_more {
        push_json_string(out, &[text.bytes, b"..."].concat());
    } else {
        push_json_string(out, text.bytes);
    }
}

/// Appends the bytes of the data that an argument points to beside it, where that is text and no
/// UTF-8.
fn push_text_beside(out: &mut Vec<u8>, call: &Call, index: usize, name: &str, text: &Text<'_>) {
    match call.given(index).filter(|_| text.is_bytes) {
        Some(given) if given.kind.is_text_list() => {
            if let Some((texts, _)) = strings(text.bytes) {
                let texts = texts
                    .iter()
                    .map(|text| text.map_or(&b""[..], |(text, _)| text));
                push_all_beside(out, name, &texts.collect::<Vec<_>>());
            }
        }
        Some(_) => {}
        None => push_json_bytes_beside(out, name.as_bytes(), text.bytes),
    }
}

/// Appends texts as a list: dots after a text of which there is more, and `null` for one that could
/// not be read.
fn push_texts<'a>(out: &mut Vec<u8>, texts: impl Iterator<Item = Option<(&'a [u8], bool)>>) {
    out.push(b'[');
    for (nth, text) in texts.enumerate() {
        if nth > 0 {
            out.push(b',');
        }
        match text {
            Some((text, false)) => push_json_string(out, text),
            Some((text, true)) => push_json_string(out, &[text, b"..."].concat()),
            None => out.extend_from_slice(b"null"),
        }
    }
    out.push(b']');
}

/// Appends a value, as text where it is not decimal.
fn push_shown(out: &mut Vec<u8>, shown: Shown) {
    let is_text = matches!(
        shown,
        Shown::Hex(_)
            | Shown::Octal(_)
            | Shown::RealTimeSignal(_)
            | Shown::Named(..)
            | Shown::Bits(..)
    );
    if is_text {
        out.push(b'"');
    }
    push_argument(out, shown);
    if is_text {
        out.push(b'"');
    }
}

fn push_list<N: itoa::Integer>(out: &mut Vec<u8>, values: impl IntoIterator<Item = N>) {
    out.push(b'[');
    for (index, value) in values.into_iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        push_decimal(out, value);
    }
    out.push(b']');
}

fn push_bool(out: &mut Vec<u8>, truth: bool) {
    out.extend_from_slice(if truth { b"true" } else { b"false" });
}

#[cfg(test)]
mod tests {
    use tracer_common::event_type::{EventTypeId, SYSTEM_EVENT_TYPES, system_event_type};
    use tracer_common::kernel::text_item;

    use tracer_engine::event::{Event, EventHeader, MonotonicNs, RealtimeNs};
    use tracer_syscalls::pointer_data::push_item;

    use super::*;

    fn parsed(event_type: EventTypeId, name: &[u8], data: &[u8]) -> serde_json::Value {
        let header = EventHeader {
            time: MonotonicNs(2_000_000_001),
            event_type,
            pid: 10,
            tid: 11,
            cpu: None,
            thread_id: 0,
            program_address: 0,
            truncation: Truncation::None,
        };
        let line = EventView {
            event: Event { header, data },
            entry: system_event_type(event_type),
            name,
            comm: Some(b"sh\"\x1b"),
            date: RealtimeNs(60_000_000_000 + header.time.0),
            inside: None,
            stack: None,
            context: None,
        };
        let mut out = Vec::new();
        JsonLines::default().event(&mut out, &line);
        assert_eq!(out.last(), Some(&b'\n'));
        assert_eq!(out.iter().filter(|byte| **byte == b'\n').count(), 1);
        serde_json::from_slice(&out).unwrap()
    }

    #[test]
    fn a_user_event_has_its_bytes_and_its_text() {
        assert_eq!(
            parsed(EventTypeId(257), b"lock held", b"worker=1\0"),
            serde_json::json!({
                "ns": 2_000_000_001_u64, "time": "1970-01-01T00:01:02.000000001Z",
                "type": "lock held", "class": "user", "pid": 10, "tid": 11, "comm": "sh\"\u{1b}",
                "cpu": null, "data": {"text": "worker=1", "hex": "776f726b65723d3100"},
                "truncated": false, "schema": 1,
            })
        );
    }

    #[test]
    fn bytes_that_are_no_text_are_only_hex() {
        let data = &parsed(EventTypeId(256), b"x", &[0xff, 0])["data"];
        assert_eq!(*data, serde_json::json!({"hex": "ff00"}));
    }

    #[test]
    fn a_system_event_has_the_fields_of_the_table() {
        let mut data = Vec::new();
        data.extend_from_slice(&5_u32.to_ne_bytes());
        data.extend_from_slice(&6_u32.to_ne_bytes());
        data.extend_from_slice(b"next\0\0\0\0\0\0\0\0\0\0\0\0");
        data.extend_from_slice(&1_u32.to_ne_bytes());
        data.extend_from_slice(&0_u32.to_ne_bytes());
        data.extend_from_slice(&7_u64.to_ne_bytes());
        let object = parsed(EventTypeId::SWITCH_OUT, b"linux_trace_switch_out", &data);

        assert_eq!(object["class"], "system");
        assert_eq!(
            object["data"],
            serde_json::json!({"next_pid": 5, "next_tid": 6, "next_comm": "next", "state": "S",
                "preempted": false, "waits_in": null, "io_wait": false, "ran_ns": 7})
        );
    }

    #[test]
    fn a_system_call_has_its_name_its_arguments_and_its_result() {
        let nr = i32::try_from(libc::SYS_openat).unwrap().to_ne_bytes();
        let mut entered = Vec::from(nr);
        entered.extend_from_slice(&[0; 4]);
        for argument in [0xffff_ff9c_u64, 0x7ffd_0000_0000, 0o101, 0o644, 9, 7] {
            entered.extend_from_slice(&argument.to_ne_bytes());
        }
        let mut left = entered[..8].to_vec();
        left.extend_from_slice(&(-2_i64).to_ne_bytes());
        let enter = parsed(EventTypeId::SYSCALL_ENTER, b"x", &entered);
        let exit = parsed(EventTypeId::SYSCALL_EXIT, b"x", &left);

        assert_eq!(
            enter["data"],
            serde_json::json!({"name": "openat", "number": libc::SYS_openat, "compat": false,
                "args": [-100, 0x7ffd_0000_0000_u64, 0o101, 0o644],
                "arguments": {"dfd": "AT_FDCWD", "filename": "0x7ffd00000000", "flags": "O_WRONLY|O_CREAT",
                    "mode": "0644"}})
        );
        assert_eq!(
            exit["data"],
            serde_json::json!({"name": "openat", "number": libc::SYS_openat, "compat": false,
                "ret": -2, "error": "ENOENT", "result": "-2 ENOENT", "filled": {}})
        );
        // What was read behind an argument is shown instead of its address.
        let mut entered = entered.to_vec();
        push_item(&mut entered, 1, text_item::MORE, b"/\x1b\"");
        let enter = parsed(EventTypeId::SYSCALL_ENTER, b"x", &entered);
        assert_eq!(enter["data"]["arguments"]["filename"], "/\u{1b}\"...");
        assert_eq!(enter["data"]["args"][1], 0x7ffd_0000_0000_u64);
        let mut filled = left.to_vec();
        push_item(&mut filled, 1, 0, b"/etc");
        let exit = parsed(EventTypeId::SYSCALL_EXIT, b"x", &filled);
        assert_eq!(
            exit["data"]["filled"],
            serde_json::json!({"filename": "/etc"})
        );
        let umask = i32::try_from(libc::SYS_umask).unwrap().to_ne_bytes();
        left[..4].copy_from_slice(&umask);
        left[8..].copy_from_slice(&0o22_i64.to_ne_bytes());
        let exit = parsed(EventTypeId::SYSCALL_EXIT, b"x", &left);
        assert_eq!(exit["data"]["ret"], 0o22);
        assert_eq!(exit["data"]["result"], "022");
    }

    #[test]
    fn data_of_any_length_makes_valid_json() {
        for entry in SYSTEM_EVENT_TYPES {
            for length in 0..400 {
                let object = parsed(entry.id, entry.name.as_bytes(), &vec![0xa5; length]);
                for field in entry.fields {
                    assert!(object["data"].get(field.name).is_some(), "{}", field.name);
                }
            }
        }
    }
}
