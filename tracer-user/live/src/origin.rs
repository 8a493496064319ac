//! Trace area that a user event came from.
//!
//! The pids in a user event are those of the program's innermost pid namespace. In another pid
//! namespace they may be the same as those of another process here, so that it matters whose area
//! it was. The stream does not say; an area's tag goes with each of its events, in front of that of
//! the CPU.

use std::num::NonZeroU16;
use std::time::Instant;

use tracer_common::event_type::EventTypeId;
use tracer_engine::event::{EventHeader, MonotonicNs};
use tracer_engine::source::{Batch, Control, Source, Unread};

/// Names an area whose events are read, as long as they are; then it may be another's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AreaTag(pub NonZeroU16);

/// Bits of the CPU, of which no machine has as many, and its value where it is not known.
const CPU_BITS: u32 = 16;
const NO_CPU: u32 = (1 << CPU_BITS) - 1;

/// A source whose events carry the number of their area.
pub struct Tagged {
    source: Box<dyn Source>,
    area: AreaTag,
}

impl Tagged {
    /// Returns the events of `source`, which reads `area`.
    pub fn new(source: Box<dyn Source>, area: AreaTag) -> Self {
        Self { source, area }
    }
}

impl Source for Tagged {
    fn collect(&mut self, batch: &mut Batch<'_>) -> MonotonicNs {
        let watermark = self.source.collect(batch);
        for header in batch.new_headers() {
            tag(header, self.area);
        }
        watermark
    }

    fn hold_emitters(&mut self) {
        self.source.hold_emitters();
    }

    fn keep_newest(&mut self, bytes: Option<usize>) {
        self.source.keep_newest(bytes);
    }

    fn begin_anew(&mut self) {
        self.source.begin_anew();
    }

    fn take_again(&mut self) {
        self.source.take_again();
    }

    fn count_unread(&mut self, until: MonotonicNs, end: Instant, batch: &mut Batch<'_>) -> Unread {
        self.source.count_unread(until, end, batch)
    }

    fn has_more(&self) -> bool {
        self.source.has_more()
    }

    fn control(&mut self, control: &Control) {
        self.source.control(control);
    }

    fn define_event_type(&mut self, name: &[u8]) -> Option<EventTypeId> {
        self.source.define_event_type(name)
    }

    fn event_types(&mut self, report: &mut dyn FnMut(&[u8], EventTypeId) -> Option<EventTypeId>) {
        self.source.event_types(report);
    }
}

fn tag(header: &mut EventHeader, AreaTag(area): AreaTag) {
    let cpu = header.cpu.map_or(NO_CPU, |cpu| cpu.min(NO_CPU));
    header.cpu = Some(u32::from(area.get()) << CPU_BITS | cpu);
}

/// Takes the number of its area from an event; `None` from one that came from none.
pub fn take(header: &mut EventHeader) -> Option<AreaTag> {
    if !header.event_type.is_user() {
        return None;
    }
    let tagged = header.cpu?;
    let area = NonZeroU16::new(u16::try_from(tagged >> CPU_BITS).ok()?)?;
    let cpu = tagged & NO_CPU;
    header.cpu = (cpu != NO_CPU).then_some(cpu);
    Some(AreaTag(area))
}

#[cfg(test)]
mod tests {
    use tracer_common::event_type::FIRST_USER_EVENT;
    use tracer_engine::event::Truncation;

    use super::*;

    fn header(cpu: Option<u32>) -> EventHeader {
        EventHeader {
            time: MonotonicNs(1),
            event_type: EventTypeId(FIRST_USER_EVENT),
            pid: 1,
            tid: 1,
            cpu,
            thread_id: 0,
            program_address: 0,
            truncation: Truncation::None,
        }
    }

    #[test]
    fn what_was_put_in_front_of_the_cpu_is_taken_away_again() {
        let area = AreaTag(NonZeroU16::MAX);
        for cpu in [None, Some(0), Some(8191)] {
            let mut tagged = header(cpu);
            tag(&mut tagged, area);
            assert_eq!(take(&mut tagged), Some(area));
            assert_eq!(tagged.cpu, cpu);
        }
    }

    #[test]
    fn an_event_of_no_area_stays_as_it_is() {
        let mut probe = header(Some(3));
        assert_eq!(take(&mut probe), None);
        assert_eq!(probe.cpu, Some(3));
    }
}
