//! `tracer-user serve`: gives programs the kernel's events of what they may trace.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, ensure};

use super::time;
use tracer_kernel::{MOUNT_PROC, PROC_OF_ANOTHER, capabilities, is_proc_own};

/// Give the kernel's events to the programs of all users, each of what it may trace itself
///
/// The service of tracer-user.socket and tracer-user.service: it needs CAP_BPF and CAP_PERFMON, and
/// no other right. A program that asks for the kernel's events in a stream of its own
/// (posix_trace_attr_setkernelevents_np(), or LINUX_TRACE_KERNEL_EVENTS=1) finds it. The kernel
/// decides what a program may trace: the program proves it by a file that the kernel opens only
/// then. No eBPF program is loaded while no program asks. The users that it serves are
/// in /etc/tracer-user.toml.
#[derive(Debug, clap::Args)]
pub struct ServeArgs {
    /// Listen here. Not where a service manager passes the socket
    #[arg(long, value_name = "PATH", default_value = tracer_agent::SYSTEM_ADDRESS)]
    socket: PathBuf,
    /// End when no program has asked for so long, where a service manager passes the socket: it
    /// starts the service again. 0: never
    #[arg(long, value_name = "TIME", default_value = "60s")]
    idle: String,
    /// File that says which users are served. Where there is none, each is, within its rights
    #[arg(long, value_name = "FILE", default_value = "/etc/tracer-user.toml")]
    policy: PathBuf,
}

/// Checked configuration of `serve`.
#[derive(Clone, Debug)]
pub struct ServeConfig {
    socket: PathBuf,
    idle: Option<Duration>,
    policy: PathBuf,
}

impl TryFrom<ServeArgs> for ServeConfig {
    type Error = anyhow::Error;

    fn try_from(args: ServeArgs) -> anyhow::Result<Self> {
        ensure!(
            args.socket.is_absolute(),
            "--socket takes an absolute path: programs that look for it may be in any folder"
        );
        let idle = match args.idle.as_str() {
            "0" => None,
            typed => Some(time("--idle", typed)?),
        };
        Ok(Self {
            socket: args.socket,
            idle,
            policy: args.policy,
        })
    }
}

/// Serves until a signal, or until there is nothing to do.
///
/// # Errors
///
/// It may not load eBPF programs, cannot listen, or does not understand its policy.
pub fn run(config: &ServeConfig) -> anyhow::Result<ExitCode> {
    ensure!(is_proc_own(), "{PROC_OF_ANOTHER}; {MOUNT_PROC}");
    capabilities().context("cannot serve the kernel's events")?;
    let policy = tracer_agent::Policy::read(&config.policy)?;
    let listening = tracer_agent::listen_as_service(&config.socket)?;
    let idle = config.idle.filter(|_| listening.is_passed());
    tracer_agent::serve(listening, policy, idle).context("cannot serve")?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, clap::Parser)]
    struct Line {
        #[command(flatten)]
        serve: ServeArgs,
    }

    fn config(typed: &[&str]) -> anyhow::Result<ServeConfig> {
        let words = std::iter::once(&"any").chain(typed);
        let line: Line = clap::Parser::try_parse_from(words)?;
        line.serve.try_into()
    }

    #[test]
    fn it_listens_where_programs_look_and_ends_after_a_minute() {
        let usual = config(&[]).unwrap();
        assert_eq!(usual.socket, PathBuf::from("/run/tracer-user.sock"));
        assert_eq!(usual.idle, Some(Duration::from_secs(60)));
        assert_eq!(config(&["--idle", "0"]).unwrap().idle, None);
        for refused in [&["--socket", "here"][..], &["--idle", "soon"], &["x"]] {
            assert!(config(refused).is_err(), "{refused:?}");
        }
    }
}
