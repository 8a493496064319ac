//! Descriptions of descriptors arrive as a record of their own, right before that of the call's
//! event: here they become part of that event.

use std::borrow::Cow;
use std::collections::HashMap;

use tracer_common::event_type::EventTypeId;
use tracer_common::kernel::{DESCRIPTORS_RECORD, DescriptorHead, DescriptorsHead, RecordHeader};
use tracer_engine::event::EventHeader;
use zerocopy::FromBytes;

use super::DescriptorOptions;
use super::kinds::words;
use super::shown::push_item;

/// Records that wait for their events, which follow at once unless they were lost.
const MOST_WAITING: usize = 4096;

/// Longest time between a record and its event: later, the record's own event was lost.
const AT_ONCE_NS: u64 = 10_000_000;

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
    /// Items, in the form in which they follow the event's data.
    items: Vec<u8>,
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
        let mut items = Vec::new();
        while !rest.is_empty() {
            let (entry, behind) = DescriptorHead::read_from_prefix(rest).ok()?;
            let length = usize::from(entry.length);
            let body = behind.get(..length)?;
            rest = behind.get(length.next_multiple_of(8)..).unwrap_or_default();
            let mut words = words(entry.kind, body)?;
            if self.options == DescriptorOptions::Plain {
                words.full.clear();
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
        let call = data.first_chunk().map(|four| u32::from_ne_bytes(*four));
        let since = header.time.0.checked_sub(waiting.time_ns);
        let is_its = waiting.event_type == id.0
            && Some(waiting.call) == call
            && since.is_some_and(|since| since < AT_ONCE_NS);
        if is_its {
            Cow::Owned([data, &waiting.items].concat())
        } else {
            Cow::Borrowed(data)
        }
    }
}
