//! The answer for people.

use std::collections::{BTreeMap, BTreeSet};

use tracer_analysis::Thread;
use tracer_text::escape::push_for_people;

use super::circles::Waits as _;
use super::look::LookedAt;
use super::waits::{ThreadActivity, ThreadWait, WaitHolder, WaitKind};
use super::{ThreadId, WaitSnapshot};
use crate::queries::words::thread;

/// Deepest level of a chain.
const DEEPEST: usize = 24;

/// Most holders of one wait that are named.
const MOST_HOLDERS: usize = 4;

/// Lines after which the answer follows no thread a second time. Where many threads hold the same,
/// such as the ends of many pipes, there are more paths between them than can be shown.
const MOST_REPEATING: usize = 1000;

/// Most lines of a brief answer.
const BRIEF_LINES: usize = 40;

/// Renders the answer: with `has_stacks`, with the functions of each thread; with `is_brief`, only
/// its first lines.
#[must_use]
pub fn text(moment: &WaitSnapshot, has_stacks: bool, is_brief: bool) -> String {
    let mut shown = Shown {
        moment,
        has_stacks,
        out: String::new(),
        lines: 0,
        told: BTreeSet::new(),
    };
    shown.deadlocks();
    shown.chains();
    shown.traces();
    shown.missing();
    shown.next();
    if is_brief {
        return brief(&shown.out);
    }
    shown.out
}

/// Returns the first lines of an answer, with the number of those that are left out.
fn brief(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    if lines.len() <= BRIEF_LINES {
        return text.to_owned();
    }
    let (shown, left_out) = lines.split_at(BRIEF_LINES - 1);
    format!("{}\n{} more lines\n", shown.join("\n"), left_out.len())
}

struct Shown<'a> {
    moment: &'a WaitSnapshot,
    has_stacks: bool,
    out: String,
    lines: usize,
    /// Threads that have a line.
    told: BTreeSet<ThreadId>,
}

impl Shown<'_> {
    fn deadlocks(&mut self) {
        let moment = self.moment;
        for circle in &moment.deadlocks {
            let names: Vec<String> = circle.iter().map(|one| self.name(*one)).collect();
            self.line(
                0,
                &match &names[..] {
                    [only] => format!("deadlock: {only} waits for itself"),
                    _ => format!("deadlock of {} threads", names.len()),
                },
            );
            for (index, thread) in circle.iter().enumerate() {
                let next = names.get(index + 1).or(names.first());
                let next = next.map_or("", String::as_str);
                let what = self.wait_of(*thread);
                let who = names.get(index).map_or("", String::as_str);
                let is_last = index + 1 == circle.len();
                let closes = if is_last && circle.len() > 1 {
                    ": the circle"
                } else {
                    ""
                };
                self.line(
                    1,
                    &format!("{who} {what}, {}{closes}", self.held_by(*thread, next)),
                );
                self.stack(1, *thread);
                self.told.insert(*thread);
            }
        }
        if moment.behind > 0 {
            let waits = match moment.behind {
                1 => "1 thread waits".to_owned(),
                count => format!("{count} threads wait"),
            };
            self.line(0, &format!("{waits} for these"));
        }
    }

    /// Describes how the thread called `next` holds what `thread` waits for.
    fn held_by(&self, thread: ThreadId, next: &str) -> String {
        let kind = self.moment.activity(thread).and_then(ThreadActivity::wait);
        relation(kind.map(|wait| wait.kind), next)
    }

    /// Shows the threads that wait, each with all that it waits for. Threads for which no other
    /// thread waits come first.
    fn chains(&mut self) {
        let moment = self.moment;
        let asked = |thread: &ThreadId| moment.is_asked(*thread);
        let threads: Vec<ThreadId> = moment.threads.keys().copied().filter(asked).collect();
        let waited_for: BTreeSet<ThreadId> = threads
            .iter()
            .flat_map(|thread| {
                let holders = self.holders(*thread);
                holders.into_iter().filter(move |holder| holder != thread)
            })
            .collect();
        let (inner, first): (Vec<ThreadId>, Vec<ThreadId>) = threads
            .iter()
            .partition(|thread| waited_for.contains(thread));
        for group in [first, inner] {
            for threads in self.alike(&group) {
                self.chain(&threads);
            }
        }
    }

    /// Says so where no thread works for the trace that the user asked for.
    fn traces(&mut self) {
        let moment = self.moment;
        if moment.trace.is_none() || moment.threads.keys().any(|one| moment.is_asked(*one)) {
            return;
        }
        let mut contexts = moment.threads.values().filter_map(|looked| looked.context);
        let what = match contexts.next() {
            None => "none of them says for which trace it works (OpenTelemetry's thread context)",
            Some(_) => "others say for which trace they work",
        };
        self.line(
            0,
            &format!("no thread that waits works for this trace; {what}"),
        );
    }

    /// Groups threads that wait for the same at the same place. The groups are in the order of
    /// their first threads.
    fn alike(&self, threads: &[ThreadId]) -> Vec<Vec<ThreadId>> {
        let mut groups: Vec<Vec<ThreadId>> = Vec::new();
        let mut known: BTreeMap<String, usize> = BTreeMap::new();
        for thread in threads {
            let Some(looked) = self.moment.threads.get(thread) else {
                continue;
            };
            let key = format!(
                "{} {:?} {} {:?}",
                thread.pid,
                looked.facts.comm,
                self.does(looked),
                looked.activity.holders()
            );
            let index = *known.entry(key).or_insert(groups.len());
            match groups.get_mut(index) {
                Some(group) => group.push(*thread),
                None => groups.push(vec![*thread]),
            }
        }
        groups
    }

    fn chain(&mut self, threads: &[ThreadId]) {
        let untold = threads.iter().filter(|one| !self.told.contains(one));
        let untold: Vec<ThreadId> = untold.copied().collect();
        let Some(first) = untold.first() else { return };
        let others = match untold.len() - 1 {
            0 => String::new(),
            1 => " and 1 more".to_owned(),
            count => format!(" and {count} more"),
        };
        self.told.extend(&untold);
        let mut way = vec![*first];
        self.told_line(0, *first, &others);
        self.holders_of(1, *first, &mut way);
    }

    /// Shows what a thread does.
    fn told_line(&mut self, depth: usize, thread: ThreadId, others: &str) {
        let name = self.name(thread);
        let does = match self.moment.threads.get(&thread) {
            Some(looked) => self.does(looked),
            None => "was not looked at".to_owned(),
        };
        self.line(depth, &format!("{name}{others} {does}"));
        self.stack(depth, thread);
    }

    /// Shows the holders of what a thread waits for, and what these holders wait for in turn.
    fn holders_of(&mut self, depth: usize, thread: ThreadId, way: &mut Vec<ThreadId>) {
        let Some(activity) = self.moment.activity(thread) else {
            return;
        };
        let kind = activity.wait().map(|wait| wait.kind);
        let holders = activity.holders().to_vec();
        if depth > DEEPEST {
            if !holders.is_empty() {
                self.line(depth, "and so on: the chain is longer");
            }
            return;
        }
        for (index, holder) in holders.iter().take(MOST_HOLDERS).enumerate() {
            let word = if index == 0 { "" } else { "or " };
            self.holder((depth, word), kind, *holder, way);
        }
        match holders.len().saturating_sub(MOST_HOLDERS) {
            0 => {}
            1 => self.line(depth, "or 1 other"),
            more => self.line(depth, &format!("or {more} others")),
        }
    }

    fn holder(
        &mut self,
        (depth, word): (usize, &str),
        kind: Option<WaitKind>,
        holder: WaitHolder,
        way: &mut Vec<ThreadId>,
    ) {
        let next = match holder {
            WaitHolder::Thread(thread) => thread,
            WaitHolder::Process(pid) => match self.moment.of_process(pid).as_deref() {
                Some([only]) => *only,
                of => {
                    let count = of.map_or(0, <[ThreadId]>::len);
                    let name = self.name(ThreadId { pid, tid: pid });
                    let threads = match count {
                        0 => String::new(),
                        _ => format!(" ({count} threads)"),
                    };
                    let held = format!("{word}{}", relation(kind, &format!("{name}{threads}")));
                    self.line(depth, &held);
                    return;
                }
            },
        };
        let held = format!("{word}{}", relation(kind, &self.name(next)));
        if self
            .moment
            .deadlocks
            .iter()
            .flatten()
            .any(|one| *one == next)
        {
            self.line(depth, &format!("{held}, in the deadlock above"));
            return;
        }
        if way.contains(&next) {
            self.line(depth, &format!("{held}: a circle"));
            return;
        }
        match self.moment.threads.get(&next) {
            Some(looked) => {
                let does = self.does(looked);
                let is_new = self.told.insert(next);
                if !is_new && self.lines >= MOST_REPEATING {
                    self.line(depth, &format!("{held}, which {does}: as above"));
                    return;
                }
                self.line(depth, &format!("{held}, which {does}"));
                self.stack(depth, next);
                way.push(next);
                self.holders_of(depth + 1, next, way);
                way.pop();
            }
            None => self.line(depth, &held),
        }
    }

    /// Describes what a thread does.
    fn does(&self, looked: &LookedAt) -> String {
        match &looked.activity {
            ThreadActivity::Runs => "runs".to_owned(),
            ThreadActivity::Stopped => "is stopped by a signal".to_owned(),
            ThreadActivity::Traced(_) => "is stopped by its tracer".to_owned(),
            ThreadActivity::Untold => {
                let inside = &looked.facts.kernel_function;
                match inside.as_str() {
                    "" => "is blocked in something unknown".to_owned(),
                    _ => format!("is blocked in the kernel, in {inside}"),
                }
            }
            ThreadActivity::Waits(wait) => {
                let unknown = match wait.unknown {
                    Some(why) if wait.kind.has_holder() => format!(", holder unknown: {why}"),
                    _ => String::new(),
                };
                let context = looked.context.map_or_else(String::new, |context| {
                    format!(", for trace {} span {}", context.trace(), context.span())
                });
                format!("{}{unknown}{context}", waits_for(wait, looked))
            }
        }
    }

    fn wait_of(&self, thread: ThreadId) -> String {
        let looked = self.moment.threads.get(&thread);
        looked.map_or_else(String::new, |looked| self.does(looked))
    }

    /// Returns the threads that may end the wait of a thread, or its stop by a tracer.
    fn holders(&self, thread: ThreadId) -> Vec<ThreadId> {
        let holders = self
            .moment
            .activity(thread)
            .map_or(&[][..], ThreadActivity::holders);
        let each = holders.iter().flat_map(|holder| match holder {
            WaitHolder::Thread(thread) => vec![*thread],
            WaitHolder::Process(pid) => match self.moment.of_process(*pid) {
                Some(threads) if threads.len() == 1 => threads,
                _ => Vec::new(),
            },
        });
        each.collect()
    }

    fn name(&self, id: ThreadId) -> String {
        let looked = self.moment.threads.get(&id);
        let comm = looked.map_or(&[][..], |looked| &looked.facts.comm);
        let ThreadId { pid, tid } = id;
        thread(Thread { pid, tid }, comm)
    }

    fn stack(&mut self, depth: usize, thread: ThreadId) {
        let Some(looked) = self.moment.threads.get(&thread).filter(|_| self.has_stacks) else {
            return;
        };
        let mut lines = Vec::new();
        looked.place.push_lines(&mut lines);
        for line in String::from_utf8_lossy(&lines).lines() {
            self.line(depth + 2, line);
        }
    }

    fn missing(&mut self) {
        let missing = self.moment.missing.clone();
        if !missing.refused.is_empty() {
            let count = processes(missing.refused.len());
            self.line(0, &format!(
                "{count} may not be looked into by this user (root may; `tracer-user doctor` says \
                 why): nothing is known of their waits"
            ));
        }
        if !missing.held.is_empty() {
            let pids: Vec<String> = missing.held.iter().take(5).map(i32::to_string).collect();
            let count = processes(missing.held.len());
            self.line(
                0,
                &format!(
                    "the kernel does not answer about {count} ({}): not looked at",
                    pids.join(", ")
                ),
            );
        }
        let unseen = [
            (missing.processes, "process", "processes"),
            (missing.threads, "thread", "threads"),
        ];
        let unseen = unseen.into_iter().filter(|(count, ..)| *count > 0);
        let unseen: Vec<String> = unseen
            .map(|(count, one, many)| format!("{count} {}", if count == 1 { one } else { many }))
            .collect();
        if !unseen.is_empty() {
            let unseen = unseen.join(" and ");
            self.line(
                0,
                &format!("not looked at: {unseen}, for lack of time or as there are too many"),
            );
        }
    }

    /// Suggests a command that says more.
    fn next(&mut self) {
        let moment = self.moment;
        let mut asked = moment
            .threads
            .iter()
            .filter(|(id, _)| moment.is_asked(**id));
        let unknown = asked.find(|(_, looked)| {
            let wait = looked.activity.wait();
            wait.is_some_and(|wait| wait.unknown.is_some() && wait.kind.has_holder())
        });
        if let (Some((id, _)), true) = (unknown, moment.deadlocks.is_empty()) {
            self.line(
                0,
                &format!(
                    "who wakes it: tracer-user why -p {} --thread {} --duration 10s",
                    id.pid, id.tid
                ),
            );
        }
    }

    fn line(&mut self, depth: usize, line: &str) {
        self.out.push_str(&"  ".repeat(depth));
        self.out.push_str(line);
        self.out.push('\n');
        self.lines += 1;
    }
}

fn processes(count: usize) -> String {
    match count {
        1 => "1 process".to_owned(),
        _ => format!("{count} processes"),
    }
}

/// Describes how `who` holds what another thread waits for. `kind` is that of the wait, and `None`
/// where `who` traces the other thread.
fn relation(kind: Option<WaitKind>, who: &str) -> String {
    match kind {
        Some(WaitKind::Mutex | WaitKind::RwLock | WaitKind::FileLock) => format!("held by {who}"),
        Some(WaitKind::Pipe | WaitKind::Socket) => format!("at the other end {who}"),
        Some(WaitKind::ServedFile) => format!("served by {who}"),
        Some(WaitKind::ThreadEnd | WaitKind::Child | WaitKind::Borrowed) => {
            format!("that is {who}")
        }
        None => format!("traced by {who}"),
        Some(_) => format!("of {who}"),
    }
}

/// Describes a wait: `waits for mutex 0x7f12 (queue) at take`.
fn waits_for(wait: &ThreadWait, looked: &LookedAt) -> String {
    let mut words = format!("waits for {}", wait.kind.in_words());
    if let Some(file) = &wait.file {
        let mut name = Vec::new();
        push_for_people(&mut name, file);
        let name = String::from_utf8_lossy(&name).into_owned();
        words.push(' ');
        // The prefix would repeat the kind of the wait.
        let bare = name.strip_prefix("pipe:").or(name.strip_prefix("socket:"));
        words.push_str(bare.unwrap_or(&name));
    }
    if let Some(descriptor) = wait.descriptor {
        words.push_str(&format!(" (descriptor {descriptor})"));
    }
    if let Some(address) = wait.address {
        words.push_str(&format!(" {address:#x}"));
    }
    if let Some(variable) = &wait.variable {
        let mut name = Vec::new();
        push_for_people(&mut name, variable.as_bytes());
        words.push_str(&format!(" ({})", String::from_utf8_lossy(&name)));
    }
    if wait.readers > 0 {
        words.push_str(&format!(" that {} readers have", wait.readers));
    }
    // A wait at an address is in the call `futex`. The name of a known kind of lock implies that.
    let is_plain = wait.address.is_none() || wait.kind == WaitKind::Futex;
    if let Some(call) = looked.system_call.as_ref().filter(|_| is_plain) {
        words.push_str(&format!(" in {call}"));
    }
    let kernel = &looked.facts.kernel_function;
    if matches!(wait.kind, WaitKind::Kernel | WaitKind::Page) && !kernel.is_empty() {
        words.push_str(&format!(" ({kernel})"));
    }
    if let Some(function) = looked.place.function() {
        let mut name = Vec::new();
        push_for_people(&mut name, function.as_bytes());
        words.push_str(&format!(" at {}", String::from_utf8_lossy(&name)));
    }
    if wait.has_timeout && wait.kind != WaitKind::Time {
        words.push_str(", for a limited time");
    }
    words
}

#[cfg(test)]
mod tests {
    use super::super::Missing;
    use super::super::places::ThreadPlace;
    use super::super::threads::{InCall, ThreadFacts};
    use super::*;

    #[test]
    fn threads_that_all_wait_for_all_others_are_told_in_time() {
        const COUNT: i32 = 200;
        let threads = (1..=COUNT).map(|tid| {
            let others = (1..=COUNT).filter(|other| *other != tid);
            let holder = |tid| WaitHolder::Thread(ThreadId { pid: tid, tid });
            let wait = ThreadWait::new(WaitKind::Pipe).held_by(others.map(holder).collect());
            let facts = ThreadFacts {
                tid,
                comm: b"many".to_vec(),
                state: b'S',
                inner_tids: vec![tid],
                tracer: 0,
                kernel_function: String::new(),
                call: InCall::Untold,
                switches: 0,
            };
            let looked = LookedAt {
                facts,
                system_call: None,
                activity: ThreadActivity::Waits(Box::new(wait)),
                place: ThreadPlace::default(),
                context: None,
            };
            (ThreadId { pid: tid, tid }, looked)
        });
        let moment = WaitSnapshot {
            threads: threads.collect(),
            asked: (1..=COUNT).collect(),
            trace: None,
            whole: BTreeSet::new(),
            deadlocks: Vec::new(),
            behind: 0,
            missing: Missing::default(),
        };
        let shown = text(&moment, false, false);
        // Each is shown once with all that it waits for, and some of them more often.
        let lines = shown.lines().count();
        assert!(
            (MOST_REPEATING..8 * MOST_REPEATING).contains(&lines),
            "{lines}"
        );
        assert!(shown.contains(": as above"), "{shown}");
        for tid in 1..=COUNT {
            assert!(
                shown.contains(&format!("many {tid} waits"))
                    || shown.contains(&format!("many {tid},")),
                "{tid}"
            );
        }
    }
}
