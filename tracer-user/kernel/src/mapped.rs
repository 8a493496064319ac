//! Code that processes map, as the kernel reports it for profilers: a perf event on each CPU, which
//! counts nothing. So code is known even of a process that ended before it was looked at.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{Ordering, fence};

use super::mapping::{self, Access, page_bytes};
use super::moves::{self, Move, MoveHooks, MoveReports, MoveStep};
use super::perf::{self, EventAttributes};
use super::shared_memory::{self, SharedMemory, Written};
use tracer_area::monotonic_now;
use tracer_binary::stacks::Mapping;

/// Pages of each CPU's ring: a mapping takes some 150 bytes. A power of two.
const PAGES: usize = 128;

/// Most bytes of a report: one of a mapping, whose path is a page long at most, with what is around
/// it. With less space left in a ring, the kernel may have left reports out.
const MOST_REPORT: u64 = 4096 + 256;

/// Offsets in the ring's first page of the end and of the beginning of the unread data.
const HEAD: usize = 1024;
const TAIL: usize = 1032;

/// `PERF_TYPE_SOFTWARE`, `PERF_COUNT_SW_DUMMY`.
const SOFTWARE: u32 = 1;
const DUMMY: u64 = 9;

/// `PERF_SAMPLE_TIME`.
const SAMPLE_TIME: u64 = 1 << 2;

/// `PERF_SAMPLE_TID`, `PERF_SAMPLE_TIME`, `PERF_SAMPLE_RAW`.
const SAMPLE_OF_PROGRAM: u64 = 1 << 1 | SAMPLE_TIME | 1 << 10;

/// Bits of the attributes' flags: `mmap`, `comm`, `task`, `sample_id_all`, `mmap2`, `comm_exec`,
/// `use_clockid`.
const FLAGS: u64 = 1 << 8 | 1 << 9 | 1 << 13 | 1 << 18 | 1 << 23 | 1 << 24 | 1 << 25;
/// `build_id`, since 5.12.
const WITH_BUILD_ID: u64 = 1 << 34;

/// `watermark`: a reader is woken by bytes, not by samples.
const WATERMARK: u64 = 1 << 14;

/// Types of records.
const LOST: u32 = 2;
const COMM: u32 = 3;
const EXIT: u32 = 4;
const FORK: u32 = 7;
const SAMPLE: u32 = 9;
const MMAP2: u32 = 10;

/// Bit of a record's `misc`: it has a build identifier, and no inode.
const HAS_BUILD_ID: u16 = 1 << 14;

/// Bit of a record's `misc`: the process has got its name as it began another program.
const BY_EXEC: u16 = 1 << 13;

/// Report of the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MappingReport {
    /// Code that a process has mapped.
    Mapped(i32, Mapping),
    /// Process, and its thread, that begins or ends to move what it has mapped.
    Moves(i32, i32, Move, MoveStep),
    /// Process, the first, that was made by the second, or by a thread of it.
    Forked(i32, i32),
    /// Process that has ended.
    Ended(i32),
    /// Process that begins another program, and has no code any more.
    Began(i32),
    /// Lost reports: something is missing since this time.
    Lost(u64),
}

/// The rings of all CPUs.
#[derive(Debug)]
pub struct MappingRings {
    rings: Vec<Ring>,
    later: Later,
    shared: SharedMemory,
    /// Reports of moves and of shared memory, where the kernel lets it.
    _moves: Option<MoveReports>,
}

/// Reports that are later than the last look, and may come before others.
#[derive(Debug, Default)]
struct Later(Vec<(u64, Written)>);

#[derive(Debug)]
struct Ring {
    cpu: u32,
    event: OwnedFd,
    memory: mapping::MapMemory,
    /// Time of the last report.
    last: u64,
}

impl MappingRings {
    /// Begins the reports, also of what is moved and who shares memory, where programs may be
    /// attached for that.
    ///
    /// # Errors
    ///
    /// The kernel does not report it.
    pub(super) fn begin(hooks: MoveHooks<'_>) -> io::Result<Self> {
        let mut rings = Self::begin_with(0)?;
        let all = rings.rings.iter();
        let events = all.map(|ring| (ring.cpu, ring.event.as_fd()));
        match MoveReports::begin(hooks, SAMPLE_OF_PROGRAM, events) {
            Ok(moves) => rings._moves = Some(moves),
            Err(error) => tracing::debug!(
                error = &error as &dyn std::error::Error,
                "neither moves of code nor shared memory are reported"
            ),
        }
        Ok(rings)
    }

    /// Begins the reports, each of which makes its descriptor readable.
    ///
    /// # Errors
    ///
    /// The kernel does not report it.
    pub fn begin_waking() -> io::Result<Self> {
        Self::begin_with(WATERMARK)
    }

    /// Returns descriptors that are readable once there are so many reports.
    pub fn fds(&self) -> Vec<BorrowedFd<'_>> {
        self.rings.iter().map(|ring| ring.event.as_fd()).collect()
    }

    fn begin_with(more: u64) -> io::Result<Self> {
        let cpus = aya::util::online_cpus();
        let cpus = cpus.map_err(|(_, source)| source)?;
        let rings = cpus.into_iter().map(|cpu| {
            let event = open(cpu, more | FLAGS | WITH_BUILD_ID)
                .or_else(|_older| open(cpu, more | FLAGS))?;
            let length = (1 + PAGES) * page_bytes();
            let memory = mapping::MapMemory::new(event.as_fd(), length, Access::ReadWrite)?;
            Ok(Ring {
                cpu,
                event,
                memory,
                last: monotonic_now().0,
            })
        });
        Ok(Self {
            rings: rings.collect::<io::Result<_>>()?,
            later: Later::default(),
            shared: SharedMemory::default(),
            _moves: None,
        })
    }

    /// Tells whether there are reports already that the next call of [`Self::take`] takes.
    pub fn has_later(&self) -> bool {
        !self.later.0.is_empty()
    }

    /// Takes the reports since the last call until now, each with its time and in order of it: all
    /// of what was done before anything that other rings of the kernel's had before this call.
    pub fn take(&mut self) -> Vec<(u64, MappingReport)> {
        let rings = &mut self.rings;
        let written = self.later.take(monotonic_now().0, |written| {
            for ring in &mut *rings {
                ring.drain(&mut |time, one| written.push((time, one)));
            }
        });
        let mut reports = Vec::with_capacity(written.len());
        for one in written {
            self.shared.add(one, &mut reports);
        }
        reports
    }
}

impl Later {
    /// Takes the reports that `drain` finds, in order of time, except for those that may come
    /// before others. `now` is a time before that.
    fn take(
        &mut self,
        now: u64,
        mut drain: impl FnMut(&mut Vec<(u64, Written)>),
    ) -> Vec<(u64, Written)> {
        let mut reports = std::mem::take(&mut self.0);
        drain(&mut reports);
        // Stacks that are read next may come after any of these. The kernel's clock may be ahead of
        // that which says what time it is, so its times say nothing about that.
        let times = reports.iter().map(|(time, _)| *time);
        let until = times.fold(now, u64::max);
        if until > now {
            // What is older may be in a ring that was read before.
            drain(&mut reports);
        }
        reports.sort_by_key(|(time, _)| *time);
        // What comes while rings are read is later, and may come after what is in none yet.
        let later = reports.partition_point(|(time, _)| *time <= until);
        self.0 = reports.split_off(later);
        reports
    }
}

fn open(cpu: u32, flags: u64) -> io::Result<OwnedFd> {
    let attributes = EventAttributes {
        kind: SOFTWARE,
        config: DUMMY,
        sample_type: SAMPLE_TIME,
        flags,
        // Bytes, where they count: any.
        wakeup_events: u32::from(flags & WATERMARK != 0),
        clock: libc::CLOCK_MONOTONIC,
        ..EventAttributes::default()
    };
    perf::open_on(attributes, cpu)
}

impl Ring {
    fn drain(&mut self, each: &mut impl FnMut(u64, Written)) {
        let words = (self.memory.word(HEAD), self.memory.word(TAIL));
        let (Some(head), Some(tail)) = words else {
            return;
        };
        let end = head.load(Ordering::Acquire);
        let begin = tail.load(Ordering::Relaxed);
        let mut at = begin;
        let mut record = Vec::new();
        while at < end {
            let Some(bytes) = self.record(at, &mut record) else {
                // Damaged: all of it is left out.
                each(monotonic_now().0, lost(self.last));
                break;
            };
            if let Some((time, report)) = parse(&record, self.last) {
                self.last = time;
                each(time, report);
            }
            at += bytes;
        }
        tail.store(end, Ordering::Release);
        // The kernel says that it left something out only with the next report that it writes: a
        // look at a process would take what is there by then for what was there before.
        fence(Ordering::SeqCst);
        let space = begin + Self::bytes().saturating_sub(MOST_REPORT);
        if head.load(Ordering::Acquire) > space {
            each(monotonic_now().0, lost(self.last));
        }
    }

    /// Returns the size of the ring.
    fn bytes() -> u64 {
        (PAGES * page_bytes()) as u64
    }

    /// Copies the record at a position, whose size is returned.
    fn record(&self, at: u64, to: &mut Vec<u8>) -> Option<u64> {
        let word = |position: u64| {
            let offset = usize::try_from(position % Self::bytes()).ok()?;
            let word = self.memory.word(page_bytes() + offset)?;
            Some(word.load(Ordering::Relaxed).to_ne_bytes())
        };
        let [.., low, high] = word(at)?;
        let size = u64::from(u16::from_ne_bytes([low, high]));
        if size < 8 || size % 8 != 0 {
            return None;
        }
        to.clear();
        for position in (at..at + size).step_by(8) {
            to.extend_from_slice(&word(position)?);
        }
        Some(size)
    }
}

fn lost(since: u64) -> Written {
    Written::Report(MappingReport::Lost(since))
}

/// Reads time and content of a record; `None` for one that says nothing. The last one before it had
/// the time `last`.
fn parse(record: &[u8], last: u64) -> Option<(u64, Written)> {
    let word = |at: usize| {
        let bytes = record.get(at..)?.first_chunk()?;
        Some(u64::from_ne_bytes(*bytes))
    };
    let half = |at: usize| {
        let bytes = record.get(at..)?.first_chunk()?;
        Some(u32::from_ne_bytes(*bytes))
    };
    let pid = |at: usize| i32::try_from(half(at)?).ok();
    let misc = u16::from_ne_bytes(*record.get(4..)?.first_chunk()?);
    if half(0)? == SAMPLE {
        let (pid, tid, bytes) = (pid(8)?, pid(12)?, usize::try_from(half(24)?).ok()?);
        let data = record.get(28..)?.get(..bytes)?;
        if shared_memory::is_report(data) {
            return Some((word(16)?, Written::Shares(tid)));
        }
        let (of, step) = moves::parse(data)?;
        let report = MappingReport::Moves(pid, tid, of, step);
        return Some((word(16)?, Written::Report(report)));
    }
    let time = word(record.len().checked_sub(8)?)?;
    let report = match half(0)? {
        LOST => return Some((time, lost(last))),
        COMM if misc & BY_EXEC != 0 => MappingReport::Began(pid(8)?),
        FORK => {
            let (child, parent, by) = (pid(8)?, pid(12)?, pid(20)?);
            return (child != parent).then_some((time, Written::Made { child, parent, by }));
        }
        // Of a process as a whole: its first thread, which is not always the last.
        EXIT if pid(8)? == pid(16)? => MappingReport::Ended(pid(8)?),
        MMAP2 => {
            let (start, length) = (word(16)?, word(24)?);
            let build_id = if misc & HAS_BUILD_ID == 0 {
                &[]
            } else {
                let length = usize::from(*record.get(40)?);
                record.get(44..64)?.get(..length)?
            };
            let name = record.get(72..record.len().checked_sub(8)?)?;
            let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
            let path = if name == b"//anon" { b"" } else { name };
            let mapping = Mapping {
                start,
                end: start.checked_add(length)?,
                file_offset: word(32)?,
                build_id: build_id.to_vec(),
                path: path.into(),
                // In the place of the identifier, behind the device.
                inode: if misc & HAS_BUILD_ID == 0 && !path.is_empty() {
                    word(48)?
                } else {
                    0
                },
            };
            MappingReport::Mapped(pid(8)?, mapping)
        }
        _ => return None,
    };
    Some((time, Written::Report(report)))
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd as _;
    use std::time::Duration;

    use super::*;

    #[test]
    #[ignore = "needs CAP_PERFMON: mappings of all processes"]
    fn what_a_full_ring_has_not_is_lost_at_once() {
        let mut rings = MappingRings::begin_waking().unwrap();
        let program = std::fs::File::open("/proc/self/exe").unwrap();
        let fd = program.as_raw_fd();
        let map = || {
            let protection = libc::PROT_READ | libc::PROT_EXEC;
            let kind = libc::MAP_PRIVATE;
            // SAFETY: the kernel chooses where, so it is in the way of nothing.
            let at = unsafe { libc::mmap(std::ptr::null_mut(), 4096, protection, kind, fd, 0) };
            assert_ne!(at, libc::MAP_FAILED);
            // SAFETY: it was mapped just now, and nothing uses it.
            assert_eq!(unsafe { libc::munmap(at, 4096) }, 0);
        };
        (0..100).for_each(|_| map());
        let pid = std::process::id().cast_signed();
        let ours =
            |report: &MappingReport| matches!(report, MappingReport::Mapped(of, _) if *of == pid);
        let reports = rings.take();
        let count = reports.iter().filter(|(_, report)| ours(report)).count();
        assert!(count >= 100, "{count}");
        let lost = |reports: &[(u64, MappingReport)]| {
            let mut all = reports.iter().map(|(_, report)| report);
            all.any(|report| matches!(report, MappingReport::Lost(_)))
        };
        assert!(!lost(&reports));
        // On whichever processors this runs, one ring of theirs is full.
        (0..20_000 * rings.rings.len()).for_each(|_| map());
        std::thread::sleep(Duration::from_millis(1));
        assert!(lost(&rings.take()));
    }

    #[test]
    fn what_is_there_before_a_stack_is_taken_before_it_whatever_the_clocks_say() {
        let mut later = Later::default();
        let mut take = |now, drained: [&[u64]; 2]| -> Vec<u64> {
            let mut drained = drained.into_iter();
            let taken = later.take(now, |reports| {
                let times = drained.next().unwrap_or_default();
                let ended = Written::Report(MappingReport::Ended(1));
                reports.extend(times.iter().map(|time| (*time, ended.clone())));
            });
            taken.into_iter().map(|(time, _)| time).collect()
        };
        assert_eq!(take(100, [&[90, 80], &[95, 120]]), [80, 90]);
        // The kernel's clock is ahead; a ring that was read before has something older by then.
        assert_eq!(
            take(200, [&[215, 190], &[95, 212, 220]]),
            [95, 190, 212, 215]
        );
        assert_eq!(take(230, [&[], &[]]), [220]);
    }

    #[test]
    fn a_record_of_any_length_is_refused_or_read_within_it() {
        let mut record = Vec::new();
        record.extend_from_slice(&MMAP2.to_ne_bytes());
        record.extend_from_slice(&HAS_BUILD_ID.to_ne_bytes());
        record.extend_from_slice(&[0; 2]);
        record.extend_from_slice(&7_u32.to_ne_bytes());
        record.extend_from_slice(&7_u32.to_ne_bytes());
        for word in [0x1000_u64, 0x2000, 0x300] {
            record.extend_from_slice(&word.to_ne_bytes());
        }
        record.extend_from_slice(&[4, 0, 0, 0]);
        record.extend_from_slice(&[9; 20]);
        record.extend_from_slice(&[0; 8]);
        record.extend_from_slice(b"/a.out\0\0");
        record.extend_from_slice(&55_u64.to_ne_bytes());
        let mapping = Mapping {
            start: 0x1000,
            end: 0x3000,
            file_offset: 0x300,
            build_id: vec![9; 4],
            path: b"/a.out".as_slice().into(),
            inode: 0,
        };
        let written = Written::Report(MappingReport::Mapped(7, mapping));
        assert_eq!(parse(&record, 1), Some((55, written)));
        for length in 0..record.len() {
            let _ = parse(&record[..length], 1);
        }
    }
}
