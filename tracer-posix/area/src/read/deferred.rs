//! Source for a target whose area may not be there yet.

use std::ffi::c_int;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use tracer_common::event_type::EventTypeId;

use super::slot::{SlotError, StreamRequest};
use super::source::{AreaSource, memory_to_be_needed};
use crate::discover::beginning;
use crate::discover::find::{Area, FindError};
use crate::layout::ticks::monotonic_now;
use tracer_engine::event::MonotonicNs;
use tracer_engine::source::{Batch, BegunAnew, Control, Source, Unread, WaitingWord};

/// Interval between looks for an area: a target may load the library at any time.
const INTERVAL: Duration = Duration::from_millis(100);

/// User events of one process, as soon as it has an area.
#[derive(Debug)]
pub struct DeferredSource {
    pid: i32,
    request: StreamRequest,
    source: Option<Box<AreaSource>>,
    control: Option<Control>,
    keeps: Option<usize>,
    next_look: Instant,
    /// Whether events may have been emitted into an area that was not available.
    lacks_area: bool,
    /// Value of `lacks_area` since it was last asked for.
    lacked_area: bool,
}

/// Why a process cannot be traced.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TargetError {
    /// Its area is not available.
    #[error(transparent)]
    Find(#[from] FindError),
    /// Its area has no slot for another stream.
    #[error(transparent)]
    Open(#[from] SlotError),
}

impl TargetError {
    /// Returns the error number that the C functions return for it.
    #[must_use]
    pub fn error_number(&self) -> c_int {
        match self {
            Self::Find(error) => error.error_number(),
            Self::Open(error) => error.error_number(),
        }
    }
}

impl DeferredSource {
    /// Opens a stream on process `pid`. Where the process has no area yet, the source looks for one
    /// again and again. For a process that was started just now, this call waits until it has an
    /// area or has begun without one: some milliseconds, a second at most.
    ///
    /// # Errors
    ///
    /// See [`TargetError`].
    pub fn open(pid: i32, request: StreamRequest) -> Result<Self, TargetError> {
        beginning::wait(pid);
        let area = Area::find(pid)?;
        Self::open_in(area, pid, request)
    }

    /// Opens a stream as [`open`](Self::open) does, on a process that shares this process's area.
    ///
    /// # Errors
    ///
    /// See [`TargetError`].
    pub fn open_own(pid: i32, request: StreamRequest) -> Result<Self, TargetError> {
        Self::open_in(Area::own(), pid, request)
    }

    /// Opens a stream as [`open`](Self::open) does, on a process whose area comes as a file.
    ///
    /// # Errors
    ///
    /// See [`TargetError`].
    pub fn open_file(file: OwnedFd, pid: i32, request: StreamRequest) -> Result<Self, TargetError> {
        let area = Area::of_file(file, pid)?;
        Self::open_in(Some(area), pid, request)
    }

    fn open_in(area: Option<Area>, pid: i32, request: StreamRequest) -> Result<Self, TargetError> {
        let open = |area| AreaSource::open_on_heap(area, &request);
        let source = area.map(open).transpose()?;
        let next_look = Instant::now() + INTERVAL;
        Ok(Self {
            pid,
            request,
            source,
            control: None,
            keeps: None,
            next_look,
            lacks_area: false,
            lacked_area: false,
        })
    }

    fn look(&mut self) {
        if self.source.is_none() && Instant::now() >= self.next_look {
            self.look_now();
        }
    }

    #[cold]
    #[inline(never)]
    fn look_now(&mut self) {
        self.next_look = Instant::now() + INTERVAL;
        match self.find() {
            Ok(source) => self.source = source,
            // The process is gone, and never had an area, as far as is known.
            Err(TargetError::Find(FindError::NoSuchProcess { .. })) => {}
            // The process hides its area, its area is damaged or has no slot left, or this process
            // has no descriptor left: whether the process emits is unknown.
            Err(_) => (self.lacks_area, self.lacked_area) = (true, true),
        }
    }

    fn find(&self) -> Result<Option<Box<AreaSource>>, TargetError> {
        let Some(area) = Area::find(self.pid)? else {
            return Ok(None);
        };
        let mut source = AreaSource::open_on_heap(area, &self.request)?;
        if let Some(control) = &self.control {
            source.control(control);
        }
        source.keep_newest(self.keeps);
        Ok(Some(source))
    }
}

impl Source for DeferredSource {
    fn collect(&mut self, batch: &mut Batch<'_>) -> MonotonicNs {
        self.look();
        match &mut self.source {
            Some(source) => source.collect(batch),
            None => monotonic_now(),
        }
    }

    fn has_more(&self) -> bool {
        self.source.as_ref().is_some_and(|source| source.has_more())
    }

    fn announce_sleep(&mut self) -> bool {
        self.source
            .as_mut()
            .is_some_and(|source| source.announce_sleep())
    }

    fn sleep(&mut self, time: Duration) {
        if let Some(source) = &mut self.source {
            source.sleep(time);
        }
    }

    fn waiting_word(&self) -> Option<Box<dyn WaitingWord>> {
        self.source.as_ref()?.waiting_word()
    }

    fn retract_sleep(&mut self) {
        if let Some(source) = &mut self.source {
            source.retract_sleep();
        }
    }

    fn hold_emitters(&mut self) {
        if let Some(source) = &mut self.source {
            source.hold_emitters();
        }
    }

    fn take_again(&mut self) {
        if let Some(source) = &mut self.source {
            source.take_again();
        }
    }

    fn keep_newest(&mut self, bytes: Option<usize>) {
        if let Some(source) = &mut self.source {
            source.keep_newest(bytes);
        }
        self.keeps = bytes;
    }

    fn begin_anew(&mut self) {
        if let Some(source) = &mut self.source {
            source.begin_anew();
        }
    }

    fn note_begun_anew(&mut self, begun: BegunAnew) {
        if let Some(source) = &mut self.source {
            source.note_begun_anew(begun);
        }
    }

    fn has_all_before(&self, begun: BegunAnew) -> bool {
        let source = self.source.as_ref();
        source.is_some_and(|source| source.has_all_before(begun))
    }

    fn count_unread(&mut self, until: MonotonicNs, end: Instant, batch: &mut Batch<'_>) -> Unread {
        let unread = match &mut self.source {
            Some(source) => source.count_unread(until, end, batch),
            None => Unread::Nothing,
        };
        if self.lacks_area {
            return Unread::Unknown;
        }
        unread
    }

    fn may_have_lost(&mut self) -> bool {
        std::mem::take(&mut self.lacked_area)
    }

    fn memory_needed(&self) -> usize {
        let source = self.source.as_ref();
        source.map_or_else(
            || memory_to_be_needed(&self.request),
            |source| source.memory_needed(),
        )
    }

    fn control(&mut self, control: &Control) {
        if let Some(source) = &mut self.source {
            source.control(control);
        }
        self.control = Some(control.clone());
    }

    fn define_event_type(&mut self, name: &[u8]) -> Option<EventTypeId> {
        self.source.as_mut()?.define_event_type(name)
    }

    fn event_types(&mut self, report: &mut dyn FnMut(&[u8], EventTypeId) -> Option<EventTypeId>) {
        if let Some(source) = &mut self.source {
            source.event_types(report);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::{AsFd as _, AsRawFd};
    use std::os::unix::process::CommandExt as _;
    use std::process::{Child, Command, Stdio};
    use std::sync::atomic::Ordering::Relaxed;

    use tracer_common::area::DATA_OFFSET;
    use tracer_engine::EventTypes;

    use super::*;
    use crate::layout::file::write_header;
    use crate::layout::mapping::{self, HIGH_DESCRIPTORS, Mapping, Parts};
    use crate::read::slot::RingMode;

    /// Starts a process that has this descriptor as well where areas are looked for, until its
    /// input ends.
    fn with_descriptor(file: Option<&OwnedFd>) -> Child {
        let raw = file.map(AsRawFd::as_raw_fd);
        let mut command = Command::new("cat");
        command.stdin(Stdio::piped()).stdout(Stdio::null());
        let put = move || {
            if let Some(raw) = raw {
                // SAFETY: takes no pointers; no other code uses that descriptor in a process that
                // runs a program next.
                unsafe { libc::dup2(raw, HIGH_DESCRIPTORS.start) };
            }
            Ok(())
        };
        // SAFETY: what runs between fork and exec is one system call, on a descriptor that lives
        // until the child was started.
        unsafe { command.pre_exec(put) };
        command.spawn().unwrap()
    }

    /// Makes an area of an unknown version.
    fn unreadable_area() -> OwnedFd {
        let file = mapping::create_file().unwrap();
        let fixed = Mapping::new(file.as_fd(), 0, DATA_OFFSET).unwrap();
        let parts = Parts::new(fixed.words()).unwrap();
        write_header(parts);
        parts.header().clock.store(77, Relaxed);
        file
    }

    /// Returns what a source reports of a process that had no area when the stream was made: twice
    /// after a look whether it may have lost events, and at the end what is unread.
    fn said_of(pid: i32) -> ([bool; 2], Unread) {
        let request = StreamRequest {
            target: Some(pid),
            inherit: false,
            is_only_source: true,
            bytes: 4096,
            mode: RingMode::OverwriteOldest,
            max_data: 64,
            lease: None,
        };
        let mut source = DeferredSource::open_in(None, pid, request).unwrap();
        source.next_look = Instant::now();
        let mut types = EventTypes::default();
        let (mut events, mut data, mut losses) = (Vec::new(), Vec::new(), Vec::new());
        let mut batch = Batch::new(&mut types, &mut events, &mut data, &mut losses);
        source.collect(&mut batch);
        let may_have_lost = [source.may_have_lost(), source.may_have_lost()];
        let until = monotonic_now();
        (
            may_have_lost,
            source.count_unread(until, Instant::now(), &mut batch),
        )
    }

    #[test]
    fn what_is_in_an_area_that_is_not_available_is_unknown() {
        let area = unreadable_area();
        let mut child = with_descriptor(Some(&area));
        let said = said_of(child.id().cast_signed());
        drop(child.stdin.take());
        child.wait().unwrap();
        assert_eq!(said, ([true, false], Unread::Unknown));
    }

    #[test]
    fn a_process_without_an_area_has_nothing_unread() {
        let mut child = with_descriptor(None);
        let pid = child.id().cast_signed();
        assert_eq!(said_of(pid), ([false; 2], Unread::Nothing));
        drop(child.stdin.take());
        child.wait().unwrap();
        // It has ended.
        assert_eq!(said_of(pid), ([false; 2], Unread::Nothing));
    }
}
