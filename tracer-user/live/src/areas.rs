//! Search for trace areas: a process may create one at any time after it began.

use std::collections::{HashMap, HashSet};
use std::num::NonZeroU16;
use std::time::{Duration, Instant};

use tracer_area::{
    Area, AreaId, AreaSource, FindError, Retirement, SlotError, StreamRequest, monotonic_now,
};
use tracer_engine::event::MonotonicNs;
use tracer_engine::source::Source;

use super::name_shares::NameShares;
use super::origin::{AreaTag, Tagged};
use super::proc_fs;
use super::setup::later;
use tracer_binary::bounded_proc::{self, HeldProcess};

/// Times of the looks after a fork or exec: the library makes its area while the program is being
/// loaded, which takes a millisecond or, on a loaded machine, many.
const LOOK_AFTER: [Duration; 9] = [
    Duration::from_micros(500),
    Duration::from_millis(1),
    Duration::from_millis(2),
    Duration::from_millis(5),
    Duration::from_millis(10),
    Duration::from_millis(20),
    Duration::from_millis(100),
    Duration::from_millis(500),
    Duration::from_secs(2),
];

/// Interval between looks at a process that was asked for by its pid.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Areas that are read at once: of one user, and of all. Each takes a descriptor and some mappings,
/// of which a process may have 65,530.
const MOST_AREAS_OF_USER: usize = 1024;
const MOST_AREAS: usize = 4096;

/// Most processes named by an area's events that are looked at each second: a hostile program may
/// name thousands.
const USERS_LOOKED_AT: u32 = 64;

/// Most processes that are looked at in one call, so that many execs do not hold the tracer up.
const LOOKS_AT_ONCE: usize = 32;

/// Longest time of these looks together; the last may take longer. Signals and events of other
/// processes wait meanwhile.
const LOOK_WITHIN: Duration = Duration::from_millis(25);

/// Reason why the user events of a process are not available.
#[derive(Debug, thiserror::Error)]
pub enum AreaError {
    /// Its area cannot be found.
    #[error(transparent)]
    Find(#[from] FindError),
    /// No stream can be opened in it.
    #[error(transparent)]
    Open(#[from] SlotError),
    /// The kernel does not answer, or not now.
    #[error(transparent)]
    Held(#[from] HeldProcess),
}

impl AreaError {
    /// Tells whether the answer may differ a moment later.
    pub fn is_for_now(&self) -> bool {
        matches!(
            self,
            Self::Held(_) | Self::Find(FindError::WithoutFile { .. })
        )
    }

    /// Tells whether the process itself may be the cause, so that others which are traced with it
    /// must not suffer for it.
    pub fn is_targets_own(&self) -> bool {
        !matches!(
            self,
            Self::Find(FindError::NotPermitted { .. } | FindError::NoSuchProcess { .. })
        )
    }
}

/// Result of a look at a process.
pub enum Look {
    /// The process has no trace area.
    Nothing,
    /// Its area is being read already.
    Known,
    /// A new source of events.
    New(Box<dyn Source>),
}

#[derive(Clone, Copy, Debug)]
struct Search {
    since: MonotonicNs,
    looks: usize,
    due: MonotonicNs,
}

/// Programs that began during the trace with an area of their own, and may have emitted before it
/// was found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FoundLate {
    /// Number of such programs.
    pub programs: u32,
    /// The longest time that went by unseen.
    pub longest: Duration,
}

/// An area that is read.
#[derive(Debug)]
struct Known {
    /// The user whose area it is.
    owner: u32,
    /// Processes that are known to use the area.
    users: HashSet<i32>,
    /// Users, and their children: processes that may have written the events that are read.
    writers: HashSet<i32>,
    tag: Option<AreaTag>,
    retirement: Retirement,
}

/// The areas that are read, and the processes that may bring another.
pub struct Areas {
    request: StreamRequest,
    /// Start of the trace.
    start: MonotonicNs,
    known: HashMap<(AreaId, Option<i32>), Known>,
    last_tag: u16,
    searches: HashMap<i32, Search>,
    /// Processes that were asked for: they are looked at for as long as they live.
    asked_for: HashSet<i32>,
    /// Whether an event reports an exec. Without one, processes that were asked for are looked at
    /// for ever.
    has_exec_events: bool,
    found_late: FoundLate,
    /// Remaining looks for users of areas, until the next tidying up.
    looks_left: u32,
    /// Processes whose areas cannot be read: too many are.
    refused: HashSet<i32>,
    /// Processes whose areas could not be opened yet: no descriptor was left, or no memory, or all
    /// streams of the area are in use.
    lacking: HashSet<i32>,
    names: NameShares,
}

impl Areas {
    /// Starts with no areas. Streams are opened as `request` says, but for the target.
    pub fn new(request: StreamRequest, start: MonotonicNs, has_exec_events: bool) -> Self {
        Self {
            request,
            start,
            known: HashMap::new(),
            last_tag: 0,
            searches: HashMap::new(),
            asked_for: HashSet::new(),
            has_exec_events,
            found_late: FoundLate::default(),
            looks_left: USERS_LOOKED_AT,
            refused: HashSet::new(),
            lacking: HashSet::new(),
            names: NameShares::new(),
        }
    }

    /// Returns the count of programs found too late to be seen from their first user event on, and
    /// the longest time that went by unseen.
    pub fn found_late(&self) -> FoundLate {
        self.found_late
    }

    /// Counts the processes of which no user event was available, for lack of descriptors, memory
    /// or streams, or since too many areas are read.
    pub fn unread(&self) -> usize {
        self.refused.len() + self.lacking.len()
    }

    /// Looks once more at processes whose areas could not be opened, as the trace ends: those that
    /// have none lack nothing. Where the kernel was slow to answer, the next look may be due later.
    pub fn look_at_lacking(&mut self) {
        let end = Instant::now() + LOOK_WITHIN;
        let lacking: Vec<_> = self.lacking.iter().copied().collect();
        for pid in lacking {
            if Instant::now() >= end {
                break;
            }
            let Some(since) = self.searches.get(&pid).map(|search| search.since) else {
                continue;
            };
            let found = bounded_proc::ask_process(pid, move || Area::find(pid));
            let is_same = proc_fs::was_started_after(pid, since).is_ok_and(|is_new| !is_new);
            if is_same && matches!(found, Ok(Ok(None))) {
                self.lacking.remove(&pid);
            }
        }
    }

    /// Returns the number of event types shown without their names, since there were too many
    /// names.
    pub fn unnamed(&self) -> u64 {
        self.names.unnamed()
    }

    /// Returns the number of names that programs were refused, since their areas had no space for
    /// them.
    pub fn names_refused(&self) -> u64 {
        self.names.refused()
    }

    /// Tells whether no further area of this user is read.
    fn are_too_many(&self, owner: u32) -> bool {
        let of_user = self.known.values().filter(|known| known.owner == owner);
        self.known.len() >= MOST_AREAS || of_user.count() >= MOST_AREAS_OF_USER
    }

    /// Looks at a process that was asked for, now and from now on.
    ///
    /// # Errors
    ///
    /// See [`AreaError`].
    pub fn ask_for(&mut self, pid: i32, now: MonotonicNs) -> Result<Look, AreaError> {
        self.asked_for.insert(pid);
        let look = self.look(pid, now)?;
        if matches!(look, Look::Nothing) || !self.has_exec_events {
            self.search(pid, now);
        }
        Ok(look)
    }

    /// Notes that the user events of a process that was asked for are not available for now, and
    /// looks again later.
    pub fn put_off(&mut self, pid: i32, now: MonotonicNs) {
        self.search(pid, now);
        self.lacking.insert(pid);
    }

    /// Looks at a command from now on, where no event will report its exec: a command that runs as
    /// another user does not use the area that was made for it, and makes its own.
    pub fn expect(&mut self, pid: i32, now: MonotonicNs) {
        if !self.has_exec_events {
            self.asked_for.insert(pid);
            self.search(pid, now);
        }
    }

    /// Opens a stream in an area that was made for `pid` before it started.
    ///
    /// # Errors
    ///
    /// See [`AreaError`].
    pub fn open(&mut self, area: Area, pid: i32) -> Result<Look, AreaError> {
        let id = area.id();
        self.known.retain(|_, known| !known.retirement.has_ended());
        // A process that uses an area younger than the trace descends from a traced one, and may
        // have been forked before the area was found.
        let is_of_traced = self.request.inherit && area.created() >= self.start;
        let target = (!is_of_traced).then_some(pid);
        self.left_for(id, pid);
        let is_known = if self.asked_for.contains(&pid) {
            self.known.contains_key(&(id, None)) || self.known.contains_key(&(id, target))
        } else {
            // A child is traced by the stream that traces its parent.
            self.known.keys().any(|(known, _)| *known == id)
        };
        if is_known {
            let of_area = self.known.iter_mut().filter(|((known, _), _)| *known == id);
            of_area.for_each(|(_, known)| {
                known.users.insert(pid);
                known.writers.insert(pid);
                known.retirement.allow(false);
            });
            return Ok(Look::Known);
        }
        let owner = area.owner();
        if self.are_too_many(owner) {
            self.refused.insert(pid);
            return Ok(Look::Known);
        }
        let request = StreamRequest {
            target,
            ..self.request.clone()
        };
        // Opening looks at the process that has the stream's slot now, which may be another one.
        let mut source = bounded_proc::ask_process(pid, move || AreaSource::open(area, &request))??;
        source.share_names(self.names.share_for(owner));
        let tag = self.free_tag();
        let known = Known {
            owner,
            users: HashSet::from([pid]),
            writers: HashSet::from([pid]),
            tag,
            retirement: source.retirement(),
        };
        self.known.insert((id, target), known);
        tracing::debug!(pid, inode = id.inode, ?target, "trace area opened");
        let source: Box<dyn Source> = Box::new(source);
        Ok(Look::New(match tag {
            Some(tag) => Box::new(Tagged::new(source, tag)),
            None => source,
        }))
    }

    /// Notes that a process uses this area, and no other any more: it has run another program
    /// since.
    fn left_for(&mut self, id: AreaId, pid: i32) {
        let others = self.known.iter_mut().filter(|((known, _), _)| *known != id);
        others.for_each(|(_, known)| {
            known.users.remove(&pid);
        });
    }

    /// Returns a tag that no area has, and that no recent area had.
    fn free_tag(&mut self) -> Option<AreaTag> {
        let tags = (0..u16::MAX).map(|step| self.last_tag.wrapping_add(1).wrapping_add(step));
        let tag = tags
            .filter_map(|tag| NonZeroU16::new(tag).map(AreaTag))
            .find(|tag| self.known.values().all(|known| known.tag != Some(*tag)))?;
        self.last_tag = tag.0.get();
        Some(tag)
    }

    /// Notes that a child was made, which may write to the area of its parent.
    pub fn forked(&mut self, parent: i32, child: i32) {
        for known in self.known.values_mut() {
            if known.writers.contains(&parent) {
                known.writers.insert(child);
            }
        }
    }

    /// Tells whether process `pid` may have written to this area, as far as is known. Where the
    /// area is not read any more, every process may have.
    pub fn may_write(&self, area: AreaTag, pid: i32) -> bool {
        let mut known = self.known.values();
        known
            .find(|known| known.tag == Some(area))
            .is_none_or(|known| known.writers.contains(&pid))
    }

    /// Tells whether process `pid` uses this area for certain, or has ended: then it is not known
    /// any more. Looks at the process where that is not known.
    pub fn is_used_by(&mut self, area: AreaTag, pid: i32) -> bool {
        let has_tag = |known: &Known| known.tag == Some(area);
        let Some(((id, _), known)) = self.known.iter_mut().find(|(_, known)| has_tag(known)) else {
            return true;
        };
        if known.writers.contains(&pid) {
            return true;
        }
        let Some(left) = self.looks_left.checked_sub(1) else {
            return false;
        };
        self.looks_left = left;
        if proc_fs::has_ended(pid) {
            return true;
        }
        let id = *id;
        // A process that keeps the kernel from answering is not believed.
        let is_user =
            bounded_proc::ask_process(pid, move || Area::is_used_by(id, pid)).unwrap_or(false);
        if is_user {
            known.writers.insert(pid);
        }
        is_user
    }

    /// Returns the processes that may have written to this area.
    pub fn writers(&self, area: AreaTag) -> Vec<i32> {
        let mut known = self.known.values();
        let known = known.find(|known| known.tag == Some(area));
        known
            .map(|known| known.writers.iter().copied().collect())
            .unwrap_or_default()
    }

    /// Notes that process `pid` has ended: a process with its pid from now on is another one.
    pub fn ended(&mut self, pid: i32) {
        self.searches.remove(&pid);
        self.asked_for.remove(&pid);
    }

    /// Notes that process `pid` runs a new program, or is new itself.
    pub fn search(&mut self, pid: i32, since: MonotonicNs) {
        let search = Search {
            since,
            looks: 0,
            due: later(since, LOOK_AFTER[0]),
        };
        self.searches.insert(pid, search);
    }

    /// Looks at the processes that are due. Calls `found` with each new source.
    pub fn look_around(&mut self, now: MonotonicNs, mut found: impl FnMut(Box<dyn Source>)) {
        let end = Instant::now() + LOOK_WITHIN;
        for pid in self.due(now) {
            if Instant::now() >= end {
                break;
            }
            let since = self.searches.get(&pid).map_or(now, |search| search.since);
            match self.look(pid, since) {
                Ok(Look::New(source)) => {
                    self.found(pid, now);
                    found(source);
                }
                // A process with an area has it until its next exec.
                Ok(Look::Known) => self.found(pid, now),
                Ok(Look::Nothing) => self.postpone(pid, now),
                Err(AreaError::Find(FindError::NoSuchProcess { .. })) => {
                    self.searches.remove(&pid);
                }
                Err(AreaError::Find(error)) if error.is_for_lack() => self.try_again(pid, now),
                // The next program of the process may keep its descriptor, or be able to have a
                // file.
                Err(AreaError::Find(
                    FindError::OnlyMapped { .. } | FindError::WithoutFile { .. },
                )) => self.try_again(pid, now),
                // All streams of the area may be in use; one may end soon.
                Err(AreaError::Open(_) | AreaError::Held(_)) => self.try_again(pid, now),
                Err(error) => {
                    self.searches.remove(&pid);
                    let error = &error as &dyn std::error::Error;
                    tracing::warn!(pid, error, "no user events of this process");
                }
            }
        }
    }

    /// Returns the processes due for a look, the longest overdue first, so that processes that run
    /// programs for ever do not delay all others.
    fn due(&self, now: MonotonicNs) -> Vec<i32> {
        let is_due =
            |(pid, search): (&i32, &Search)| (search.due <= now).then_some((search.due, *pid));
        let mut due: Vec<_> = self.searches.iter().filter_map(is_due).collect();
        due.sort_unstable();
        due.truncate(LOOKS_AT_ONCE);
        due.into_iter().map(|(_, pid)| pid).collect()
    }

    /// Returns the time when the next look is due.
    pub fn next_look(&self) -> Option<MonotonicNs> {
        self.searches.values().map(|search| search.due).min()
    }

    /// Forgets the processes for which `is_live` is false. The writers of an area are remembered as
    /// long as `is_known` is true: there may be events left to read of a process that has ended.
    pub fn keep_only(&mut self, is_live: impl Fn(i32) -> bool, is_known: impl Fn(i32) -> bool) {
        self.looks_left = USERS_LOOKED_AT;
        self.searches.retain(|pid, _| is_live(*pid));
        self.asked_for.retain(|pid| is_live(*pid));
        if self.has_exec_events {
            self.give_up(is_live, is_known);
        }
    }

    /// Gives up the areas whose users have all ended: a trace may see thousands. Without events
    /// that report forks not all users are known.
    fn give_up(&mut self, is_live: impl Fn(i32) -> bool, is_known: impl Fn(i32) -> bool) {
        for known in self.known.values_mut() {
            known.users.retain(|pid| is_live(*pid));
            known.writers.retain(|pid| is_known(*pid));
            known.retirement.allow(known.users.is_empty());
        }
        self.known.retain(|_, known| !known.retirement.has_ended());
    }

    /// Looks for the area of the process that had the pid `pid` at the moment `since`.
    fn look(&mut self, pid: i32, since: MonotonicNs) -> Result<Look, AreaError> {
        let found = bounded_proc::ask_process(pid, move || Area::find(pid))??;
        // Checked while the area is held: the process that has the pid now had it at `since`.
        if proc_fs::was_started_after(pid, since)? {
            return Err(FindError::NoSuchProcess { pid }.into());
        }
        let Some(area) = found else {
            self.lacking.remove(&pid);
            return Ok(Look::Nothing);
        };
        let created = area.created();
        let look = self.open(area, pid)?;
        self.lacking.remove(&pid);
        if matches!(look, Look::New(_)) && created >= self.start {
            let unseen = Duration::from_nanos(monotonic_now().0.saturating_sub(created.0));
            self.found_late.programs += 1;
            self.found_late.longest = self.found_late.longest.max(unseen);
        }
        Ok(look)
    }

    /// Looks again later: it is not known yet whether there is an area.
    fn try_again(&mut self, pid: i32, now: MonotonicNs) {
        self.lacking.insert(pid);
        if let Some(search) = self.searches.get_mut(&pid) {
            search.due = later(now, LOOK_EVERY);
        }
    }

    /// Ends the search, unless no event would report that it has to begin again.
    fn found(&mut self, pid: i32, now: MonotonicNs) {
        let goes_on = !self.has_exec_events && self.asked_for.contains(&pid);
        match self.searches.get_mut(&pid) {
            Some(search) if goes_on => {
                search.looks = LOOK_AFTER.len();
                search.due = later(now, LOOK_EVERY);
            }
            _ => {
                self.searches.remove(&pid);
            }
        }
    }

    fn postpone(&mut self, pid: i32, now: MonotonicNs) {
        let Some(search) = self.searches.get_mut(&pid) else {
            return;
        };
        search.looks += 1;
        let planned = LOOK_AFTER
            .get(search.looks)
            .map(|wait| later(search.since, *wait));
        let regular = self
            .asked_for
            .contains(&pid)
            .then(|| later(now, LOOK_EVERY));
        match planned.into_iter().chain(regular).min() {
            Some(due) => search.due = due,
            None => {
                self.searches.remove(&pid);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tracer_area::RingMode;

    use super::*;

    fn areas() -> Areas {
        let request = StreamRequest {
            target: None,
            inherit: true,
            is_only_source: false,
            bytes: 4096,
            mode: RingMode::OverwriteOldest,
            max_data: 64,
            lease: None,
        };
        Areas::new(request, MonotonicNs(0), true)
    }

    /// Returns the milliseconds at which process 1 is looked at, as long as it has no area.
    fn looks(areas: &mut Areas, until_ms: u64) -> Vec<u64> {
        let mut at = Vec::new();
        for ms in 0..until_ms {
            let now = MonotonicNs(ms * 1_000_000);
            if areas
                .searches
                .get(&1)
                .is_some_and(|search| search.due <= now)
            {
                at.push(ms);
                areas.postpone(1, now);
            }
        }
        at
    }

    #[test]
    fn a_new_program_is_looked_at_less_and_less_often_and_then_no_more() {
        let mut areas = areas();
        areas.search(1, MonotonicNs(0));

        assert_eq!(
            looks(&mut areas, 10_000),
            [1, 2, 3, 5, 10, 20, 100, 500, 2000]
        );
        assert!(areas.searches.is_empty());
    }

    #[test]
    fn what_was_asked_for_is_looked_at_for_ever() {
        let mut areas = areas();
        areas.asked_for.insert(1);
        areas.search(1, MonotonicNs(0));

        assert_eq!(
            looks(&mut areas, 3_100),
            [1, 2, 3, 5, 10, 20, 100, 500, 1000, 1500, 2000, 2500, 3000]
        );
    }

    /// Returns an area without users.
    fn unused(owner: u32) -> Known {
        Known {
            owner,
            users: HashSet::new(),
            writers: HashSet::new(),
            tag: None,
            retirement: Retirement::default(),
        }
    }

    #[test]
    fn what_has_ended_is_looked_at_no_more() {
        let mut areas = areas();
        areas.search(1, MonotonicNs(0));
        areas.keep_only(|pid| pid != 1, |_| true);

        assert!(areas.searches.is_empty());
    }

    #[test]
    fn who_has_ended_is_still_believed_to_have_used_its_area() {
        let mut areas = areas();
        let (id, tag) = (
            AreaId {
                device: 1,
                inode: 1,
            },
            areas.free_tag(),
        );
        let mut known = unused(1);
        (known.tag, known.writers) = (tag, HashSet::from([1]));
        areas.known.insert((id, None), known);
        let tag = tag.unwrap();
        areas.has_exec_events = true;
        areas.keep_only(|_| false, |pid| pid == 1);
        assert!(areas.may_write(tag, 1));
        areas.keep_only(|_| false, |_| false);
        assert!(!areas.may_write(tag, 1));

        // A process that has ended and was not waited for has no memory that could be looked at.
        let mut ended = std::process::Command::new("true").spawn().unwrap();
        let pid = i32::try_from(ended.id()).unwrap();
        while !proc_fs::has_ended(pid) {
            std::thread::yield_now();
        }
        assert!(areas.is_used_by(tag, pid));
        ended.wait().unwrap();
        let ours = i32::try_from(std::process::id()).unwrap();
        assert!(!areas.is_used_by(tag, ours));
    }

    #[test]
    fn who_has_waited_longest_is_looked_at_first() {
        let mut areas = areas();
        let pids = 1..=100;
        for pid in pids.clone() {
            areas.search(pid, MonotonicNs(1000 - u64::try_from(pid).unwrap()));
        }
        let first: Vec<i32> = pids.rev().take(LOOKS_AT_ONCE).collect();
        assert_eq!(areas.due(MonotonicNs(1_000_000_000)), first);
        assert!(areas.due(MonotonicNs(0)).is_empty());
    }

    #[test]
    fn a_user_with_a_thousand_areas_takes_no_slot_of_others() {
        let mut areas = areas();
        let id = |inode| AreaId { device: 1, inode };
        for inode in 0..MOST_AREAS_OF_USER as u64 {
            assert!(!areas.are_too_many(1));
            areas.known.insert((id(inode), None), unused(1));
        }
        assert!(areas.are_too_many(1) && !areas.are_too_many(2));
        for inode in 0..MOST_AREAS as u64 {
            let owner = u32::try_from(inode).unwrap();
            areas.known.insert((id(inode), None), unused(owner));
        }
        assert!(areas.are_too_many(70_000));
    }
}
