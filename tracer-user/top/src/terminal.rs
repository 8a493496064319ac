//! Terminal, taken and given back.

use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Read, Seek, Stdout, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::panic;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError};
use std::time::Duration;

use anyhow::{Context, ensure};
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::{Hide, Show};
use ratatui::crossterm::event::{DisableMouseCapture, EnableMouseCapture};
use ratatui::crossterm::terminal::{
    BeginSynchronizedUpdate, Clear, ClearType, EndSynchronizedUpdate, EnterAlternateScreen,
    LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use ratatui::crossterm::{execute, queue};
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGTERM, SIGTSTP};
use signal_hook::flag;

use super::screen::Screen;

/// Whether this process has taken the terminal. A panic gives it back, in any thread.
static IS_TAKEN: AtomicBool = AtomicBool::new(false);

/// Messages to the standard error while this process has the terminal.
static MESSAGES: Mutex<Option<Messages>> = Mutex::new(None);

/// Bytes written to the terminal at once.
const BUFFER: usize = 64 << 10;

/// Terminal, as long as this process has it.
pub struct TerminalSession {
    terminal: Terminal<CrosstermBackend<BufWriter<Stdout>>>,
}

/// Ensures that there is a terminal.
///
/// # Errors
///
/// There is none.
pub fn ensure_terminal() -> anyhow::Result<()> {
    ensure!(
        io::stdout().is_terminal(),
        "top needs a terminal, and the standard output is none; --once prints one screen as text"
    );
    Ok(())
}

/// Outcome of waiting for keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keys {
    /// Keys may be there.
    Waiting,
    /// No keys are there.
    None,
    /// No keys will ever come: the terminal is gone.
    Gone,
}

/// Waits for at most `longest`, or until there are keys or a signal comes.
pub fn wait_for_keys(longest: Duration) -> Keys {
    let of = |fd, events| libc::pollfd {
        fd,
        events,
        revents: 0,
    };
    // Where the input is no terminal, keys come from the one that the process has: they wait until
    // the time is over.
    let is_input = io::stdin().is_terminal();
    let input = if is_input { libc::STDIN_FILENO } else { -1 };
    let mut polled = [of(input, libc::POLLIN), of(libc::STDOUT_FILENO, 0)];
    let milliseconds = libc::c_int::try_from(longest.as_millis()).unwrap_or(libc::c_int::MAX);
    // SAFETY: the pointer is to so many structures.
    let ready = unsafe { libc::poll(polled.as_mut_ptr(), 2, milliseconds) };
    let [input, output] = polled;
    let gone = libc::POLLHUP | libc::POLLERR | libc::POLLNVAL;
    if ready > 0 && (input.revents | output.revents) & gone != 0 {
        Keys::Gone
    } else if input.revents & libc::POLLIN != 0 || !is_input {
        Keys::Waiting
    } else {
        Keys::None
    }
}

impl TerminalSession {
    /// Takes the terminal.
    ///
    /// # Errors
    ///
    /// It cannot be set.
    pub fn take() -> anyhow::Result<Self> {
        give_back_on_panic();
        let mut taken = Self { terminal: blank()? };
        taken.enter()?;
        Ok(taken)
    }

    fn enter(&mut self) -> anyhow::Result<()> {
        *held() = Messages::hold();
        IS_TAKEN.store(true, Ordering::Release);
        enable_raw_mode().context("cannot set the terminal")?;
        let mut output = io::stdout();
        execute!(output, EnterAlternateScreen, EnableMouseCapture, Hide)
            .context("cannot draw on the terminal")?;
        self.begin_anew()
    }

    /// Begins with an empty screen, of the current size. The terminal is not asked where its cursor
    /// is: some never answer.
    ///
    /// # Errors
    ///
    /// The terminal is gone.
    pub fn begin_anew(&mut self) -> anyhow::Result<()> {
        execute!(io::stdout(), Clear(ClearType::All)).context("cannot draw on the terminal")?;
        self.terminal = blank()?;
        Ok(())
    }

    /// Draws the screen.
    ///
    /// # Errors
    ///
    /// The terminal is gone.
    pub fn draw(&mut self, screen: &mut Screen) -> anyhow::Result<()> {
        // Terminals that can do so show all of it at once.
        let backend = self.terminal.backend_mut();
        let begun = queue!(backend, BeginSynchronizedUpdate);
        let drawn = self.terminal.draw(|frame| screen.draw(frame.buffer_mut()));
        let drawn = begun.and(drawn.map(|_| ()));
        let ended = execute!(self.terminal.backend_mut(), EndSynchronizedUpdate);
        drawn.and(ended).context("cannot draw on the terminal")
    }

    /// Draws everything anew, whatever other programs have drawn.
    ///
    /// # Errors
    ///
    /// The terminal is gone.
    pub fn renew(&mut self) -> anyhow::Result<()> {
        give_back();
        self.enter()
    }

    /// Gives the terminal back until this process is continued.
    ///
    /// # Errors
    ///
    /// The terminal is gone.
    pub fn suspend(&mut self) -> anyhow::Result<()> {
        give_back();
        signal_hook::low_level::raise(libc::SIGSTOP).context("cannot suspend")?;
        self.enter()
    }
}

fn blank() -> anyhow::Result<Terminal<CrosstermBackend<BufWriter<Stdout>>>> {
    let output = BufWriter::with_capacity(BUFFER, io::stdout());
    Terminal::new(CrosstermBackend::new(output)).context("cannot draw on the terminal")
}

impl Drop for TerminalSession {
    fn drop(&mut self) {
        give_back();
    }
}

fn give_back() {
    if !IS_TAKEN.swap(false, Ordering::AcqRel) {
        return;
    }
    let mut output = io::stdout();
    // Where the terminal is gone an error cannot be reported.
    let _ = execute!(output, Show, DisableMouseCapture, LeaveAlternateScreen);
    let _ = disable_raw_mode();
    // What was said meanwhile is read now; a thread that panics while these are taken reports it by
    // itself.
    let messages = MESSAGES.try_lock().ok().and_then(|mut held| held.take());
    drop(messages);
}

fn give_back_on_panic() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |what| {
            give_back();
            before(what);
        }));
    });
}

fn held() -> MutexGuard<'static, Option<Messages>> {
    MESSAGES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Messages to the standard error while this process has the terminal: the screen would be drawn
/// over them. They are printed when the terminal is given back.
struct Messages {
    stderr: OwnedFd,
    held: File,
}

impl Messages {
    /// Holds messages back, if they would be printed on the terminal.
    fn hold() -> Option<Self> {
        if !io::stderr().is_terminal() {
            return None;
        }
        let stderr = io::stderr();
        // SAFETY: it has no preconditions; the name ends with a null byte.
        let held = unsafe { libc::memfd_create(c"messages".as_ptr(), libc::MFD_CLOEXEC) };
        if held < 0 {
            return None;
        }
        // SAFETY: the descriptor is new, and no other value owns it.
        let held = unsafe { File::from_raw_fd(held) };
        // SAFETY: the descriptor is open.
        let saved = unsafe { libc::fcntl(stderr.as_raw_fd(), libc::F_DUPFD_CLOEXEC, 3) };
        if saved < 0 {
            return None;
        }
        // SAFETY: the descriptor is new, and no other value owns it.
        let saved = unsafe { OwnedFd::from_raw_fd(saved) };
        // SAFETY: both are open; who writes to the standard error goes on with the new one.
        let replaced = unsafe { libc::dup2(held.as_raw_fd(), stderr.as_raw_fd()) };
        (replaced >= 0).then_some(Self {
            stderr: saved,
            held,
        })
    }
}

impl Drop for Messages {
    fn drop(&mut self) {
        let mut stderr = io::stderr();
        // SAFETY: both are open.
        let replaced = unsafe { libc::dup2(self.stderr.as_raw_fd(), stderr.as_raw_fd()) };
        let mut said = Vec::new();
        let read = self
            .held
            .rewind()
            .and_then(|()| self.held.read_to_end(&mut said));
        if replaced >= 0 && read.is_ok() {
            // Who has closed it wants no messages.
            let _ = stderr.write_all(&said);
        }
    }
}

/// Requests that came by signals.
pub struct SignalRequests {
    end: Arc<AtomicBool>,
    stop: Arc<AtomicBool>,
    resume: Arc<AtomicBool>,
}

impl SignalRequests {
    /// Installs the handlers of the signals.
    ///
    /// # Errors
    ///
    /// A handler cannot be installed.
    pub fn watch() -> anyhow::Result<Self> {
        let signals = Self {
            end: Arc::default(),
            stop: Arc::default(),
            resume: Arc::default(),
        };
        for (signal, asked) in [
            (SIGINT, &signals.end),
            (SIGTERM, &signals.end),
            (SIGHUP, &signals.end),
            (SIGTSTP, &signals.stop),
            (SIGCONT, &signals.resume),
        ] {
            flag::register(signal, Arc::clone(asked)).context("cannot watch for signals")?;
        }
        Ok(signals)
    }

    /// Tells whether this process is asked to end.
    pub fn ask_to_end(&self) -> bool {
        self.end.load(Ordering::Acquire)
    }

    /// Tells whether this process is asked to stop, once for each request.
    pub fn ask_to_stop(&self) -> bool {
        self.stop.swap(false, Ordering::AcqRel)
    }

    /// Tells whether this process was continued since the last call.
    pub fn have_continued(&self) -> bool {
        self.resume.swap(false, Ordering::AcqRel)
    }
}

#[cfg(test)]
mod tests;
