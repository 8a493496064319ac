//! The clock of a trace area, and how its times become those of the kernel's clock.
//!
//! Events carry *ticks*: the raw cycle counter where the kernel itself makes its clocks from it,
//! `CLOCK_MONOTONIC` elsewhere. The reader turns them into nanoseconds by interpolation between
//! [`Anchor`]s, pairs of both clocks taken at the same moment, one before the event and one after.
//!
//! A tick may take so long that an event and its effect would fall into the same one: 16 to 62 ns
//! on arm64 before Armv8.6. There an emission ends only after its tick has ended
//! ([`TickSource::let_tick_pass`]), so that all that it causes has a later time.

use std::collections::VecDeque;
use std::fs;
use std::io::Read as _;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{AcqRel, Acquire};

use tracer_common::area::clock;

use tracer_engine::event::{MonotonicNs, RealtimeNs};

/// Clock that an area's ticks come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TickSource {
    /// The processor's cycle counter.
    CycleCounter,
    /// `CLOCK_MONOTONIC`, in nanoseconds.
    Monotonic,
}

impl TickSource {
    /// Returns the cycle counter where the kernel trusts it for its own clocks.
    #[must_use]
    pub fn of_this_machine() -> Self {
        if COUNTER.is_some_and(kernel_keeps_time_by) {
            Self::CycleCounter
        } else {
            Self::Monotonic
        }
    }

    /// Returns the source that the controllers of an area have agreed on, in its header. Where
    /// there was no controller before, they agree on this machine's from now on. `None` where the
    /// header names no source of this machine.
    pub(crate) fn agreed(header: &AtomicU32) -> Option<Self> {
        let said = header.load(Acquire);
        if said != clock::UNDECIDED {
            return Self::from_header(said);
        }
        let own = Self::of_this_machine();
        match header.compare_exchange(clock::UNDECIDED, own.to_header(), AcqRel, Acquire) {
            Ok(_) => Some(own),
            Err(said) => Self::from_header(said),
        }
    }

    fn to_header(self) -> u32 {
        match self {
            Self::CycleCounter => clock::CYCLE_COUNTER,
            Self::Monotonic => clock::MONOTONIC,
        }
    }

    pub(crate) fn from_header(untrusted: u32) -> Option<Self> {
        match untrusted {
            clock::CYCLE_COUNTER if COUNTER.is_some() => Some(Self::CycleCounter),
            clock::MONOTONIC => Some(Self::Monotonic),
            _ => None,
        }
    }

    /// Waits, where ticks are long, until the present tick is over. Returns at once on x86-64,
    /// where a tick is shorter than the time that anything takes from one thread to another.
    ///
    /// It reads nothing but the clock. Other threads do not see before its end what the program
    /// stores afterwards.
    #[inline(always)]
    pub(crate) fn let_tick_pass(self) {
        /// Readings after which the clock has moved, however large its steps may be on a machine.
        const MOST_READINGS: u32 = 4096;
        if !HAS_LONG_TICKS {
            return;
        }
        let now = self.now_after_wait();
        for _ in 0..MOST_READINGS {
            if self.now_after_wait() != now {
                break;
            }
        }
    }

    /// Returns the time now. The clock is read only after all that precedes in the program is done.
    #[inline(always)]
    #[must_use]
    pub fn now(self) -> u64 {
        wait_for_earlier_loads();
        self.now_after_wait()
    }

    /// Returns the time now. The clock is read only after all that precedes the last
    /// [`wait_for_earlier_loads`] is done. The compiler also keeps the order of what lies between
    /// the two.
    #[inline(always)]
    pub(crate) fn now_after_wait(self) -> u64 {
        match self {
            Self::CycleCounter => cycles(),
            Self::Monotonic => monotonic_now().0,
        }
    }
}

/// Whether an event and its effect may fall into the same tick.
pub(crate) const HAS_LONG_TICKS: bool =
    cfg!(any(not(target_arch = "x86_64"), feature = "coarse-clock"));

/// Ticks of the processor that count as one here: with the feature `coarse-clock`, which is for
/// tests, so many that there are some 24 million a second.
#[cfg(target_arch = "x86_64")]
const TICKS_AS_ONE: u64 = if cfg!(feature = "coarse-clock") {
    COARSE_TICK
} else {
    1
};

/// A power of two, so that one instruction rounds ([`sequence`](crate::emit) does so too).
#[cfg(target_arch = "x86_64")]
pub(crate) const COARSE_TICK: u64 = 128;

/// The kernel's name for the cycle counter, where the kernel makes its clocks from it; `None` for
/// machines whose counter is not read here.
const COUNTER: Option<&str> = if cfg!(target_arch = "x86_64") {
    Some("tsc")
} else if cfg!(target_arch = "aarch64") {
    Some("arch_sys_counter")
} else {
    None
};

fn kernel_keeps_time_by(name: &str) -> bool {
    // The file has a few bytes, so its length is not asked for.
    let path = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    let mut current = [0; 32];
    let read = fs::File::open(path).and_then(|mut file| file.read(&mut current));
    let current = read.ok().and_then(|length| current.get(..length));
    current.is_some_and(|current| current.trim_ascii() == name.as_bytes())
}

/// Returns `CLOCK_MONOTONIC` now.
#[must_use]
pub fn monotonic_now() -> MonotonicNs {
    // It counts from the machine's start, and is never negative.
    MonotonicNs(read(libc::CLOCK_MONOTONIC).unwrap_or(0))
}

/// Returns `CLOCK_MONOTONIC` now in nanoseconds, by a system call. For a single reading that is the
/// faster way: the first reading without a system call loads the pages that the clock is read with.
#[inline]
pub(crate) fn monotonic_from_kernel() -> u64 {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `now` is a valid timespec to write to, of the size that the system call expects.
    unsafe { libc::syscall(libc::SYS_clock_gettime, libc::CLOCK_MONOTONIC, &raw mut now) };
    nanoseconds(&now).unwrap_or(0)
}

/// Returns `CLOCK_REALTIME` now; 0 before 1970.
#[must_use]
pub fn realtime_now() -> RealtimeNs {
    RealtimeNs(read(libc::CLOCK_REALTIME).unwrap_or(0))
}

/// Nanoseconds on a clock; `None` where they are negative.
fn read(clock: libc::clockid_t) -> Option<u64> {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `now` is a valid timespec to write to; both clocks exist on every Linux.
    unsafe { libc::clock_gettime(clock, &raw mut now) };
    nanoseconds(&now)
}

#[inline]
fn nanoseconds(now: &libc::timespec) -> Option<u64> {
    let seconds = u64::try_from(now.tv_sec).ok()?;
    Some(seconds * 1_000_000_000 + u64::try_from(now.tv_nsec).ok()?)
}

/// Waits until every earlier load has its value. Nothing that follows begins before that.
///
/// Without this wait the processor may read the counter before an earlier load has its value, for
/// instance the load of a lock word: an effect would be stamped before its cause. (A counter that
/// is read after a load which misses the cache is a good hundred nanoseconds early then.) The
/// kernel's own clock reads the counter in the same way.
///
/// Where no earlier load can have seen what caused an event, no thread has to wait
/// (`emitter::is_sole_emitter`).
///
/// It waits for everything before it, not for loads alone: the less a trace point does after it has
/// read the counter, the sooner the next one's wait is over.
#[inline(always)]
pub(crate) fn wait_for_earlier_loads() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the instruction is part of every x86-64. It is declared to read and write memory, so
    // that the compiler moves no load over it.
    unsafe {
        core::arch::asm!("lfence", options(nostack, preserves_flags));
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: both instructions are part of every processor of this architecture. The first waits
    // until earlier loads have their values; the second lets nothing that follows begin before
    // that. They are declared to read and write memory, so that the compiler moves no load over
    // them.
    unsafe {
        core::arch::asm!("dsb ishld", "isb", options(nostack, preserves_flags));
    }
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn cycles() -> u64 {
    let (low, high): (u64, u64);
    // SAFETY: the instruction is part of every x86-64; a kernel that forbids it to user space does
    // not offer its clocks by it either. It is declared to read and write memory, so that the
    // compiler moves no store over it: a trace point's mark is set before.
    unsafe {
        core::arch::asm!("rdtsc", out("rax") low, out("rdx") high, options(nostack, preserves_flags));
    }
    (high << 32 | low) & !(TICKS_AS_ONE - 1)
}

#[cfg(target_arch = "aarch64")]
#[inline(always)]
fn cycles() -> u64 {
    let ticks: u64;
    // SAFETY: the register is part of every processor of this architecture; a kernel that makes its
    // clocks from it lets programs read it. It is declared to read and write memory, so that the
    // compiler moves no store over it: a trace point's mark is set before.
    unsafe {
        core::arch::asm!("mrs {}, cntvct_el0", out(reg) ticks, options(nostack, preserves_flags));
    }
    ticks
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
#[inline(always)]
fn cycles() -> u64 {
    monotonic_now().0
}

/// Both clocks at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Anchor {
    /// The area's clock.
    pub ticks: u64,
    /// The kernel's clock.
    pub time: MonotonicNs,
}

impl Anchor {
    /// Reads both clocks as close to each other as a few tries allow. Also returns how close that
    /// was, in ticks. Makes no more tries once that is within `good`.
    fn take(source: TickSource, good: u64) -> (u64, Self) {
        const TRIES: usize = 16;
        let read = || {
            // At the beginning of a long tick, both clocks are mostly read within that tick.
            source.let_tick_pass();
            let before = source.now();
            let time = monotonic_now();
            let width = source.now().saturating_sub(before);
            let ticks = before + width / 2;
            (width, Self { ticks, time })
        };
        let mut best = read();
        for _ in 1..TRIES {
            if best.0 <= good {
                break;
            }
            let next = read();
            if next.0 < best.0 {
                best = next;
            }
        }
        best
    }
}

/// Turns ticks into nanoseconds. Later ticks never give an earlier time.
#[derive(Debug)]
pub struct TickClock {
    source: TickSource,
    /// Anchors in order of both clocks, the newest at the back; never empty.
    anchors: VecDeque<Anchor>,
    /// The line from the last but one of them on, where nearly every event lies.
    newest: Option<Line>,
    /// The closest that both clocks were ever read, in ticks. Interrupted readings are far wider,
    /// and are not taken for an anchor if there is a better one.
    narrowest: u64,
}

/// Most anchors: the time of events older than the oldest follows from the first two.
const MAX_ANCHORS: usize = 256;

impl TickClock {
    /// Returns a clock whose first two anchors are taken now, a moment apart.
    #[must_use]
    pub fn new(source: TickSource) -> Self {
        let (narrowest, anchor) = Anchor::take(source, 0);
        let mut clock = Self {
            source,
            anchors: VecDeque::from([anchor]),
            newest: None,
            narrowest,
        };
        // Two anchors a tenth of a millisecond apart give the rate within a thousandth, for events
        // that are older than the clock; all others lie between anchors.
        while clock.anchors.len() < 2 {
            std::thread::sleep(std::time::Duration::from_micros(100));
            clock.advance();
        }
        clock
    }

    /// Returns the clock that ticks are of.
    #[must_use]
    pub fn source(&self) -> TickSource {
        self.source
    }

    /// Takes an anchor now, so that everything stamped before now lies between anchors.
    pub fn advance(&mut self) {
        let (width, anchor) = Anchor::take(self.source, self.narrowest.saturating_mul(2));
        self.narrowest = self.narrowest.min(width);
        self.add(anchor);
    }

    /// Returns the time of the newest anchor.
    #[must_use]
    pub fn newest(&self) -> MonotonicNs {
        self.anchors
            .back()
            .map_or(MonotonicNs(u64::MAX), |anchor| anchor.time)
    }

    fn add(&mut self, anchor: Anchor) {
        // Anchors that lie so close to each other that their own error shows would bend the line.
        let is_later = self
            .anchors
            .back()
            .is_none_or(|last| anchor.ticks > last.ticks && anchor.time > last.time);
        if is_later {
            if self.anchors.len() == MAX_ANCHORS {
                self.anchors.pop_front();
            }
            self.newest = self
                .anchors
                .back()
                .and_then(|before| Line::new(*before, anchor));
            self.anchors.push_back(anchor);
        }
    }

    /// Returns the time at which the area's clock was at `ticks`.
    #[inline]
    #[must_use]
    pub fn time_of(&self, ticks: u64) -> MonotonicNs {
        if self.source == TickSource::Monotonic {
            return MonotonicNs(ticks);
        }
        let newest = self.newest.as_ref().and_then(|line| line.at(ticks));
        newest.unwrap_or_else(|| self.search(ticks))
    }

    fn search(&self, ticks: u64) -> MonotonicNs {
        let anchors = &self.anchors;
        let after = anchors.partition_point(|anchor| anchor.ticks <= ticks);
        let after = after.clamp(1, anchors.len().saturating_sub(1).max(1));
        match (anchors.get(after - 1), anchors.get(after)) {
            (Some(a), Some(b)) => between(*a, *b, ticks),
            _ => MonotonicNs(0),
        }
    }

    /// Returns the number of ticks in `time`, by the rate between the oldest and the newest anchor.
    #[must_use]
    pub fn ticks_in(&self, time: std::time::Duration) -> u64 {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX / 4);
        match (self.anchors.front(), self.anchors.back()) {
            (Some(a), Some(b)) if self.source == TickSource::CycleCounter && b.time > a.time => {
                scale(nanos, b.ticks - a.ticks, b.time.0 - a.time.0)
            }
            _ => nanos,
        }
    }
}

/// The line through two anchors, from the first one on. It needs no division for an event.
#[derive(Debug)]
struct Line {
    from: Anchor,
    /// Nanoseconds in 2^64 ticks, rounded up so that the line gives what a division would give.
    slope: u64,
}

impl Line {
    /// Returns `None` where a tick takes a nanosecond or longer, or where the rounding could be
    /// seen.
    fn new(from: Anchor, to: Anchor) -> Option<Self> {
        let width = u32::try_from(to.ticks.checked_sub(from.ticks)?).ok()?;
        let width = u128::from(width);
        let rise = u128::from(to.time.0.checked_sub(from.time.0)?) << 64;
        let slope = u64::try_from(
            rise.checked_add(width)?
                .checked_sub(1)?
                .checked_div(width)?,
        );
        slope.ok().map(|slope| Self { from, slope })
    }

    /// Returns the time at `ticks`; `None` before the line's beginning, and long after it.
    #[inline]
    fn at(&self, ticks: u64) -> Option<MonotonicNs> {
        let passed = u32::try_from(ticks.checked_sub(self.from.ticks)?).ok()?;
        let nanoseconds = (u128::from(passed) * u128::from(self.slope)) >> 64;
        let nanoseconds = u64::try_from(nanoseconds).ok()?;
        Some(MonotonicNs(self.from.time.0.saturating_add(nanoseconds)))
    }
}

/// Returns the time at `ticks` on the line through two anchors.
fn between(a: Anchor, b: Anchor, ticks: u64) -> MonotonicNs {
    let width = b.ticks.saturating_sub(a.ticks).max(1);
    let rise = b.time.0.saturating_sub(a.time.0);
    MonotonicNs(if ticks >= a.ticks {
        a.time.0.saturating_add(scale(ticks - a.ticks, rise, width))
    } else {
        a.time.0.saturating_sub(scale(a.ticks - ticks, rise, width))
    })
}

/// Returns `value` × `numerator` / `denominator` without overflow in between.
fn scale(value: u64, numerator: u64, denominator: u64) -> u64 {
    // This is nearly always so: anchors are less than two seconds apart.
    if let Some(product) = value.checked_mul(numerator) {
        return product / denominator.max(1);
    }
    let wide = u128::from(value) * u128::from(numerator) / u128::from(denominator.max(1));
    u64::try_from(wide).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clock_with(anchors: &[(u64, u64)]) -> TickClock {
        let mut clock = TickClock {
            source: TickSource::CycleCounter,
            anchors: VecDeque::new(),
            newest: None,
            narrowest: 0,
        };
        for &(ticks, ns) in anchors {
            let time = MonotonicNs(ns);
            clock.add(Anchor { ticks, time });
        }
        clock
    }

    #[test]
    fn without_a_division_the_time_is_the_same() {
        let anchor = |ticks, ns| Anchor {
            ticks,
            time: MonotonicNs(ns),
        };
        for (width, rise) in [
            (2_600_000_000, 1_000_000_000),
            (4_294_967_295, 1_431_655_766),
            (7, 3),
            (1_000_003, 999_983),
        ] {
            let (from, to) = (anchor(1_000, 50), anchor(1_000 + width, 50 + rise));
            let line = Line::new(from, to).unwrap();
            for part in 0..10_000 {
                let ticks = 1_000 + width / 10_000 * part + part;
                assert_eq!(line.at(ticks), Some(between(from, to, ticks)), "{ticks}");
            }
            assert_eq!(line.at(999), None);
        }
        assert!(Line::new(anchor(0, 0), anchor(5, 5)).is_none());
    }

    #[test]
    fn the_first_controller_decides_the_clock_and_the_others_abide_by_it() {
        let own = TickSource::of_this_machine();
        let header = AtomicU32::new(clock::UNDECIDED);

        assert_eq!(TickSource::agreed(&header), Some(own));
        assert_eq!(header.load(Acquire), own.to_header());

        let decided = AtomicU32::new(clock::MONOTONIC);
        assert_eq!(TickSource::agreed(&decided), Some(TickSource::Monotonic));
    }

    #[test]
    fn an_unknown_clock_is_not_agreed_on() {
        let header = AtomicU32::new(77);

        assert_eq!(TickSource::agreed(&header), None);
        assert_eq!(header.load(Acquire), 77);
    }

    #[test]
    fn the_kernel_has_the_same_time_as_the_c_library() {
        let before = monotonic_now().0;
        let by_kernel = monotonic_from_kernel();

        assert!((before..=monotonic_now().0).contains(&by_kernel));
    }

    #[test]
    fn a_moment_between_anchors_is_interpolated_and_one_outside_extrapolated() {
        let clock = clock_with(&[(1000, 500), (2000, 1000), (3000, 2000)]);

        assert_eq!(clock.time_of(1500), MonotonicNs(750));
        assert_eq!(clock.time_of(2500), MonotonicNs(1500));
        assert_eq!(clock.time_of(4000), MonotonicNs(3000));
        assert_eq!(clock.time_of(500), MonotonicNs(250));
    }

    #[test]
    fn later_ticks_never_give_an_earlier_time() {
        let clock = clock_with(&[(1000, 500), (1010, 900), (3000, 901), (9000, 4000)]);
        let times: Vec<_> = (0..10_000).map(|ticks| clock.time_of(ticks)).collect();

        assert!(times.is_sorted());
    }

    #[test]
    fn the_clock_of_this_machine_agrees_with_the_kernels() {
        let source = TickSource::of_this_machine();
        let mut clock = TickClock::new(source);
        let mut moments = Vec::new();
        for _ in 0..1000 {
            let before = monotonic_now();
            let ticks = source.now();
            let after = monotonic_now();
            moments.push((before, ticks, after));
        }
        clock.advance();

        // A microsecond of slack on either side: the anchors themselves were taken on a machine
        // that may be busy.
        for (before, ticks, after) in moments {
            let time = clock.time_of(ticks).0;
            assert!(
                time + 1000 >= before.0 && time <= after.0 + 1000,
                "{before:?} {time} {after:?}"
            );
        }
    }
}
