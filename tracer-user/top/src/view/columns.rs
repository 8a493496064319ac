//! Columns of the table of threads.

use tracer_analysis::{Interval, State, Wait};

use crate::model::{Sum, ThreadRow};
use tracer_answers::queries::words::{duration, inside, share, throttled};

/// Column of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThreadColumn {
    /// Bar of its states.
    Bar,
    /// Time it ran in each second of the last minute.
    Minute,
    /// Share of the time that it ran.
    Run,
    /// Share of the time that it waited for a CPU.
    Wait,
    /// Time it ran.
    Running,
    /// Time it waited for a CPU.
    Runnable,
    /// Time it was blocked.
    Blocked,
    /// Time it was stopped.
    Stopped,
    /// Time in an unknown state.
    Unknown,
    /// Switches a second.
    Switches,
    /// Wake-ups a second.
    Wakeups,
    /// Longest wait for a CPU after a wake-up.
    Worst,
    /// System calls a second.
    Calls,
    /// User events a second.
    Users,
    /// Current state.
    Now,
    /// Command line of its process.
    Command,
}

/// Description of a column: the name by which it is chosen, its heading, its width and its meaning.
pub struct Entry {
    /// Column.
    pub column: ThreadColumn,
    /// Name, and heading.
    pub name: &'static str,
    /// Width, with the space before it.
    pub width: u16,
    /// Explanation of the content.
    pub help: &'static str,
}

/// All columns, in the order in which they are drawn.
pub const ALL: [Entry; 16] = [
    entry(
        ThreadColumn::Bar,
        "bar",
        12,
        "what the thread did: running, runnable, blocked, stopped, unknown",
    ),
    entry(
        ThreadColumn::Minute,
        "minute",
        21,
        "how much it ran in each of the last seconds",
    ),
    entry(
        ThreadColumn::Run,
        "run",
        7,
        "the share of the time that it ran",
    ),
    entry(
        ThreadColumn::Wait,
        "wait",
        7,
        "the share that it could run, and waited for a CPU",
    ),
    entry(ThreadColumn::Running, "running", 10, "how long it ran"),
    entry(
        ThreadColumn::Runnable,
        "runnable",
        10,
        "how long it waited for a CPU",
    ),
    entry(
        ThreadColumn::Blocked,
        "blocked",
        10,
        "how long it waited for something else",
    ),
    entry(
        ThreadColumn::Stopped,
        "stopped",
        10,
        "how long it was stopped",
    ),
    entry(
        ThreadColumn::Unknown,
        "unknown",
        10,
        "how long its state was unknown",
    ),
    entry(
        ThreadColumn::Switches,
        "switch/s",
        10,
        "how often it left its CPU, a second",
    ),
    entry(
        ThreadColumn::Wakeups,
        "wake/s",
        9,
        "how often it got a CPU after a wake-up, a second",
    ),
    entry(
        ThreadColumn::Worst,
        "worst",
        10,
        "the longest that it waited for a CPU after a wake-up",
    ),
    entry(
        ThreadColumn::Calls,
        "call/s",
        9,
        "system calls that returned, a second (--syscalls)",
    ),
    entry(ThreadColumn::Users, "event/s", 9, "user events, a second"),
    entry(
        ThreadColumn::Now,
        "now",
        16,
        "what it does now, and what it waits for",
    ),
    entry(
        ThreadColumn::Command,
        "command",
        24,
        "what its process was started with, or calls itself",
    ),
];

/// Columns that are shown where no others are chosen: where there is too little space, the last of
/// them give way first.
pub const USUAL: [ThreadColumn; 11] = [
    ThreadColumn::Bar,
    ThreadColumn::Run,
    ThreadColumn::Worst,
    ThreadColumn::Now,
    ThreadColumn::Wait,
    ThreadColumn::Command,
    ThreadColumn::Switches,
    ThreadColumn::Minute,
    ThreadColumn::Wakeups,
    ThreadColumn::Users,
    ThreadColumn::Calls,
];

const fn entry(column: ThreadColumn, name: &'static str, width: u16, help: &'static str) -> Entry {
    Entry {
        column,
        name,
        width,
        help,
    }
}

impl ThreadColumn {
    /// Returns its entry in the table.
    pub fn entry(self) -> Option<&'static Entry> {
        ALL.iter().find(|entry| entry.column == self)
    }

    /// Returns the key by which threads are sorted, the greatest first.
    pub fn key(self, sum: &Sum, current: Option<&Interval>) -> u64 {
        match self {
            Self::Bar | Self::Minute | Self::Run | Self::Running => sum.running,
            Self::Wait | Self::Runnable => sum.runnable,
            Self::Blocked => sum.blocked,
            Self::Stopped => sum.stopped,
            Self::Unknown => sum.unknown,
            Self::Switches => sum.switches,
            Self::Wakeups => sum.wakeups,
            Self::Worst => sum.worst_wakeup.unwrap_or(0),
            Self::Calls => sum.calls,
            Self::Users => sum.users,
            Self::Now => current.map_or(0, Interval::ns),
            Self::Command => 0,
        }
    }

    /// Returns the text of a cell, for a window of length `span`; nothing where it is drawn.
    pub fn says(self, sum: &Sum, span: u64) -> String {
        match self {
            Self::Bar | Self::Minute | Self::Now | Self::Command => String::new(),
            Self::Run => share(sum.running, span),
            Self::Wait => share(sum.runnable, span),
            Self::Running => duration(sum.running),
            Self::Runnable => duration(sum.runnable),
            Self::Blocked => duration(sum.blocked),
            Self::Stopped => duration(sum.stopped),
            Self::Unknown => duration(sum.unknown),
            Self::Switches => rate(sum.switches, span),
            Self::Wakeups => rate(sum.wakeups, span),
            Self::Worst => sum.worst_wakeup.map_or_else(|| "-".to_owned(), duration),
            Self::Calls => rate(sum.calls, span),
            Self::Users => rate(sum.users, span),
        }
    }
}

/// Returns a rate per second: `0.4`, `12`.
pub fn rate(count: u64, span: u64) -> String {
    let tenths = u128::from(count) * 10_000_000_000 / u128::from(span.max(1));
    if tenths == 0 || tenths >= 100 {
        format!("{}", tenths / 10)
    } else {
        format!("{}.{}", tenths / 10, tenths % 10)
    }
}

/// Returns the current state of a thread in words: `running on CPU 1`, `futex 12.3 ms, last woken
/// by nginx 4711`.
pub fn now(row: &ThreadRow) -> String {
    let Some(current) = &row.current else {
        return String::new();
    };
    let for_so_long = duration(current.ns());
    let mut words = match current.state {
        State::Running => match current.cpu {
            Some(cpu) => format!("running on CPU {cpu}"),
            None => "running".to_owned(),
        },
        State::Runnable(Wait::Throttled(_)) => {
            format!("{} {for_so_long}", throttled(row.group.as_deref()))
        }
        State::Runnable(_) => format!("runnable {for_so_long}"),
        State::Blocked(reason) => {
            let what = inside(reason.inside).unwrap_or_else(|| "blocked".to_owned());
            let device = if reason.is_io { " for a device" } else { "" };
            format!("{what}{device} {for_so_long}")
        }
        State::Stopped => format!("stopped {for_so_long}"),
        State::Unknown => "unknown".to_owned(),
        State::Dead => "ended".to_owned(),
    };
    if let Some(waits_for) = &row.waits_for {
        words.push_str(", ");
        words.push_str(&waits_for.to_string());
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_below_ten_have_a_tenth() {
        assert_eq!(rate(0, 1_000_000_000), "0");
        assert_eq!(rate(4, 10_000_000_000), "0.4");
        assert_eq!(rate(99, 10_000_000_000), "9.9");
        assert_eq!(rate(12_345, 1_000_000_000), "12345");
        assert_eq!(rate(5, 0), "5000000000");
    }
}
