//! Tracing processes that run already.

use std::io;

use anyhow::{Context, bail, ensure};
use tokio::sync::mpsc::unbounded_channel;
use tracer_posix::area::FindError;

use tracer_posix::area::monotonic_now;

use super::areas::AreaError;
use super::ending::{end, runtime};
use super::follow::{Follow, ring_of};
use super::pidfd::PidFd;
use super::wake::{watch_process, watch_signals};
use super::{Outcome, Setup, proc_fs};

/// Traces the processes until they end, or until the setup or the user says so.
///
/// # Errors
///
/// A process cannot be traced, or the lines cannot be written.
pub fn attach(pids: &[i32], setup: &Setup) -> anyhow::Result<Outcome> {
    let processes: Vec<(i32, PidFd)> = pids
        .iter()
        .map(|pid| Ok((*pid, open(*pid)?)))
        .collect::<anyhow::Result<_>>()?;
    runtime()?.block_on(attach_to(processes, setup))
}

async fn attach_to(processes: Vec<(i32, PidFd)>, setup: &Setup) -> anyhow::Result<Outcome> {
    let (wakes, woken) = unbounded_channel();
    let mut begun = setup.begin()?;
    let writer = setup.writer()?;
    watch_signals(&wakes).context("cannot watch for signals")?;
    for (pid, process) in processes {
        if let Some(kernel) = &mut begun.kernel {
            kernel
                .trace(pid, setup.inherit)
                .with_context(|| format!("cannot trace process {pid}"))?;
        }
        let has_area = begun.tracer.ask_for(pid, monotonic_now());
        ensure!(
            !process.has_ended(),
            "process {pid} ended while it was being attached to"
        );
        if !has_area.map_err(|error| with_remedy(error, setup))? {
            super::ending::tell(&format!(
                "process {pid} has no trace area (not linked with libposixtrace): \
                 no user events until it loads it"
            ));
        }
        watch_process(&wakes, pid, process)
            .with_context(|| format!("cannot wait for the end of process {pid}"))?;
    }
    let follow = Follow {
        tracer: begun.tracer,
        writer,
        wakes: woken,
        ring: ring_of(begun.kernel.as_ref()).context("cannot wait for kernel events")?,
        command: None,
        start: begun.start,
        until: begun.until,
    };
    Ok(end(follow, setup).await?.outcome)
}

/// Opens a process, or says why it is none that can be attached to.
fn open(pid: i32) -> anyhow::Result<PidFd> {
    let own = i32::try_from(std::process::id()).unwrap_or(0);
    ensure!(
        pid != own,
        "process {pid} is tracer-user itself, and cannot be attached to"
    );
    let no_such = || format!("no process has pid {pid} (`ps -e` lists those that there are)");
    match proc_fs::process_of(pid) {
        Ok(Some(process)) if process != pid => {
            bail!("{pid} is a thread of process {process}; attach to {process}")
        }
        Ok(_) => {}
        Err(error) => tracing::debug!(pid, %error, "status unreadable"),
    }
    match PidFd::open(pid) {
        Ok(process) if process.has_ended() => {
            bail!("process {pid} has ended already; its parent has not taken notice yet")
        }
        Ok(process) => Ok(process),
        Err(error) if error.raw_os_error() == Some(libc::ESRCH) => bail!(no_such()),
        Err(error) => Err(open_error(pid, error)),
    }
}

fn open_error(pid: i32, error: io::Error) -> anyhow::Error {
    match error.raw_os_error() {
        Some(libc::ENOSYS) => anyhow::Error::new(error).context("needs Linux 5.3 or later"),
        Some(libc::EINVAL | libc::ENOENT) => anyhow::anyhow!("{pid} is a thread, and no process"),
        _ => anyhow::Error::new(error).context(format!("cannot open process {pid}")),
    }
}

fn with_remedy(error: AreaError, setup: &Setup) -> anyhow::Error {
    let is_forbidden = matches!(&error, AreaError::Find(FindError::NotPermitted { .. }));
    let error = anyhow::Error::new(error);
    if !is_forbidden {
        return error.context("cannot trace user events");
    }
    error.context(if setup.system {
        "cannot trace user events: another user's process needs CAP_SYS_PTRACE (run with sudo), \
         and with --no-user only the kernel's events are traced"
    } else {
        "cannot trace user events: another user's process needs CAP_SYS_PTRACE (run with sudo)"
    })
}
