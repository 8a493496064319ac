//! `tracer-user why --now`: what threads wait for at this moment.

use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use anyhow::{bail, ensure};

use super::log_filter::trace_id;
use super::target_options::targets;
use super::why::WhyArgs;
use tracer_answers::budget::Budget;
use tracer_answers::now::{WaitSnapshot, json, text};
use tracer_event::document::document;
use tracer_live::{Targets, ensure_own_proc};
use tracer_output::terminal::output::Sink;

/// Checked configuration of `why --now`.
#[derive(Clone, Debug)]
pub struct NowConfig {
    targets: Targets,
    has_stacks: bool,
    is_brief: bool,
    is_json: bool,
    trace: Option<[u8; 16]>,
    budget: Budget,
}

impl TryFrom<WhyArgs> for NowConfig {
    type Error = anyhow::Error;

    fn try_from(args: WhyArgs) -> anyhow::Result<Self> {
        let source = args.source.checked()?;
        ensure!(
            source.file.is_none() && source.command.is_empty(),
            "--now is about processes that are there; give -p, --comm, --cgroup or --all"
        );
        let trace = args.trace_id.as_deref().map(trace_id);
        let (comm, cgroup) = (source.comm.as_deref(), source.cgroup.as_deref());
        let is_json = args.format.is_json();
        Ok(Self {
            budget: args.budget.budget(is_json, &Sink::Stdout)?,
            targets: targets(&source.pid, comm, cgroup, source.all)?,
            has_stacks: args.stacks,
            is_brief: args.brief,
            is_json,
            trace: trace.transpose()?,
        })
    }
}

/// Looks, and shows what was found.
///
/// # Errors
///
/// There is no such process, or the lines cannot be written.
pub fn run(config: &NowConfig) -> anyhow::Result<ExitCode> {
    ensure_own_proc()?;
    let pids = config.targets.there_now();
    if let Targets::Pids(typed) = &config.targets {
        for pid in typed {
            check(*pid)?;
        }
    }
    let moment = WaitSnapshot::look(&pids);
    if let (true, Targets::Pids(_)) = (moment.is_empty(), &config.targets) {
        bail!("these processes have ended");
    }
    ensure!(
        !moment.is_empty(),
        "there are no {} now ({})",
        config.targets.in_words(),
        config.targets.how_to_find()
    );
    let moment = match config.trace {
        Some(trace) => moment.of_trace(trace),
        None => moment,
    };
    let shown = if config.is_json {
        document(&json(&moment, config.has_stacks))
    } else {
        let whole = text(&moment, config.has_stacks, config.is_brief);
        config.budget.text(whole)
    };
    io::stdout().lock().write_all(shown.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

/// Makes sure that this is another process.
fn check(pid: i32) -> anyhow::Result<()> {
    let own = i32::try_from(std::process::id()).unwrap_or(0);
    ensure!(pid != own, "process {pid} is tracer-user itself");
    if Path::new(&format!("/proc/{pid}")).exists() {
        return Ok(());
    }
    bail!("no process has pid {pid} (`ps -e` lists those that there are)")
}
