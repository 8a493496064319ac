//! Descriptions of descriptors arrive as a record of their own, right before that of the call's
//! event: here they become part of that event.

use std::borrow::Cow;
use std::collections::HashMap;

use tracer_common::event_type::EventTypeId;
use tracer_common::kernel::{
    DESCRIPTORS_RECORD, DescriptorHead, DescriptorsHead, RecordHeader, SyscallEnterData,
    descriptors,
};
use tracer_engine::event::EventHeader;
use zerocopy::FromBytes;

use super::DescriptorOptions;
use super::kinds::words;
use super::shown::push_item;

/// Records that wait for their events, which follow at once unless they were lost.
const MOST_WAITING: usize = 4096;

/// Longest time between a record and its event: later, the record's own event was lost. Nothing of
/// the thread comes between, but the machine may be stopped there, as one is whose host is busy.
const WITHIN_NS: u64 = 1_000_000_000;

/// Tells whether a record describes descriptors.
pub fn is_descriptors(untrusted: &[u8]) -> bool {
    RecordHeader::ref_from_prefix(untrusted)
        .is_ok_and(|(header, _)| header.event_type == DESCRIPTORS_RECORD)
}

/// Descriptions of descriptors, on the way to the events of their calls.
#[derive(Debug)]
pub struct Descriptors {
    options: DescriptorOptions,
    /// Records that wait, by thread and CPU: both records are in the ring of that CPU, and other
    /// rings may have older or later ones of a thread that has moved.
    waiting: HashMap<(u32, u32), Waiting>,
}

#[derive(Debug)]
struct Waiting {
    event_type: u32,
    call: u32,
    time_ns: u64,
    /// Descriptors that are arguments: at which place, and their numbers.
    arguments: Vec<(u8, i32)>,
    /// Items, in the form in which they follow the event's data.
    items: Vec<u8>,
}

impl Waiting {
    /// Tells whether it is of this event, which may be a later one: then its own was lost.
    fn is_of(&self, header: &EventHeader, data: &[u8]) -> bool {
        let call = data.first_chunk().map(|four| u32::from_ne_bytes(*four));
        let since = header.time.0.checked_sub(self.time_ns);
        let has = |(at, descriptor): &(u8, i32)| {
            let Ok((entered, _)) = SyscallEnterData::ref_from_prefix(data) else {
                return false;
            };
            // The upper half of the register counts for nothing.
            let value = entered.args.get(usize::from(*at)).copied();
            value.is_some_and(|value| value & 0xffff_ffff == u64::from(descriptor.cast_unsigned()))
        };
        self.event_type == header.event_type.0
            && Some(self.call) == call
            && since.is_some_and(|since| since < WITHIN_NS)
            && (header.event_type != EventTypeId::SYSCALL_ENTER || self.arguments.iter().all(has))
    }
}

impl Descriptors {
    /// Returns the descriptions that were asked for; `None` where none are.
    pub fn from_options(options: DescriptorOptions) -> Option<Self> {
        let waiting = HashMap::new();
        (options != DescriptorOptions::None).then_some(Self { options, waiting })
    }

    /// Takes a record; `None` where our programs write no such one.
    pub fn take(&mut self, untrusted: &[u8]) -> Option<()> {
        let (head, mut rest) = DescriptorsHead::read_from_prefix(untrusted).ok()?;
        let (mut items, mut arguments) = (Vec::new(), Vec::new());
        while !rest.is_empty() {
            let (entry, behind) = DescriptorHead::read_from_prefix(rest).ok()?;
            let length = usize::from(entry.length);
            let body = behind.get(..length)?;
            rest = behind.get(length.next_multiple_of(8)..).unwrap_or_default();
            let mut words = words(entry.kind, body)?;
            if self.options == DescriptorOptions::Plain {
                words.full.clear();
            }
            if entry.at < descriptors::ARGUMENTS {
                arguments.push((entry.at, entry.descriptor));
            }
            push_item(&mut items, entry.at, entry.descriptor, &words);
        }
        if self.waiting.len() >= MOST_WAITING {
            self.waiting.clear();
        }
        let waiting = Waiting {
            event_type: head.event_type,
            call: head.call,
            time_ns: head.header.time_ns,
            arguments,
            items,
        };
        let of = (head.header.tid, u32::from(head.header.cpu));
        self.waiting.insert(of, waiting);
        Some(())
    }

    /// Returns the data of an event, with the descriptions of its descriptors behind it.
    pub fn join<'a>(&mut self, header: &EventHeader, data: &'a [u8]) -> Cow<'a, [u8]> {
        let id = header.event_type;
        if id != EventTypeId::SYSCALL_ENTER && id != EventTypeId::SYSCALL_EXIT {
            return Cow::Borrowed(data);
        }
        // Whatever else waits is of a call whose event was lost.
        let tid = u32::try_from(header.tid).unwrap_or(0);
        let of = header.cpu.map(|cpu| (tid, cpu));
        let Some(waiting) = of.and_then(|of| self.waiting.remove(&of)) else {
            return Cow::Borrowed(data);
        };
        if waiting.is_of(header, data) {
            Cow::Owned([data, &waiting.items].concat())
        } else {
            Cow::Borrowed(data)
        }
    }
}

#[cfg(test)]
mod tests {
    use tracer_engine::event::{MonotonicNs, Truncation};
    use zerocopy::{FromZeros as _, IntoBytes as _};

    use super::*;

    /// When the record was made, in nanoseconds.
    const THEN: u64 = 1_000;

    /// Joins a record about descriptor 3, the first argument of call 0, with an event of that call
    /// so much later whose first argument is this. Returns whether the event has the description.
    fn is_joined(later: u64, first: u64) -> bool {
        let mut head = DescriptorsHead::new_zeroed();
        head.header.time_ns = THEN;
        head.header.tid = 11;
        head.header.event_type = DESCRIPTORS_RECORD;
        head.event_type = EventTypeId::SYSCALL_ENTER.0;
        let entry = DescriptorHead {
            at: 0,
            kind: descriptors::PATH,
            length: 2,
            descriptor: 3,
        };
        let record = [head.as_bytes(), entry.as_bytes(), b"a\0"].concat();
        let mut all = Descriptors::from_options(DescriptorOptions::Plain).unwrap();
        all.take(&record).unwrap();

        let header = EventHeader {
            time: MonotonicNs(THEN + later),
            event_type: EventTypeId::SYSCALL_ENTER,
            pid: 11,
            tid: 11,
            cpu: Some(0),
            thread_id: 0,
            program_address: 0,
            truncation: Truncation::None,
        };
        let mut entered = SyscallEnterData::new_zeroed();
        entered.args[0] = first;
        all.join(&header, entered.as_bytes()).len() > size_of::<SyscallEnterData>()
    }

    #[test]
    fn a_machine_that_stands_still_parts_no_record_from_its_event() {
        assert!(is_joined(200, 3));
        assert!(is_joined(300_000_000, 3));
        assert!(!is_joined(2_000_000_000, 3));
    }

    #[test]
    fn a_call_whose_own_record_was_lost_has_none_of_another_descriptor() {
        assert!(!is_joined(200, 4));
        assert!(is_joined(200, 0xffff_ffff_0000_0003));
    }
}
