//! `tracer-user attach`: traces processes that run already.

use std::process::ExitCode;

use anyhow::Context;

use super::trace_options::TraceArgs;
use super::{exit, pid};
use crate::kernel::NamePattern;
use crate::terminal::output::Sink;
use crate::trace::{self, ControlGroup, Setup, Targets};

/// Trace running processes, instrumented or not, until they end
///
/// Processes are given by pid; or chosen by what they are, those that begin later included: then
/// the trace goes on until Ctrl-C or what --duration or --events say.
#[derive(Debug, clap::Args)]
pub struct AttachArgs {
    /// Processes to trace
    #[arg(value_name = "PID", required_unless_present_any = ["comm", "cgroup", "all"])]
    pids: Vec<String>,
    /// Trace the processes of this name, of which the kernel has 15 bytes; `*` matches any bytes,
    /// `?` one: 'redis*'
    #[arg(long, value_name = "NAME", conflicts_with_all = ["pids", "cgroup", "all"])]
    comm: Option<String>,
    /// Trace the processes in this control group (version 2) and in those within it: its path, a
    /// systemd unit, or the identifier of a container
    #[arg(long, value_name = "GROUP", conflicts_with_all = ["pids", "all"])]
    cgroup: Option<String>,
    /// Trace every process but this one
    #[arg(long, conflicts_with = "pids")]
    all: bool,
    #[command(flatten)]
    trace: TraceArgs,
}

/// What `attach` does, checked.
#[derive(Clone, Debug)]
pub struct AttachConfig {
    targets: Targets,
    setup: Setup,
}

impl TryFrom<AttachArgs> for AttachConfig {
    type Error = anyhow::Error;

    fn try_from(args: AttachArgs) -> anyhow::Result<Self> {
        let setup = args.trace.setup(Sink::Stdout)?;
        let targets = if args.all {
            Targets::Everything
        } else if let Some(name) = args.comm {
            let pattern = NamePattern::new(&name);
            Targets::Named(pattern.with_context(|| format!("--comm {name:?}"))?)
        } else if let Some(typed) = args.cgroup {
            Targets::InGroup(ControlGroup::find(&typed).context("--cgroup")?)
        } else {
            Targets::Pids(pids(&args.pids)?)
        };
        Ok(Self { targets, setup })
    }
}

fn pids(typed: &[String]) -> anyhow::Result<Vec<i32>> {
    let mut pids = Vec::new();
    for typed in typed {
        let pid = pid(typed)?;
        if !pids.contains(&pid) {
            pids.push(pid);
        }
    }
    Ok(pids)
}

/// Traces the processes.
///
/// # Errors
///
/// They cannot be traced.
pub fn run(config: &AttachConfig) -> anyhow::Result<ExitCode> {
    trace::attach(&config.targets, &config.setup).map(exit::of_outcome)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, clap::Parser)]
    struct Line {
        #[command(flatten)]
        attach: AttachArgs,
    }

    fn config(typed: &[&str]) -> anyhow::Result<AttachConfig> {
        let words = std::iter::once(&"any").chain(typed);
        let line: Line = clap::Parser::try_parse_from(words)?;
        line.attach.try_into()
    }

    #[test]
    fn targets_are_pids_or_a_name_or_a_group_or_everything() {
        let targets = |typed: &[&str]| config(typed).unwrap().targets;
        assert_eq!(targets(&["7", "8", "7"]), Targets::Pids(vec![7, 8]));
        assert_eq!(
            targets(&["--comm", "nginx"]),
            Targets::Named(NamePattern::new("nginx").unwrap())
        );
        assert_eq!(targets(&["--all"]), Targets::Everything);
        for refused in [
            &[][..],
            &["7", "--all"],
            &["--comm", "a", "--all"],
            &["--comm", "a", "--cgroup", "b"],
            &["--comm", ""],
            &["--comm", "*longer-than-any-name"],
            &["--cgroup", "no-such-group-anywhere"],
            &["--cgroup", ""],
        ] {
            assert!(config(refused).is_err(), "{refused:?}");
        }
    }
}
