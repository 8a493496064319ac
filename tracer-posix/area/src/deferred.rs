//! The source for a target whose area may not be there yet.

use std::ffi::c_int;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use tracer_common::event_type::EventTypeId;

use super::find::{Area, FindError};
use super::slot::{OpenError, StreamRequest};
use super::source::AreaSource;
use super::ticks::monotonic_now;
use tracer_engine::event::MonotonicNs;
use tracer_engine::source::{Batch, Control, Source, Unread, WaitingWord};

/// How often an area is looked for: a target may load the library at any time.
const INTERVAL: Duration = Duration::from_millis(100);

/// The user events of one process, from when it has an area.
#[derive(Debug)]
pub struct DeferredSource {
    pid: i32,
    request: StreamRequest,
    source: Option<AreaSource>,
    control: Option<Control>,
    keeps: Option<usize>,
    next_look: Instant,
}

/// Why a process cannot be traced.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TargetError {
    /// Its area cannot be had.
    #[error(transparent)]
    Find(#[from] FindError),
    /// Its area has no room for another stream.
    #[error(transparent)]
    Open(#[from] OpenError),
}

impl TargetError {
    /// The number that the C functions return for it.
    #[must_use]
    pub fn error_number(&self) -> c_int {
        match self {
            Self::Find(error) => error.error_number(),
            Self::Open(error) => error.error_number(),
        }
    }
}

impl DeferredSource {
    /// Opens a stream on process `pid`; one without an area is looked at again and again.
    ///
    /// # Errors
    ///
    /// See [`TargetError`].
    pub fn open(pid: i32, request: StreamRequest) -> Result<Self, TargetError> {
        let area = Area::find(pid)?;
        Self::open_in(area, pid, request)
    }

    /// As [`open`](Self::open), for a process of this one's family, whose area is this one's too.
    ///
    /// # Errors
    ///
    /// See [`TargetError`].
    pub fn open_own(pid: i32, request: StreamRequest) -> Result<Self, TargetError> {
        Self::open_in(Area::own(), pid, request)
    }

    /// As [`open`](Self::open), for a process whose area comes as a file.
    ///
    /// # Errors
    ///
    /// See [`TargetError`].
    pub fn open_file(file: OwnedFd, pid: i32, request: StreamRequest) -> Result<Self, TargetError> {
        let area = Area::of_file(file, pid)?;
        Self::open_in(Some(area), pid, request)
    }

    fn open_in(area: Option<Area>, pid: i32, request: StreamRequest) -> Result<Self, TargetError> {
        let source = area
            .map(|area| AreaSource::open(area, &request))
            .transpose()?;
        let next_look = Instant::now() + INTERVAL;
        Ok(Self {
            pid,
            request,
            source,
            control: None,
            keeps: None,
            next_look,
        })
    }

    fn look(&mut self) {
        if self.source.is_some() || Instant::now() < self.next_look {
            return;
        }
        self.next_look = Instant::now() + INTERVAL;
        // A process that has ended, or does not let us look any more, brings nothing.
        let Ok(Some(area)) = Area::find(self.pid) else {
            return;
        };
        if let Ok(mut source) = AreaSource::open(area, &self.request) {
            if let Some(control) = &self.control {
                source.control(control);
            }
            source.keep_newest(self.keeps);
            self.source = Some(source);
        }
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
        self.source.as_ref().is_some_and(AreaSource::has_more)
    }

    fn announce_sleep(&mut self) -> bool {
        self.source.as_mut().is_some_and(AreaSource::announce_sleep)
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

    fn count_unread(&mut self, until: MonotonicNs, end: Instant, batch: &mut Batch<'_>) -> Unread {
        match &mut self.source {
            Some(source) => source.count_unread(until, end, batch),
            None => Unread::Nothing,
        }
    }

    fn memory_needed(&self) -> usize {
        let source = self.source.as_ref();
        source.map_or(0, Source::memory_needed)
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

    fn event_types(&mut self, tell: &mut dyn FnMut(&[u8], EventTypeId) -> EventTypeId) {
        if let Some(source) = &mut self.source {
            source.event_types(tell);
        }
    }
}
