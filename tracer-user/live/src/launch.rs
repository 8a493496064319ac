//! Tracing a command from its first instruction.

use std::collections::HashSet;
use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::process::ExitStatus;

use anyhow::Context;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tracer_area::Area;

use super::access::KernelAccess;
use super::command::Waiting;
use super::ending::{end, runtime};
use super::follow::{Follow, TracedCommand, ring_of};
use super::pidfd::PidFd;
use super::wake::{Wake, watch_flushes, watch_signals};
use super::{Setup, descriptors, proc_fs};
use tracer_agent::RoundRequest;
use tracer_binary::probes::Subject;
use tracer_kernel::ProcessChoice;
use tracer_output::terminal::Outcome;

/// Reason why a command was not started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// `ENOENT`.
    #[error("no command is called {command:?}")]
    NotFound {
        /// Command that was asked for.
        command: OsString,
    },
    /// The program cannot be executed.
    #[error("cannot start {command:?}")]
    NotExecutable {
        /// Command that was asked for.
        command: OsString,
        /// Error from the kernel.
        source: io::Error,
    },
}

/// Starts a command and traces it, and with inheritance its children, until all have ended.
///
/// The status is that of the command; `None` where it runs on.
///
/// # Errors
///
/// [`StartError`] when the command cannot be started; or it cannot be traced, or the lines cannot
/// be written.
pub fn launch(
    command: &[OsString],
    setup: &Setup,
) -> anyhow::Result<(Outcome, Option<ExitStatus>)> {
    proc_fs::ensure_own()?;
    proc_fs::ensure_children_here()?;
    descriptors::raise_limit();
    runtime()?.block_on(start_and_follow(command, setup))
}

async fn start_and_follow(
    words: &[OsString],
    setup: &Setup,
) -> anyhow::Result<(Outcome, Option<ExitStatus>)> {
    let (wakes, mut woken) = unbounded_channel();
    let command = words.first().map(OsString::as_os_str);
    let subject = Subject::Command(command.unwrap_or_default());
    let mut begun = setup.begin(ProcessChoice::Given, subject)?;
    let (area, inherited) = if setup.recording.selection.has_user() {
        let area = Area::for_command().context("cannot make a trace area")?;
        let inherited = area.to_be_inherited()?;
        (Some(area), Some(inherited))
    } else {
        (None, None)
    };
    let agent = begun
        .kernel
        .as_ref()
        // Programs find the service by themselves.
        .is_some_and(KernelAccess::is_own)
        .then(tracer_agent::listen)
        .transpose();
    let agent = agent.context("cannot make a socket for programs that ask for kernel events")?;
    let address = agent.as_ref();
    let address = address.map(|agent| agent.address().as_os_str().to_owned());
    // Before signals are watched: until then they do to the command what they do to any.
    let waiting = Waiting::start(words, inherited, address, wakes.clone())
        .context("cannot make a process")?;
    let Some(pid) = waiting.pid() else {
        return Err(not_started(words, &mut woken).await);
    };
    let process = PidFd::open(pid).with_context(|| format!("cannot open process {pid}"))?;
    watch_signals(&wakes).context("cannot watch for signals")?;
    if setup.log.is_some() {
        watch_flushes(&wakes).context("cannot watch for signals")?;
    }
    if let Some(kernel) = &mut begun.kernel {
        kernel
            .trace_command(pid, setup.followed.children)
            .with_context(|| format!("cannot trace process {pid}"))?;
    }
    begun.hub.add_process(pid);
    // Its name is there as long as the trace.
    let newest = wakes.clone();
    let asked = RoundRequest::new(move || newest.send(Wake::AgentAsked).is_ok());
    let _served = agent.map(|agent| agent.serve(begun.hub.clone(), asked));
    let last_name = waiting.last_name();
    begun
        .tracer
        .add_command(pid, begun.kernel.is_some(), last_name);
    if let Some(area) = area {
        begun
            .tracer
            .open_area(area, pid)
            .context("cannot trace user events")?;
    }
    // When it has ended while it waited, its end is reported as any other.
    let _ = waiting.release();
    let follow = Follow {
        until: begun.until(),
        tracer: begun.tracer,
        writer: begun.writer,
        wakes: woken,
        wake: wakes,
        ring: ring_of(begun.kernel.as_ref()).context("cannot wait for kernel events")?,
        kernel: begun.kernel,
        command: Some(TracedCommand {
            pid,
            process,
            status: None,
            was_signalled: false,
        }),
        awaited: HashSet::new(),
        start: begun.start,
        is_open: false,
        newcomers: None,
        flush: None,
    };
    let ended = end(follow, setup).await?;
    if let Some(error) = ended.not_started {
        return Err(start_error(words, error));
    }
    if ended.status.is_none() {
        tracer_text::say(&format!("the command, process {pid}, runs on"));
    }
    Ok((ended.outcome, ended.status))
}

async fn not_started(words: &[OsString], woken: &mut UnboundedReceiver<Wake>) -> anyhow::Error {
    while let Some(wake) = woken.recv().await {
        if let Wake::NotStarted(error) = wake {
            return start_error(words, error);
        }
    }
    anyhow::anyhow!("the command was not started")
}

fn start_error(words: &[OsString], error: io::Error) -> anyhow::Error {
    let command = words.first().cloned().unwrap_or_default();
    let is_folder = Path::new(&command).is_dir();
    anyhow::Error::new(if error.kind() == io::ErrorKind::NotFound {
        StartError::NotFound { command }
    } else if is_folder {
        // The kernel says that the right is missing.
        StartError::NotExecutable {
            command,
            source: io::ErrorKind::IsADirectory.into(),
        }
    } else {
        StartError::NotExecutable {
            command,
            source: error,
        }
    })
}
