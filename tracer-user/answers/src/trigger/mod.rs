//! Recorder that waits for a condition: the newest events are held in memory, and when the
//! condition is met they go to a log of their own, and the reason is reported.

mod condition;
pub mod newest;
mod recorder;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, bail};
use tracer_analysis::Thread;
use tracer_log_view::log_output::LogSetup;

pub use condition::Condition;
pub use recorder::FlightRecorder;

/// Conditions that are waited for, and output that is written then.
#[derive(Clone, Debug)]
pub struct TriggerSetup {
    /// Rules of which any one is enough.
    pub rules: Vec<TriggerRule>,
    /// Time for which earlier events are held.
    pub keep: Duration,
    /// Logs that are written; after that strikes are only counted.
    pub most_logs: u32,
    /// The logs, but for their names: `.1`, `.2` and so on are added to this one.
    pub log: LogSetup,
}

impl TriggerSetup {
    /// Returns the name of a log.
    #[must_use]
    pub fn path(&self, index: u32) -> PathBuf {
        let mut name = self.log.path.clone().into_os_string();
        name.push(format!(".{index}"));
        name.into()
    }
}

/// Threads that are looked at. All by default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Whose {
    comm: Option<Vec<u8>>,
    pid: Option<i32>,
    tid: Option<i32>,
}

/// A condition, and the threads that it is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TriggerRule {
    /// The condition.
    pub condition: Condition,
    /// Threads that it is about.
    pub whose: Whose,
}

const FORMS: &str =
    "give && comm == \"NAME\", && pid == NUMBER or && tid == NUMBER behind a condition";

impl TriggerRule {
    /// Reads a condition, and the threads behind `&&`: `blocked > 100ms && comm == "victim"`.
    ///
    /// # Errors
    ///
    /// It is none.
    pub fn parse(typed: &str) -> anyhow::Result<Self> {
        let mut parts = typed.split("&&");
        let condition = Condition::parse(parts.next().unwrap_or_default())?;
        let mut whose = Whose::default();
        for part in parts {
            whose
                .hold(part.trim())
                .with_context(|| format!("--when {typed:?}"))?;
        }
        Ok(Self { condition, whose })
    }
}

impl Whose {
    fn hold(&mut self, typed: &str) -> anyhow::Result<()> {
        let (name, value) = typed
            .split_once("==")
            .with_context(|| format!("{typed:?} names no process, thread or command; {FORMS}"))?;
        let value = value.trim();
        let number = || {
            let number = value.parse().ok().filter(|number| *number > 0);
            number.with_context(|| format!("{value:?} is no number of a process or thread"))
        };
        match name.trim() {
            "comm" => {
                let quoted = ['"', '\'']
                    .into_iter()
                    .find_map(|quote| value.strip_prefix(quote)?.strip_suffix(quote));
                self.comm = Some(quoted.unwrap_or(value).as_bytes().to_vec());
            }
            "pid" => self.pid = Some(number()?),
            "tid" => self.tid = Some(number()?),
            other => bail!("{other:?} is not known here; {FORMS}"),
        }
        Ok(())
    }

    /// Tells whether a thread of this name is one of them.
    #[must_use]
    pub fn is(&self, thread: Thread, comm: &[u8]) -> bool {
        self.comm.as_ref().is_none_or(|wanted| wanted == comm)
            && self.pid.is_none_or(|pid| pid == thread.pid)
            && self.tid.is_none_or(|tid| tid == thread.tid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_is_held_to_the_thread_it_names() {
        let rule = TriggerRule::parse("blocked > 100ms && comm == \"a b\" && pid == 7").unwrap();
        assert_eq!(rule.condition, Condition::Blocked(100_000_000));
        let thread = |pid, tid| Thread { pid, tid };
        assert!(rule.whose.is(thread(7, 9), b"a b"));
        assert!(!rule.whose.is(thread(8, 9), b"a b"));
        assert!(!rule.whose.is(thread(7, 9), b"a"));
        let all = TriggerRule::parse("exit != 0").unwrap();
        assert!(all.whose.is(thread(1, 1), b""));
        let one = TriggerRule::parse("runnable > 1ms&&tid==9").unwrap();
        assert!(one.whose.is(thread(7, 9), b"x") && !one.whose.is(thread(9, 7), b"x"));
    }

    #[test]
    fn what_names_no_thread_is_refused() {
        for typed in [
            "blocked > 1ms &&",
            "blocked > 1ms && victim",
            "blocked > 1ms && pid == x",
            "blocked > 1ms && pid == 0",
            "blocked > 1ms && cpu == 1",
            "&& pid == 1",
        ] {
            assert!(TriggerRule::parse(typed).is_err(), "{typed}");
        }
    }
}
