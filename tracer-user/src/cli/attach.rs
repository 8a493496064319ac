//! `tracer-user attach`: traces processes that run already.

use std::process::ExitCode;

use anyhow::Context;

use super::trace_options::TraceArgs;
use super::{exit, observe};
use crate::trace::{self, Setup};

/// Trace running processes, instrumented or not, until they end
#[derive(Debug, clap::Args)]
pub struct AttachArgs {
    /// Processes to trace
    #[arg(value_name = "PID", required = true)]
    pids: Vec<String>,
    #[command(flatten)]
    trace: TraceArgs,
}

/// What `attach` does, checked.
#[derive(Clone, Debug)]
pub struct AttachConfig {
    pids: Vec<i32>,
    setup: Setup,
}

impl TryFrom<AttachArgs> for AttachConfig {
    type Error = anyhow::Error;

    fn try_from(args: AttachArgs) -> anyhow::Result<Self> {
        let mut pids = Vec::new();
        for typed in &args.pids {
            let pid = pid(typed)?;
            if !pids.contains(&pid) {
                pids.push(pid);
            }
        }
        let setup = args.trace.try_into()?;
        Ok(Self { pids, setup })
    }
}

fn pid(typed: &str) -> anyhow::Result<i32> {
    let pid = typed.parse().ok().filter(|pid| *pid > 0);
    pid.with_context(|| format!("{typed:?} is no pid; give the number of a process, such as 1234"))
}

/// Traces the processes.
///
/// # Errors
///
/// They cannot be traced.
pub fn run(config: &AttachConfig) -> anyhow::Result<ExitCode> {
    observe(config.setup.verbose);
    trace::attach(&config.pids, &config.setup).map(exit::of_outcome)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_positive_numbers_are_pids() {
        assert_eq!(pid("1234").unwrap(), 1234);
        for typed in ["0", "-1", "me", "", "99999999999", "12 "] {
            assert!(pid(typed).is_err(), "{typed}");
        }
    }
}
