//! Cost that a tracer adds to a program that runs all the time: first without the tracer, then with
//! it, then without it again.
//!
//! Two runs of a program differ by more than a tracer adds: their memory lies elsewhere, and the
//! machine does other work meanwhile. One run differs from itself by far less.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context as _, ensure};

use super::contest::Run;
use super::spread::Spread;
use super::tools::{Background, Seen, Tool, as_user};

/// Processes that are traced while the program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whom {
    /// The program.
    It,
    /// The program and the children that it has already.
    ItAndChildren,
    /// Another process, which sleeps.
    Another,
}

/// A cost without a tracer and with it.
#[derive(Clone, Copy, Debug)]
pub struct Costs {
    /// Median of all windows before and after tracing.
    pub without: f64,
    /// Median of all windows while the tracer runs.
    pub with: f64,
    /// Figures that the tracer reported.
    seen: Seen,
}

impl Costs {
    /// Returns a run whose value is the cost that the tracer adds.
    pub fn added(self) -> Run {
        self.run(self.with - self.without)
    }

    /// Returns a run whose value is the cost that the tracer adds, in per cent.
    pub fn added_percent(self) -> Run {
        self.run((self.with - self.without) / self.without * 100.0)
    }

    fn run(self, value: f64) -> Run {
        let run = Run::new(value).with("untraced, ns", self.without);
        self.seen.beside(run)
    }
}

/// Runs `program`, which prints windows, and attaches the tool in the second of three phases, each
/// of the length `phase`.
pub fn attach(
    tool: &dyn Tool,
    program: &mut Command,
    whom: Whom,
    phase: Duration,
) -> anyhow::Result<Costs> {
    let program = Background::start(program, "meanwhile")?;
    sleep(phase / 4);
    let before = span(phase);
    let sleeper;
    let pids = match whom {
        Whom::It => vec![program.pid()],
        Whom::ItAndChildren => with_children(program.pid())?,
        Whom::Another => {
            // An ordinary user's, so that every tool may trace it.
            let mut asleep = as_user(Command::new("sleep").arg("1000"));
            sleeper = Background::start(&mut asleep, "sleeper")?;
            vec![sleeper.pid()]
        }
    };
    let attached = tool.attach(&pids)?;
    let during = span(phase);
    let seen = attached.finish()?;
    let after = span(phase);
    ensure!(
        whom == Whom::Another || seen.events > 0.0,
        "the tracer saw nothing at all"
    );
    let windows = windows(&fs::read_to_string(program.out())?);
    let middle = |spans: &[Span], when| {
        let costs = windows
            .iter()
            .filter(|window| spans.iter().any(|span| span.holds(window)))
            .map(|window| window.cost);
        Spread::compute(costs)
            .map(|spread| spread.median)
            .with_context(|| format!("the program said nothing {when} it was traced"))
    };
    Ok(Costs {
        without: middle(&[before, after], "before and after")?,
        with: middle(&[during], "while")?,
        seen,
    })
}

fn with_children(pid: u32) -> anyhow::Result<Vec<u32>> {
    let path = format!("/proc/{pid}/task/{pid}/children");
    let children = fs::read_to_string(Path::new(&path)).context(path)?;
    let children = children
        .split_ascii_whitespace()
        .filter_map(|child| child.parse().ok());
    Ok([pid].into_iter().chain(children).collect())
}

/// Interval in nanoseconds of `CLOCK_MONOTONIC`.
#[derive(Clone, Copy, Debug)]
struct Span {
    start: f64,
    end: f64,
}

impl Span {
    fn holds(self, window: &Window) -> bool {
        window.span.start >= self.start && window.span.end <= self.end
    }
}

/// Sleeps for this time and returns the interval.
fn span(phase: Duration) -> Span {
    let start = now();
    sleep(phase);
    Span { start, end: now() }
}

fn now() -> f64 {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: valid for writes; the clock is always there.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    let part = |value: i64| super::tools::as_float(value.unsigned_abs());
    part(now.tv_sec) * 1e9 + part(now.tv_nsec)
}

/// Interval that a program printed, with the cost in it.
#[derive(Clone, Copy, Debug)]
struct Window {
    span: Span,
    cost: f64,
}

fn windows(text: &str) -> Vec<Window> {
    let window = |line: &str| {
        let mut parts = line.strip_prefix("window ")?.split_ascii_whitespace();
        let mut next = || parts.next()?.parse::<f64>().ok();
        let span = Span {
            start: next()?,
            end: next()?,
        };
        let cost = next()?;
        Some(Window { span, cost })
    };
    text.lines().filter_map(window).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_windows_count() {
        let found = windows("window 10 20 5.5\nwindow 20 30 6\nnoise\nwindow 30 4");
        let span = Span {
            start: 15.0,
            end: 30.0,
        };

        let held: Vec<f64> = found
            .iter()
            .filter(|window| span.holds(window))
            .map(|window| window.cost)
            .collect();
        assert_eq!((found.len(), held), (2, vec![6.0]));
    }
}
