//! `tracer-user attach`, from the distribution.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context as _;
use serde_json::Value;

use super::background::{Background, Finished, count_before, count_shown, size};
use super::program_time::all_attached;
use super::{Attached, Seen, Tool, What};
use crate::folder;
use xtask::workspace;

/// Name of our command line in the report, writing a log.
pub const LOG: &str = "tracer-user attach --log";

/// Name in the report, where what arguments of system calls point to is not read.
pub const LOG_WITHOUT_TEXTS: &str = "tracer-user attach --log --string-size 0";

/// Name in the report, where calls are recorded as they end.
pub const LOG_OF_RESULTS: &str = "tracer-user attach --log --calls exit";

/// Our command line, printing text to a file.
#[derive(Clone, Copy)]
pub struct Ours(pub What);

impl Tool for Ours {
    fn name(&self) -> String {
        "tracer-user attach".to_owned()
    }

    fn program(&self) -> &'static str {
        "sh"
    }

    fn attach(&self, pids: &[u32]) -> anyhow::Result<Box<dyn Attached>> {
        attach(self.0, pids, &["--output"], "tracer-user.txt")
    }
}

/// Our command line, writing a log.
#[derive(Clone, Copy)]
pub enum OursIntoLog {
    /// With all that is recorded by default.
    Whole(What),
    /// Without what arguments of system calls point to.
    WithoutTexts(What),
    /// System calls, with what their descriptors are.
    WithDescriptors,
}

impl Tool for OursIntoLog {
    fn name(&self) -> String {
        match self {
            Self::Whole(What::Results) => LOG_OF_RESULTS,
            Self::WithoutTexts(What::Results) => {
                "tracer-user attach --log --calls exit --string-size 0"
            }
            Self::Whole(_) => LOG,
            Self::WithoutTexts(_) => LOG_WITHOUT_TEXTS,
            Self::WithDescriptors => "tracer-user attach --log -y",
        }
        .to_owned()
    }

    fn program(&self) -> &'static str {
        "sh"
    }

    fn attach(&self, pids: &[u32]) -> anyhow::Result<Box<dyn Attached>> {
        // The round before has left one there.
        let (what, to): (_, &[&str]) = match *self {
            Self::Whole(what) => (what, &["--force", "--log"]),
            Self::WithoutTexts(what) => (what, &["--string-size", "0", "--force", "--log"]),
            Self::WithDescriptors => (What::Calls, &["-y", "--force", "--log"]),
        };
        attach(what, pids, to, "tracer-user.log")
    }
}

/// Name of our command line in the report, counting in the kernel.
pub const COUNT: &str = "tracer-user stat --count";

/// Its name where it does not measure how long calls take.
pub const COUNT_WITHOUT_TIMES: &str = "tracer-user stat --count --no-times";

/// Name in the report of another build of the command line.
pub const BESIDE: &str = "another tracer-user attach";

/// Another build of our command line: switches as text, calls into a log.
pub struct Beside {
    /// Its file.
    pub program: PathBuf,
    /// Events that it records.
    pub of: What,
}

impl Tool for Beside {
    fn name(&self) -> String {
        BESIDE.to_owned()
    }

    fn program(&self) -> &'static str {
        "sh"
    }

    fn attach(&self, pids: &[u32]) -> anyhow::Result<Box<dyn Attached>> {
        let (to, file): (&[&str], _) = match self.of {
            What::Switches | What::Processes => (&["--output"], "beside.txt"),
            What::Calls | What::Results => (&["--force", "--log"], "beside.log"),
        };
        attach_by(&self.program, self.of, pids, to, file)
    }
}

/// Our command line, counting calls in the kernel and recording nothing.
#[derive(Clone, Copy)]
pub enum OursCounting {
    /// With how long each takes.
    WithTimes,
    /// How many, and how many fail.
    WithoutTimes,
}

impl Tool for OursCounting {
    fn name(&self) -> String {
        match self {
            Self::WithTimes => COUNT.to_owned(),
            Self::WithoutTimes => COUNT_WITHOUT_TIMES.to_owned(),
        }
    }

    fn program(&self) -> &'static str {
        "sh"
    }

    fn attach(&self, pids: &[u32]) -> anyhow::Result<Box<dyn Attached>> {
        let mut command = Command::new(workspace::target("dist/bin/tracer-user"));
        command.args(["stat", "--count=syscalls", "--format", "json"]);
        if matches!(self, Self::WithoutTimes) {
            command.arg("--no-times");
        }
        for pid in pids {
            command.args(["-p", &pid.to_string()]);
        }
        let running = Background::start(&mut command, "tracer-user")?;
        all_attached(running.pid())?;
        Ok(Box::new(Counting(running)))
    }
}

struct Counting(Background);

impl Attached for Counting {
    fn finish(self: Box<Self>) -> anyhow::Result<Seen> {
        let Finished {
            cpu_seconds, out, ..
        } = self.0.stop()?;
        let counted: Value = serde_json::from_str(&std::fs::read_to_string(&out)?)?;
        let sums = counted["sums"].as_array().context("it has no sums")?;
        let calls = sums.iter().filter_map(|sum| sum["syscalls"].as_array());
        let count = calls.flatten().filter_map(|call| call["count"].as_f64());
        Ok(Seen {
            events: count.sum(),
            lost: counted["without_space"]["events"].as_f64().unwrap_or(0.0),
            bytes: size(&out),
            cpu_seconds,
        })
    }
}

/// Our command line, explaining all that a program does while it does it.
#[derive(Clone, Copy)]
pub struct OursWhy;

impl Tool for OursWhy {
    fn name(&self) -> String {
        "tracer-user why --whole".to_owned()
    }

    fn program(&self) -> &'static str {
        "sh"
    }

    fn attach(&self, pids: &[u32]) -> anyhow::Result<Box<dyn Attached>> {
        let mut command = Command::new(workspace::target("dist/bin/tracer-user"));
        command.args(["why", "--whole"]);
        for pid in pids {
            command.args(["-p", &pid.to_string()]);
        }
        start(&mut command, folder().join("tracer-user.out"))
    }
}

/// Name of our command line in the report, explaining why a program is slow.
pub const EXPLAIN: &str = "tracer-user explain";

/// Our command line, explaining why a program is slow.
#[derive(Clone, Copy)]
pub struct OursExplain;

impl Tool for OursExplain {
    fn name(&self) -> String {
        EXPLAIN.to_owned()
    }

    fn program(&self) -> &'static str {
        "sh"
    }

    fn attach(&self, pids: &[u32]) -> anyhow::Result<Box<dyn Attached>> {
        let mut command = Command::new(workspace::target("dist/bin/tracer-user"));
        command.args(["explain", "--format", "json"]);
        for pid in pids {
            command.args(["-p", &pid.to_string()]);
        }
        let running = Background::start(&mut command, "tracer-user")?;
        all_attached(running.pid())?;
        Ok(Box::new(Explaining(running)))
    }
}

struct Explaining(Background);

impl Attached for Explaining {
    fn finish(self: Box<Self>) -> anyhow::Result<Seen> {
        let Finished {
            cpu_seconds, out, ..
        } = self.0.stop()?;
        let explained: Value = serde_json::from_str(&std::fs::read_to_string(&out)?)?;
        let number = |key: &str| explained[key].as_f64();
        Ok(Seen {
            events: number("events").context("it has explained nothing")?,
            lost: number("lost").unwrap_or(0.0),
            bytes: size(&out),
            cpu_seconds,
        })
    }
}

/// Starts our command line with these options, writing a log.
pub fn attach_with(pid: u32, options: &[&str]) -> anyhow::Result<Background> {
    let mut command = Command::new(workspace::target("dist/bin/tracer-user"));
    command.arg("attach").arg(pid.to_string()).args(options);
    command
        .args(["--force", "--log"])
        .arg(folder().join("tracer-user.log"));
    Background::start(&mut command, "tracer-user")
}

fn attach(what: What, pids: &[u32], to: &[&str], file: &str) -> anyhow::Result<Box<dyn Attached>> {
    let program = workspace::target("dist/bin/tracer-user");
    attach_by(&program, what, pids, to, file)
}

fn attach_by(
    program: &Path,
    what: What,
    pids: &[u32],
    to: &[&str],
    file: &str,
) -> anyhow::Result<Box<dyn Attached>> {
    let calls: &[&str] = match what {
        What::Switches | What::Processes => &[],
        What::Calls => &["--syscalls", "all"],
        What::Results => &["--syscalls", "all", "--calls", "exit"],
    };
    let output = folder().join(file);
    let mut command = Command::new(program);
    command.arg("attach").args(pids.iter().map(u32::to_string));
    command.args(["--events", what.events()]).args(calls);
    command.args(to).arg(&output);
    start(&mut command, output)
}

fn start(command: &mut Command, output: PathBuf) -> anyhow::Result<Box<dyn Attached>> {
    let running = Background::start(command, "tracer-user")?;
    all_attached(running.pid())?;
    Ok(Box::new(Running { running, output }))
}

struct Running {
    running: Background,
    output: PathBuf,
}

impl Attached for Running {
    fn finish(self: Box<Self>) -> anyhow::Result<Seen> {
        let Finished {
            cpu_seconds, err, ..
        } = self.running.stop()?;
        let count = |sign| {
            count_before(&err, sign).with_context(|| format!("no {sign:?} in its last line: {err}"))
        };
        Ok(Seen {
            events: count_shown(&err)?,
            lost: count(" lost")?,
            bytes: size(&self.output),
            cpu_seconds,
        })
    }
}
