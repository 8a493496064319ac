//! `tracer-user attach`: traces processes that run already.

use std::process::ExitCode;

use super::exit;
use super::report::with_page;
use super::target_options::{named, targets};
use super::trace_options::TraceArgs;
use tracer_answers::html_report::PageSetup;
use tracer_live::{Setup, Targets};
use tracer_output::terminal::output::Sink;

/// Trace running processes, instrumented or not, until they end
///
/// Processes are given by pid; or chosen by what they are, those that begin later included: then
/// the trace goes on until Ctrl-C or what --duration or --events say.
///
/// Without root, a user's own processes are traced through the service, where that runs
/// (tracer-user.socket); a line on the standard error says so. Options that need root say that too.
#[derive(Debug, clap::Args)]
pub struct AttachArgs {
    /// Processes to trace
    #[arg(
        value_name = "PID",
        required_unless_present_any = ["pid", "comm", "cgroup", "named", "all"]
    )]
    pids: Vec<String>,
    /// The same, separated by commas, as `stat` and `why` take it
    #[arg(
        short,
        long,
        value_name = "PID",
        value_delimiter = ',',
        conflicts_with_all = ["comm", "cgroup", "named", "all"]
    )]
    pid: Vec<String>,
    /// Trace the processes of this name, of which the kernel has 15 bytes; `*` matches any bytes,
    /// `?` one: 'redis*'
    #[arg(long, value_name = "NAME", conflicts_with_all = ["pids", "cgroup", "all"])]
    comm: Option<String>,
    /// Trace what is called so: the control group, as --cgroup takes it; or, where there is none of
    /// that name, the processes, as --comm does
    #[arg(long, value_name = "NAME", conflicts_with_all = ["pids", "comm", "cgroup", "all"])]
    named: Option<String>,
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

/// Checked configuration of `attach`.
#[derive(Clone, Debug)]
pub struct AttachConfig {
    targets: Targets,
    setup: Setup,
    page: Option<PageSetup>,
}

impl TryFrom<AttachArgs> for AttachConfig {
    type Error = anyhow::Error;

    fn try_from(args: AttachArgs) -> anyhow::Result<Self> {
        let (comm, cgroup) = (args.comm.as_deref(), args.cgroup.as_deref());
        let targets = match &args.named {
            Some(name) => named(name)?,
            None => targets(&[args.pids, args.pid].concat(), comm, cgroup, args.all)?,
        };
        let page = args.trace.page(in_words(&targets))?;
        let setup = args.trace.setup(Sink::Stdout)?;
        Ok(Self {
            targets,
            setup,
            page,
        })
    }
}

/// Traces the processes.
///
/// # Errors
///
/// They cannot be traced.
pub fn run(config: &AttachConfig) -> anyhow::Result<ExitCode> {
    let attach = |setup: &Setup| tracer_live::attach(&config.targets, setup);
    let (traced, shown) = with_page(config.page.as_ref(), &config.setup, attach)?;
    Ok(exit::from_outcome(traced.and(shown)))
}

/// Names the traced processes, for the title of a page.
fn in_words(targets: &Targets) -> String {
    match targets {
        Targets::Pids(pids) => {
            let words = if pids.len() == 1 {
                "process"
            } else {
                "processes"
            };
            let pids: Vec<String> = pids.iter().map(ToString::to_string).collect();
            format!("{words} {}", pids.join(", "))
        }
        others => others.in_words(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tracer_text::NamePattern;

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
        assert_eq!(targets(&["-p", "7,8", "9"]), Targets::Pids(vec![9, 7, 8]));
        assert_eq!(
            targets(&["--comm", "nginx"]),
            Targets::Named(NamePattern::new("nginx").unwrap())
        );
        assert_eq!(targets(&["--all"]), Targets::Everything);
        // No control group is called so.
        assert_eq!(
            targets(&["--named", "nowhere-a-group"]),
            Targets::Named(NamePattern::new("nowhere-a-group").unwrap())
        );
        for refused in [
            &[][..],
            &["7", "--all"],
            &["--comm", "a", "--all"],
            &["--comm", "a", "--cgroup", "b"],
            &["--comm", ""],
            &["--comm", "*longer-than-any-name"],
            &["--cgroup", "no-such-group-anywhere"],
            &["--cgroup", ""],
            &["--named", ""],
            &["--named", "a", "--all"],
            &["--named", "a", "7"],
        ] {
            assert!(config(refused).is_err(), "{refused:?}");
        }
    }
}
