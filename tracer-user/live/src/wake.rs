//! Wake-ups of the tracer besides events: signals and the ends of processes.

use std::io;
use std::process::ExitStatus;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc::UnboundedSender;
use tracer_output::terminal::is_ignored;

use super::pidfd::PidFd;

/// Something that happened outside of the stream.
#[derive(Debug)]
pub enum Wake {
    /// The trace is asked to end, by this signal.
    Signal(i32),
    /// A flush of the stream to the log is asked for, by SIGUSR1.
    Flush,
    /// A program wants the kernel's events up to now; a round brings them.
    AgentAsked,
    /// A process that was asked for has ended.
    ProcessEnded(i32),
    /// The command could not be started.
    NotStarted(io::Error),
    /// The command has ended and its status was taken.
    CommandEnded(ExitStatus),
}

/// Reports the signals that end a trace, from now on.
///
/// # Errors
///
/// A handler cannot be installed.
pub fn watch_signals(wakes: &UnboundedSender<Wake>) -> io::Result<()> {
    for signal_number in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        // `nohup` says that the end of the terminal is none of our business.
        if signal_number == libc::SIGHUP && is_ignored(signal_number) {
            continue;
        }
        let mut signals = signal(SignalKind::from_raw(signal_number))?;
        let wakes = wakes.clone();
        tokio::spawn(async move {
            while signals.recv().await.is_some() {
                if wakes.send(Wake::Signal(signal_number)).is_err() {
                    return;
                }
            }
        });
    }
    Ok(())
}

/// Reports every SIGUSR1, from now on.
///
/// # Errors
///
/// A handler cannot be installed.
pub fn watch_flushes(wakes: &UnboundedSender<Wake>) -> io::Result<()> {
    let mut signals = signal(SignalKind::user_defined1())?;
    let wakes = wakes.clone();
    tokio::spawn(async move {
        while signals.recv().await.is_some() {
            if wakes.send(Wake::Flush).is_err() {
                return;
            }
        }
    });
    Ok(())
}

/// Reports the end of process `pid`.
///
/// # Errors
///
/// The descriptor cannot be waited for.
pub fn watch_process(wakes: &UnboundedSender<Wake>, pid: i32, process: PidFd) -> io::Result<()> {
    let process = process.into_waited_for()?;
    let wakes = wakes.clone();
    tokio::spawn(async move {
        if process.readable().await.is_ok() {
            // The receiver is gone when the trace has ended.
            let _ = wakes.send(Wake::ProcessEnded(pid));
        }
    });
    Ok(())
}
