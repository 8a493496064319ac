//! Decodes the records of a ring into events.

use std::mem::{offset_of, size_of};

use tracer_common::event_type::EventTypeId;
use tracer_common::kernel::{
    ExecRecord, KERNEL_EVENT_TYPES, PROBE_DATA_BYTES, PROBE_RECORDS, ProbeData, ProbeTextsRecord,
    Record, RecordHeader, SWITCH_RECORD, SYSCALL_CALL_TEXTS, SYSCALL_ENTER_TEXTS,
    SYSCALL_EXIT_TEXTS, SYSCALL_TEXTS, Sight, SwitchInData, SwitchRecord, SyscallCallData,
    SyscallEnterData, SyscallExitData, SyscallText, TRACEPOINT_RECORDS, TracepointData,
    exec_arguments, exec_space, gathered, probe_texts, string_space, text_item, tracepoint_space,
};
use tracer_engine::event::{EventHeader, MonotonicNs, Truncation};
use zerocopy::{FromBytes, IntoBytes};

use tracer_syscalls::pointer_data::push_item;

/// Step of an exec. The new program gets its credentials between the two steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExecStep {
    /// Beginning: the thread is renamed, and later records may already be the new program's.
    Begins,
    /// End: the new program is there. Its properties decide who may look into it.
    Done(Sight),
}

/// Step of a process's exec.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExecSign {
    /// Time of the event that reports it.
    pub time: MonotonicNs,
    /// The process.
    pub pid: i32,
    /// The step.
    pub step: ExecStep,
}

/// Reason why a record is not one that our programs write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// Record that is shorter than a header.
    #[error("{have} bytes are too few for a header")]
    HeaderTruncated {
        /// Number of bytes.
        have: usize,
    },
    /// Type that is not one of the kernel's.
    #[error("the event type {event_type} is unknown")]
    UnknownType {
        /// The type.
        event_type: u16,
    },
    /// Record of another size than its type has.
    #[error("a record of type {event_type} has {have} bytes")]
    WrongSize {
        /// The type.
        event_type: u16,
        /// Number of bytes.
        have: usize,
    },
    /// Number that cannot be the id of a process or thread.
    #[error("{id} is not the number of a process or thread")]
    WrongId {
        /// The id.
        id: u32,
    },
}

/// Hands over each event that `untrusted` records, with its data: a single one, or both events of a
/// switch.
pub fn decode(
    untrusted: &[u8],
    mut each: impl FnMut(EventHeader, &[u8]),
) -> Result<(), RecordError> {
    let have = untrusted.len();
    let Ok((header, _)) = RecordHeader::ref_from_prefix(untrusted) else {
        return Err(RecordError::HeaderTruncated { have });
    };
    match header.event_type {
        SWITCH_RECORD => return decode_switch(untrusted, each),
        SYSCALL_ENTER_TEXTS => {
            return decode_texts::<SyscallEnterData>(untrusted, EventTypeId::SYSCALL_ENTER, each);
        }
        SYSCALL_EXIT_TEXTS => {
            return decode_texts::<SyscallExitData>(untrusted, EventTypeId::SYSCALL_EXIT, each);
        }
        SYSCALL_CALL_TEXTS => return decode_call(untrusted, each),
        event_type if u32::from(event_type) == EventTypeId::EXEC.0 => {
            let (event, data) = decode_exec(untrusted, header)?;
            each(event, &data);
            return Ok(());
        }
        _ => {}
    }
    if let Some(data) = probed_texts(header, untrusted) {
        each(
            event_header(header, EventTypeId(u32::from(header.event_type)))?,
            &data,
        );
        return Ok(());
    }
    let (header, data) = if header.event_type >= TRACEPOINT_RECORDS {
        decode_tracepoint(untrusted, header)?
    } else {
        decode_one(untrusted, header)?
    };
    each(header, data);
    Ok(())
}

/// Returns the data of a probe with the texts of its arguments behind it; `None` for a record of
/// another kind. For each text there is a word of 32 bits, followed by the bytes of the text. The
/// word is their number, with the bit [`MORE`](probed::MORE) where there is more of the text, or
/// [`NONE`](probed::NONE).
fn probed_texts(header: &RecordHeader, untrusted: &[u8]) -> Option<Vec<u8>> {
    const SMALL: usize = size_of::<ProbeTextsRecord<{ probe_texts::SMALL }>>();
    const LARGE: usize = size_of::<ProbeTextsRecord<{ probe_texts::LARGE }>>();
    if !(PROBE_RECORDS..TRACEPOINT_RECORDS).contains(&header.event_type) {
        return None;
    }
    let space = match untrusted.len() {
        SMALL => probe_texts::SMALL,
        LARGE => probe_texts::LARGE,
        _ => return None,
    };
    let (front, _) = ProbeTextsRecord::<0>::ref_from_prefix(untrusted).ok()?;
    let texts = untrusted.get(size_of::<ProbeTextsRecord<0>>()..)?;
    let mut data = arguments_only(front.data.as_bytes()).to_vec();
    let wanted = usize::try_from(front.wanted).unwrap_or(usize::MAX);
    for (length, text) in front.lengths.iter().zip(texts.chunks(space)) {
        let Ok(length @ 1..) = usize::try_from(*length) else {
            data.extend_from_slice(&probed::NONE.to_ne_bytes());
            continue;
        };
        // The null is counted, but left out here.
        let length = length.saturating_sub(1);
        let text = text.get(..length.min(wanted)).unwrap_or(text);
        let more = if length > text.len() { probed::MORE } else { 0 };
        let head = u32::try_from(text.len()).unwrap_or(0) | more;
        data.extend_from_slice(&head.to_ne_bytes());
        data.extend_from_slice(text);
    }
    Some(data)
}

/// Words before each text of a probe.
pub mod probed {
    /// Bit of a length: there is more of the text.
    pub const MORE: u32 = 1 << 31;
    /// Value instead of a length: there is no text, or it could not be read.
    pub const NONE: u32 = u32::MAX;
}

/// Decodes the record of a tracepoint. The data is truncated where the record had no space for all
/// of it. The type in the header is still the index of the tracepoint.
fn decode_tracepoint<'a>(
    untrusted: &'a [u8],
    header: &RecordHeader,
) -> Result<(EventHeader, &'a [u8]), RecordError> {
    let event_type = header.event_type;
    let have = untrusted.len();
    let wrong_size = RecordError::WrongSize { event_type, have };
    // The length, and a word that is zero.
    const FRONT: usize = offset_of!(TracepointData<0>, bytes);
    let data = untrusted.get(size_of::<RecordHeader>()..);
    let (front, bytes) = data
        .and_then(|data| data.split_at_checked(FRONT))
        .filter(|(_, bytes)| TRACEPOINT_SPACES.contains(&bytes.len()))
        .ok_or(wrong_size)?;
    let length = front
        .first_chunk()
        .map_or(0, |four| u32::from_ne_bytes(*four));
    let length = usize::try_from(length).unwrap_or(usize::MAX);
    let mut event = event_header(header, EventTypeId(u32::from(event_type)))?;
    if length > bytes.len() {
        event.truncation = Truncation::Record;
    }
    Ok((event, bytes.get(..length).unwrap_or(bytes)))
}

const TRACEPOINT_SPACES: [usize; 3] = [
    tracepoint_space::SMALL,
    tracepoint_space::MIDDLE,
    tracepoint_space::LARGE,
];

/// Hands over both events of a switch, first that of the thread that leaves.
fn decode_switch(
    untrusted: &[u8],
    mut each: impl FnMut(EventHeader, &[u8]),
) -> Result<(), RecordError> {
    let Ok(record) = SwitchRecord::ref_from_bytes(untrusted) else {
        return Err(RecordError::WrongSize {
            event_type: SWITCH_RECORD,
            have: untrusted.len(),
        });
    };
    let leaving = event_header(&record.header, EventTypeId::SWITCH_OUT)?;
    let coming = EventHeader {
        event_type: EventTypeId::SWITCH_IN,
        pid: task_id(record.out.next_pid)?,
        tid: task_id(record.out.next_tid)?,
        thread_id: record.next_thread_id,
        ..leaving
    };
    let data = SwitchInData {
        prev_pid: record.header.pid,
        prev_tid: record.header.tid,
        prev_comm: record.prev_comm,
        others: record.others,
        reserved: 0,
    };
    each(leaving, record.out.as_bytes());
    each(coming, data.as_bytes());
    Ok(())
}

/// Hands over an event of a system call. The data of the event is followed by what its arguments
/// point to.
fn decode_texts<D>(
    untrusted: &[u8],
    event_type: EventTypeId,
    mut each: impl FnMut(EventHeader, &[u8]),
) -> Result<(), RecordError> {
    type Heads = [SyscallText; SYSCALL_TEXTS];
    let wrong_size = RecordError::WrongSize {
        event_type: u16::try_from(event_type.0).unwrap_or(u16::MAX),
        have: untrusted.len(),
    };
    let Ok((header, rest)) = RecordHeader::ref_from_prefix(untrusted) else {
        return Err(wrong_size);
    };
    let Some((data, rest)) = rest.split_at_checked(size_of::<D>()) else {
        return Err(wrong_size);
    };
    let Ok((heads, bytes)) = Heads::ref_from_prefix(rest) else {
        return Err(wrong_size);
    };
    let space = usize::try_from(header.truncated >> RecordHeader::SPACE_AT).unwrap_or(0);
    let is_space = [
        string_space::SMALL,
        string_space::MIDDLE,
        string_space::WIDE,
        string_space::LARGE,
    ]
    .contains(&space);
    // The bytes behind the last one that was read may be missing.
    let used = heads
        .iter()
        .enumerate()
        .map(|(nth, head)| match usize::try_from(head.length) {
            Ok(length @ 1..) => nth * space + length.min(space),
            _ => 0,
        });
    let least = used.max().unwrap_or(0);
    if !is_space || !(least..=space * SYSCALL_TEXTS).contains(&bytes.len()) {
        return Err(wrong_size);
    }
    let mut all = data.to_vec();
    let bytes = bytes.chunks(space).chain(std::iter::repeat([].as_slice()));
    for (head, bytes) in heads.iter().zip(bytes) {
        push_pointed(&mut all, head, bytes);
    }
    let header = RecordHeader {
        truncated: 0,
        ..*header
    };
    each(event_header(&header, event_type)?, &all);
    Ok(())
}

/// Hands over a system call that is recorded only as it ends. The data of the event is followed by
/// what the arguments point to, and by the values of the registers for arguments, where these are
/// known.
fn decode_call(
    untrusted: &[u8],
    mut each: impl FnMut(EventHeader, &[u8]),
) -> Result<(), RecordError> {
    decode_texts::<SyscallCallData>(untrusted, EventTypeId::SYSCALL_EXIT, |header, data| {
        let Ok((call, texts)) = SyscallCallData::read_from_prefix(data) else {
            return;
        };
        let mut all = call.exit.as_bytes().to_vec();
        all.extend_from_slice(texts);
        if call.are_known != 0 {
            push_item(
                &mut all,
                text_item::REGISTERS,
                text_item::BYTES,
                call.args.as_bytes(),
            );
        }
        each(header, &all);
    })
}

/// Appends what an argument points to, in the form in which it follows the data of an event.
fn push_pointed(out: &mut Vec<u8>, head: &SyscallText, untrusted: &[u8]) {
    let Some(argument) = head.argument.checked_sub(1) else {
        return;
    };
    let shape = u32::from(head.is_bytes >> 1);
    if gathered::is_of_several(shape) && head.length >= 0 {
        let length = usize::try_from(head.length).unwrap_or(0);
        let read = untrusted.get(..length).unwrap_or(untrusted);
        return push_several(out, argument, shape, read);
    }
    let kind = if head.is_bytes == 0 {
        0
    } else {
        text_item::BYTES
    };
    let Ok(length) = usize::try_from(head.length) else {
        return push_item(out, argument, kind | text_item::UNREADABLE, b"");
    };
    // The programs look for one byte more than is wanted, and the length of a text includes its
    // null.
    let length = if kind == 0 {
        length.saturating_sub(1)
    } else {
        length
    };
    let shown = length.min(usize::from(head.wanted));
    let more = if length > shown { text_item::MORE } else { 0 };
    push_item(
        out,
        argument,
        kind | more,
        untrusted.get(..shown).unwrap_or_default(),
    );
}

/// Appends what several arguments point to, which the programs have gathered in one piece. `first`
/// is the first of these arguments.
fn push_several(out: &mut Vec<u8>, first: u8, shape: u32, untrusted: &[u8]) {
    // The arguments, counted from the first one, and how many of them are texts.
    let (arguments, texts): (&[u8], usize) = match shape {
        gathered::MOUNTED => (&[0, 1, 2, 4], 4),
        gathered::ATTRIBUTE => (&[0, 1, 2], 2),
        gathered::SETS => (&[0, 1, 2, 3, 4, 4], 0),
        // Two halves of one argument.
        gathered::OLD_SIGNAL_MASK => (&[0, 0], 0),
        _ => (&[0, 1, 2, 3], 0),
    };
    let mut rest = untrusted.get(gathered::HEAD..).unwrap_or_default();
    let mut last: Option<(u8, u8, Vec<u8>)> = None;
    for (nth, argument) in arguments.iter().enumerate() {
        let kind = if nth < texts { 0 } else { text_item::BYTES };
        let Some(([low, high], behind)) = rest.split_first_chunk() else {
            break;
        };
        let head = u16::from_ne_bytes([*low, *high]);
        let (length, mut bits) = if head == gathered::UNREAD {
            (0, kind | text_item::UNREADABLE)
        } else {
            (usize::from(head & !gathered::TRUNCATED), kind)
        };
        if head != gathered::UNREAD && head & gathered::TRUNCATED != 0 {
            bits |= text_item::MORE;
        }
        let (read, behind) = behind.split_at(length.min(behind.len()));
        rest = behind;
        let argument = first.saturating_add(*argument);
        match &mut last {
            // The second half of what an argument points to.
            Some((same, _, bytes)) if *same == argument => bytes.extend_from_slice(read),
            _ => {
                if let Some((argument, bits, bytes)) = last.replace((argument, bits, read.to_vec()))
                {
                    push_item(out, argument, bits, &bytes);
                }
            }
        }
    }
    if let Some((argument, bits, bytes)) = last {
        push_item(out, argument, bits, &bytes);
    }
}

/// Decodes the single event that `untrusted` records. `header` is the header of that record.
fn decode_one<'a>(
    untrusted: &'a [u8],
    header: &RecordHeader,
) -> Result<(EventHeader, &'a [u8]), RecordError> {
    let have = untrusted.len();
    let rest = untrusted.get(size_of::<RecordHeader>()..);
    let event_type = header.event_type;
    let id = EventTypeId(u32::from(event_type));
    let shape = shape(id).ok_or(RecordError::UnknownType { event_type })?;
    let data = rest
        .and_then(|rest| rest.get(..shape.data_bytes))
        .filter(|_| have == shape.record_bytes)
        .ok_or(RecordError::WrongSize { event_type, have })?;
    let header = event_header(header, id)?;
    let data = match shape.text_at {
        Some(text_at) => without_slack(data, text_at),
        None if is_probe(id) => arguments_only(data),
        None => data,
    };
    Ok((header, data))
}

/// Decodes an exec. In its data, the file and a null are followed by the arguments.
fn decode_exec(
    untrusted: &[u8],
    header: &RecordHeader,
) -> Result<(EventHeader, Vec<u8>), RecordError> {
    const FRONT: usize = size_of::<ExecRecord<0>>();
    const SMALLEST: usize = FRONT + exec_space::SMALL;
    let (event_type, have) = (header.event_type, untrusted.len());
    let wrong_size = RecordError::WrongSize { event_type, have };
    let space = have
        .checked_sub(FRONT)
        .filter(|space| [exec_space::SMALL, exec_space::MIDDLE, exec_space::LARGE].contains(space));
    let record = ExecRecord::<0>::ref_from_prefix(untrusted).ok();
    let (Some(_), Some((record, arguments)), Some(first)) =
        (space, record, untrusted.get(..SMALLEST))
    else {
        return Err(wrong_size);
    };
    let (mut event, data) = decode_one(first, header)?;
    let mut all = data.to_vec();
    if !all.ends_with(&[0]) {
        // The file was truncated before its null.
        all.push(0);
    }
    if record.arguments_length == ExecRecord::UNREAD {
        all.push(exec_arguments::UNREADABLE);
        return Ok((event, all));
    }
    let length = usize::try_from(record.arguments_length).unwrap_or(usize::MAX);
    let asked = usize::try_from(record.arguments_asked).unwrap_or(usize::MAX);
    let shown = arguments.get(..length.min(asked)).unwrap_or(arguments);
    match u32::try_from(length - shown.len()) {
        Ok(0) => all.push(0),
        missing => {
            event.truncation = Truncation::Record;
            all.push(exec_arguments::MORE | exec_arguments::COUNTED);
            all.extend_from_slice(&missing.unwrap_or(u32::MAX).to_ne_bytes());
        }
    }
    all.extend_from_slice(shown);
    Ok((event, all))
}

/// Returns the header of an event of type `event_type`.
fn event_header(
    header: &RecordHeader,
    event_type: EventTypeId,
) -> Result<EventHeader, RecordError> {
    Ok(EventHeader {
        time: clock(header.time_ns),
        event_type,
        pid: task_id(header.pid)?,
        tid: task_id(header.tid)?,
        cpu: Some(u32::from(header.cpu)),
        thread_id: header.thread_id,
        program_address: header.program_address,
        truncation: match header.truncated & !RecordHeader::EXEC_BEGINS {
            0 => Truncation::None,
            _ => Truncation::Record,
        },
    })
}

/// Returns the time of a record.
fn clock(time_ns: u64) -> MonotonicNs {
    /// Step of the clock. With the feature `coarse-clock`, which is for tests, it is as on a
    /// machine whose counter ticks 24 million times a second.
    const STEP_NS: u64 = if cfg!(feature = "coarse-clock") {
        42
    } else {
        1
    };
    MonotonicNs(time_ns / STEP_NS * STEP_NS)
}

/// Reads the step of an exec from a record, with its time and process. No event has the step in its
/// data.
pub fn exec_sign(untrusted: &[u8]) -> Option<ExecSign> {
    let (header, _) = RecordHeader::read_from_prefix(untrusted).ok()?;
    let step = match EventTypeId(u32::from(header.event_type)) {
        EventTypeId::RENAME if header.truncated & RecordHeader::EXEC_BEGINS != 0 => {
            ExecStep::Begins
        }
        EventTypeId::EXEC => {
            ExecStep::Done(ExecRecord::<0>::read_from_prefix(untrusted).ok()?.0.sight)
        }
        _ => return None,
    };
    Some(ExecSign {
        time: clock(header.time_ns),
        pid: task_id(header.pid).ok()?,
        step,
    })
}

/// Step in the life of a guarded process that could not be looked into, so that no event reports
/// the step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnseenStep {
    /// Its time.
    pub time: MonotonicNs,
    /// The process.
    pub pid: i32,
    /// The thread.
    pub tid: i32,
    /// The process that the thread has made; `None` where the process itself has ended.
    pub child: Option<i32>,
}

/// Reads such a step from a record; `None` for the record of an event.
pub fn unseen_step(untrusted: &[u8]) -> Option<UnseenStep> {
    let (header, data) = RecordHeader::ref_from_prefix(untrusted).ok()?;
    if header.truncated & RecordHeader::WITHHELD == 0 {
        return None;
    }
    let child = match EventTypeId(header.event_type.into()) {
        EventTypeId::FORK => Some(task_id(u32::from_ne_bytes(*data.first_chunk()?)).ok()?),
        EventTypeId::EXIT => None,
        _ => return None,
    };
    Some(UnseenStep {
        time: clock(header.time_ns),
        pid: task_id(header.pid).ok()?,
        tid: task_id(header.tid).ok()?,
        child,
    })
}

/// Shape of the records of a type.
#[derive(Clone, Copy)]
struct Shape {
    record_bytes: usize,
    data_bytes: usize,
    /// Offset of a text that ends the data.
    text_at: Option<usize>,
}

/// One more than the highest id of the kernel's types.
#[expect(clippy::indexing_slicing, reason = "the compiler makes it")]
const TYPES: usize = KERNEL_EVENT_TYPES[KERNEL_EVENT_TYPES.len() - 1].entry.id.0 as usize + 1;

/// The shape of each type's records, by its id.
#[expect(clippy::indexing_slicing, reason = "the compiler makes it")]
const SHAPES: [Option<Shape>; TYPES] = {
    let mut shapes = [None; TYPES];
    let mut i = 0;
    while i < KERNEL_EVENT_TYPES.len() {
        let known = KERNEL_EVENT_TYPES[i];
        shapes[known.entry.id.0 as usize] = Some(Shape {
            record_bytes: known.record_bytes,
            data_bytes: known.data_bytes,
            text_at: known.text_at,
        });
        i += 1;
    }
    shapes
};

/// Shape of the records of probes.
const PROBE_SHAPE: Shape = Shape {
    record_bytes: Record::<ProbeData>::BYTES,
    data_bytes: size_of::<ProbeData>(),
    text_at: None,
};

fn shape(id: EventTypeId) -> Option<Shape> {
    if is_probe(id) {
        return Some(PROBE_SHAPE);
    }
    *SHAPES.get(usize::try_from(id.0).ok()?)?
}

/// Tells whether this id has the index of a probe, whose event type the stream has yet to choose.
fn is_probe(id: EventTypeId) -> bool {
    id.0 >= u32::from(PROBE_RECORDS)
}

/// Returns the data of a probe up to its last argument.
fn arguments_only(data: &[u8]) -> &[u8] {
    let count = ProbeData::read_from_bytes(data).map_or(0, |data| usize::from(data.count));
    data.get(..PROBE_DATA_BYTES + count * size_of::<u64>())
        .unwrap_or(data)
}

/// Returns the data up to the null that ends the text at `text_at`, the null included.
fn without_slack(data: &[u8], text_at: usize) -> &[u8] {
    let text = data.get(text_at..).unwrap_or_default();
    match text.iter().position(|byte| *byte == 0) {
        Some(null) => data.get(..=text_at + null).unwrap_or(data),
        None => data,
    }
}

fn task_id(untrusted: u32) -> Result<i32, RecordError> {
    i32::try_from(untrusted).map_err(|_out_of_range| RecordError::WrongId { id: untrusted })
}

#[cfg(test)]
mod tests {
    use super::*;
    use tracer_common::kernel::{COMM_BYTES, EXEC_FILE_BYTES, ExecData, SwitchOutData, WakeupData};
    use zerocopy::FromZeros;

    fn header(event_type: EventTypeId) -> RecordHeader {
        RecordHeader {
            time_ns: 5,
            thread_id: 6,
            program_address: 7,
            pid: 8,
            tid: 9,
            event_type: u16::try_from(event_type.0).unwrap(),
            cpu: 1,
            truncated: 0,
        }
    }

    /// Builds the record of an exec whose arguments have `length` bytes, with `space` bytes for
    /// them.
    fn exec_with(file: &[u8], length: u32, space: usize) -> Vec<u8> {
        let mut record = ExecRecord {
            header: header(EventTypeId::EXEC),
            data: ExecData {
                comm: [b'c'; COMM_BYTES],
                old_tid: 9,
                file: [0; EXEC_FILE_BYTES],
            },
            reserved: [0; 4],
            sight: Sight::new_zeroed(),
            arguments_length: length,
            arguments_asked: 4096,
            arguments: [],
        };
        record.data.file[..file.len()].copy_from_slice(file);
        let mut bytes = Vec::new();
        bytes.extend_from_slice(record.header.as_bytes());
        bytes.extend_from_slice(record.data.as_bytes());
        bytes.extend_from_slice(&record.reserved);
        bytes.extend_from_slice(record.sight.as_bytes());
        bytes.extend_from_slice(&record.arguments_length.to_ne_bytes());
        bytes.extend_from_slice(&record.arguments_asked.to_ne_bytes());
        assert_eq!(bytes.len(), size_of::<ExecRecord<0>>());
        bytes.extend_from_slice(b"a\0-b\0");
        bytes.resize(size_of::<ExecRecord<0>>() + space, b'x');
        bytes
    }

    fn exec(file: &[u8]) -> Vec<u8> {
        exec_with(file, 5, exec_space::SMALL)
    }

    /// Decodes the one event of a record.
    fn one(untrusted: &[u8]) -> Result<(EventHeader, Vec<u8>), RecordError> {
        let mut event = None;
        decode(untrusted, |header, data| {
            event = Some((header, data.to_vec()));
        })?;
        Ok(event.unwrap())
    }

    #[test]
    fn what_arguments_point_to_follows_the_data() {
        const SMALL: usize = string_space::SMALL;
        let record = |texts: [SyscallText; SYSCALL_TEXTS]| {
            let mut header = header(EventTypeId::SYSCALL_ENTER);
            header.event_type = SYSCALL_ENTER_TEXTS;
            header.truncated = u32::try_from(SMALL).unwrap() << RecordHeader::SPACE_AT;
            let mut data = SyscallEnterData::new_zeroed();
            data.args = [7; 6];
            let mut bytes = [[b'x'; SMALL]; SYSCALL_TEXTS];
            bytes[1][3] = 0;
            let parts = [header.as_bytes(), data.as_bytes(), texts.as_bytes()];
            (data, [&parts.concat(), bytes.as_bytes()].concat())
        };
        let text = |argument, is_bytes, length| SyscallText {
            argument,
            is_bytes,
            wanted: 4,
            length,
        };
        let all = |texts| {
            let (data, record) = record(texts);
            let (event, found) = one(&record).unwrap();
            assert_eq!(event.event_type, EventTypeId::SYSCALL_ENTER);
            assert_eq!(event.truncation, Truncation::None);
            let (fixed, behind) = found.split_at(size_of_val(&data));
            assert_eq!(fixed, data.as_bytes());
            behind.to_vec()
        };
        let items = |items: &[(u8, u8, &[u8])]| {
            let mut out = Vec::new();
            for (argument, bits, bytes) in items {
                push_item(&mut out, *argument, *bits, bytes);
            }
            out
        };
        // One byte more is looked for than is wanted; the length of a text includes its null.
        assert_eq!(
            all([text(2, 1, 5), text(3, 0, 4)]),
            items(&[
                (1, text_item::BYTES | text_item::MORE, b"xxxx"),
                (2, 0, b"xxx")
            ])
        );
        assert_eq!(
            all([text(2, 0, -14), text(0, 0, 0)]),
            items(&[(1, text_item::UNREADABLE, b"")])
        );
        // A record of any length, with any words before its texts, is refused or read within its
        // bounds.
        let (_, long) = record([text(255, 255, i32::MAX), text(1, 0, i32::MIN)]);
        let needed = long.len() - SMALL;
        let longer = [&*long, &[0]].concat();
        for length in 0..=longer.len() {
            let is_taken = one(&longer[..length]).is_ok();
            assert_eq!(
                is_taken,
                (needed..=long.len()).contains(&length),
                "{length}"
            );
        }
        // A record may end with the last byte that was read.
        let (_, both) = record([text(2, 1, 5), text(3, 0, 4)]);
        let whole = one(&both).unwrap().1;
        let needed = both.len() - SMALL + 4;
        assert_eq!(one(&both[..needed]).unwrap().1, whole);
        assert!(one(&both[..needed - 1]).is_err());
    }

    #[test]
    fn a_call_that_is_recorded_only_as_it_ends_has_its_registers_where_they_are_known() {
        const SMALL: usize = string_space::SMALL;
        let texts = |are_known| {
            let mut header = header(EventTypeId::SYSCALL_EXIT);
            header.event_type = SYSCALL_CALL_TEXTS;
            header.truncated = u32::try_from(SMALL).unwrap() << RecordHeader::SPACE_AT;
            let mut call = SyscallCallData::new_zeroed();
            (call.exit.ret, call.args[2], call.are_known) = (5, 7, are_known);
            let none = [[0_u8; size_of::<SyscallText>()]; SYSCALL_TEXTS];
            let record = [header.as_bytes(), call.as_bytes(), none.as_bytes()].concat();
            let (event, data) = one(&record).unwrap();
            assert_eq!(event.event_type, EventTypeId::SYSCALL_EXIT);
            let (exit, behind) = data.split_at(size_of::<SyscallExitData>());
            assert_eq!(exit, call.exit.as_bytes());
            tracer_syscalls::pointer_data::Texts::behind(0, behind).registers()
        };

        assert_eq!(texts(1), Some([0, 0, 7, 0, 0, 0]));
        assert_eq!(texts(0), None);
    }

    #[test]
    fn what_a_tracepoint_has_is_as_long_as_the_record_says() {
        let record = |length: u32, space: usize| {
            let mut header = header(EventTypeId::FORK);
            header.event_type = TRACEPOINT_RECORDS + 3;
            let words = [length, 0];
            [header.as_bytes(), words.as_bytes(), &vec![7; space]].concat()
        };
        let (event, data) = one(&record(5, tracepoint_space::SMALL)).unwrap();
        assert_eq!(event.event_type, EventTypeId(0xc003));
        assert_eq!((data, event.truncation), (vec![7; 5], Truncation::None));
        let (event, data) = one(&record(u32::MAX, tracepoint_space::MIDDLE)).unwrap();
        assert_eq!(data.len(), tracepoint_space::MIDDLE);
        assert_eq!(event.truncation, Truncation::Record);
        let whole = record(5, tracepoint_space::SMALL);
        for length in 0..whole.len() {
            assert!(one(&whole[..length]).is_err(), "{length}");
        }
    }

    #[test]
    fn a_record_becomes_an_event_with_its_data() {
        let wakeup = WakeupData {
            target_cpu: 3,
            new_thread: 1,
            waker_pid: 4,
            waker_tid: 5,
            waker_comm: [b'w'; COMM_BYTES],
            waker_context: 1,
            reserved: 0,
        };
        let header = header(EventTypeId::WAKEUP);

        let (event, data) = one(&[header.as_bytes(), wakeup.as_bytes()].concat()).unwrap();

        assert_eq!(event.time, MonotonicNs(5));
        assert_eq!((event.pid, event.tid, event.cpu), (8, 9, Some(1)));
        assert_eq!(event.truncation, Truncation::None);
        assert_eq!(data, wakeup.as_bytes());
    }

    #[test]
    fn a_switch_between_two_traced_threads_is_two_events_of_one_time() {
        let mut record = SwitchRecord {
            header: header(EventTypeId::SWITCH_OUT),
            out: SwitchOutData {
                next_pid: 20,
                next_tid: 21,
                next_comm: [b'n'; COMM_BYTES],
                state: 1,
                preempted: 0,
                waits_in: 0,
                syscall: 0,
                ran_ns: 5,
            },
            next_thread_id: 22,
            others: 2,
            reserved: 0,
            prev_comm: [b'p'; COMM_BYTES],
        };
        record.header.event_type = SWITCH_RECORD;
        let mut events = Vec::new();

        decode(record.as_bytes(), |header, data| {
            events.push((header, data.to_vec()));
        })
        .unwrap();

        let [(leaves, left), (comes, came)] = &events[..] else {
            panic!("{events:?}");
        };
        assert_eq!((leaves.pid, leaves.tid, leaves.thread_id), (8, 9, 6));
        assert_eq!(leaves.event_type, EventTypeId::SWITCH_OUT);
        assert_eq!(left, record.out.as_bytes());
        assert_eq!((comes.pid, comes.tid, comes.thread_id), (20, 21, 22));
        assert_eq!(comes.event_type, EventTypeId::SWITCH_IN);
        assert_eq!((comes.time, comes.cpu), (leaves.time, leaves.cpu));
        assert_eq!(came[..8], [8, 0, 0, 0, 9, 0, 0, 0]);
        assert_eq!(came[8..24], [b'p'; COMM_BYTES]);
        assert_eq!(came[24..], [2, 0, 0, 0, 0, 0, 0, 0]);
        let truncated = &record.as_bytes()[..80];
        assert!(decode(truncated, |_, _| panic!("an event")).is_err());
    }

    #[test]
    fn the_file_of_an_exec_ends_with_its_null() {
        let (_, data) = one(&exec(b"/bin/sh")).unwrap();

        assert_eq!(&data[20..], b"/bin/sh\0\0a\0-b\0");
    }

    #[test]
    fn an_exec_has_as_much_of_its_arguments_as_was_read() {
        let with_length = |length, space| {
            let (event, data) = one(&exec_with(b"x", length, space)).unwrap();
            let (bits, arguments) = data[22..].split_first().unwrap();
            let is_truncated = event.truncation == Truncation::Record;
            assert_eq!(is_truncated, bits & exec_arguments::MORE != 0);
            if !is_truncated {
                return (0, arguments.len());
            }
            let (missing, arguments) = arguments.split_first_chunk().unwrap();
            (u32::from_ne_bytes(*missing), arguments.len())
        };
        assert_eq!(with_length(3, exec_space::SMALL), (0, 3));
        assert_eq!(with_length(1024, exec_space::SMALL), (0, 1024));
        // The ring had no space for more.
        assert_eq!(with_length(1025, exec_space::SMALL), (1, 1024));
        assert_eq!(with_length(4096, exec_space::MIDDLE), (0, 4096));
        // No more was asked for.
        assert_eq!(with_length(9999, exec_space::LARGE), (5903, 4096));
        let (event, data) = one(&exec_with(b"x", ExecRecord::UNREAD, exec_space::SMALL)).unwrap();
        assert_eq!(event.truncation, Truncation::None);
        assert_eq!(data[22..], [exec_arguments::UNREADABLE]);
    }

    #[test]
    fn an_exec_whose_file_was_truncated_says_so() {
        let mut record = exec(&[b'x'; EXEC_FILE_BYTES - 1]);
        record[offset_of!(RecordHeader, truncated)] = 1;

        let (event, data) = one(&record).unwrap();

        assert_eq!(event.truncation, Truncation::Record);
        assert_eq!(data[20 + EXEC_FILE_BYTES..], *b"\0a\0-b\0");
    }

    #[test]
    fn what_no_program_writes_is_refused() {
        let bytes = exec(b"x");
        let mut of_user_type = exec(b"x");
        let type_at = offset_of!(RecordHeader, event_type);
        of_user_type[type_at..type_at + 2].copy_from_slice(&256_u16.to_ne_bytes());
        let mut of_no_process = exec(b"x");
        let pid_at = offset_of!(RecordHeader, pid);
        of_no_process[pid_at..pid_at + 4].copy_from_slice(&u32::MAX.to_ne_bytes());

        assert_eq!(
            one(&bytes[..39]),
            Err(RecordError::HeaderTruncated { have: 39 })
        );
        assert_eq!(
            one(&bytes[..343]),
            Err(RecordError::WrongSize {
                event_type: 34,
                have: 343
            })
        );
        assert_eq!(
            one(&of_user_type),
            Err(RecordError::UnknownType { event_type: 256 })
        );
        assert_eq!(
            one(&of_no_process),
            Err(RecordError::WrongId { id: u32::MAX })
        );
    }

    #[test]
    fn every_type_of_the_kernel_has_a_record_and_no_other_has() {
        use tracer_common::event_type::{EventOrigin, SYSTEM_EVENT_TYPES};

        for entry in SYSTEM_EVENT_TYPES {
            assert_eq!(
                shape(entry.id).is_some(),
                entry.origin == EventOrigin::Kernel,
                "{}",
                entry.name
            );
        }
    }
}
