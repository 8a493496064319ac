//! The kernel's own tracer, in an instance of its own.

use std::fs;
use std::path::PathBuf;

use anyhow::Context as _;

use crate::mount;

/// An instance that notes some of the kernel's events. Removed when dropped.
pub struct Ftrace(PathBuf);

/// Nanoseconds as [`Noted::us`] has them: to the nearest.
#[must_use]
pub fn to_us(ns: u64) -> u64 {
    (ns + 500) / 1000
}

/// A line of it, such as `  name-123 [000] d.h3. 12.345678: sched_waking: comm=x pid=124 …`.
#[derive(Debug)]
pub struct Noted {
    /// `CLOCK_MONOTONIC`, in microseconds, which the kernel rounds: see [`to_us`].
    pub us: u64,
    /// The thread that had the CPU.
    pub on_cpu: i64,
    /// `h` and `H`: in an interrupt; `s`: in a soft interrupt; `.`: in neither.
    pub context: char,
    /// The event.
    pub name: String,
    /// Arguments of the event.
    pub text: String,
}

impl Ftrace {
    /// Notes an event, such as `sched/sched_waking`, each with its filter, which may be empty.
    ///
    /// # Errors
    ///
    /// The kernel has none of it, or `tracefs` is not mounted.
    pub fn start(name: &str, events: &[(&str, &str)]) -> anyhow::Result<Self> {
        let mount_point = mount::mounted(|kind, _| kind == "tracefs")?.context("no tracefs")?;
        let folder = mount_point.join(format!("instances/{name}-{}", std::process::id()));
        fs::create_dir(&folder).context("an instance of tracefs")?;
        let ftrace = Self(folder);
        ftrace.write("trace_clock", "mono")?;
        ftrace.write("buffer_size_kb", "8192")?;
        for (event, filter) in events {
            if !filter.is_empty() {
                ftrace.write(&format!("events/{event}/filter"), filter)?;
            }
            ftrace.write(&format!("events/{event}/enable"), "1")?;
        }
        Ok(ftrace)
    }

    fn write(&self, file: &str, text: &str) -> anyhow::Result<()> {
        let path = self.0.join(file);
        fs::write(&path, text).with_context(|| path.display().to_string())
    }

    /// Returns the events that it noted, in order of time.
    ///
    /// # Errors
    ///
    /// A line is of another form.
    pub fn noted(&self) -> anyhow::Result<Vec<Noted>> {
        let text = fs::read_to_string(self.0.join("trace"))?;
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        lines
            .map(|line| Noted::read(line).with_context(|| line.to_owned()))
            .collect()
    }
}

impl Drop for Ftrace {
    fn drop(&mut self) {
        let _ = self.write("events/enable", "0");
        let _ = fs::remove_dir(&self.0);
    }
}

impl Noted {
    fn read(line: &str) -> Option<Self> {
        let (before, after) = line.split_once(" [")?;
        let (_, on_cpu) = before.rsplit_once('-')?;
        let (_, after) = after.split_once("] ")?;
        let (flags, after) = after.trim_start().split_once(' ')?;
        let (time, after) = after.trim_start().split_once(": ")?;
        let (seconds, us) = time.split_once('.')?;
        let (name, text) = after.split_once(": ")?;
        Some(Self {
            us: seconds.parse::<u64>().ok()? * 1_000_000 + us.parse::<u64>().ok()?,
            on_cpu: on_cpu.trim().parse().ok()?,
            context: flags.chars().nth(2)?,
            name: name.to_owned(),
            text: text.to_owned(),
        })
    }

    /// Returns the text after `key` up to the next blank.
    #[must_use]
    pub fn value(&self, key: &str) -> Option<&str> {
        let words = self.text.split_whitespace();
        words.into_iter().find_map(|word| word.strip_prefix(key))
    }
}
