//! Waiting for keys and shots.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::Builder;
use std::time::Duration;

use anyhow::{Context, bail};
use ratatui::crossterm::event::{self, Event};

use super::model::Window;
use super::screen::{Screen, Todo};
use super::source::{Link, Play, PlayedLog, ShotRequest, TopSetup, play};
use super::terminal::{Keys, SignalRequests, TerminalSession, ensure_terminal, wait_for_keys};
use super::view::ScreenLook;
use tracer_answers::queries::SpanSpec;
use tracer_output::terminal::Outcome;
use tracer_output::terminal::output::ColorChoice;

/// Longest time until a shot, or a signal, is noticed.
const TICK: Duration = Duration::from_millis(50);

/// Shows a trace. `trace` follows it to its end.
///
/// # Errors
///
/// There is no terminal, or the error is that of `trace`.
pub fn show_live<T>(
    spans: Vec<SpanSpec>,
    window: Window,
    stays: bool,
    trace: impl FnOnce(TopSetup) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    ensure_terminal()?;
    let mut screen = Screen::new(look(), window, None);
    let link = Arc::new(Link::new(screen.wish()));
    let has_ended = Arc::new(AtomicBool::new(false));
    let shown = {
        let (link, has_ended) = (Arc::clone(&link), Arc::clone(&has_ended));
        let show = move || {
            // Until it is known that it can be traced, the terminal is left alone.
            while link.shots() == 0 {
                if link.is_over() || has_ended.load(Ordering::Acquire) {
                    return Ok(());
                }
                std::thread::sleep(TICK);
            }
            let shown = show(&link, &mut screen, || {
                has_ended.load(Ordering::Acquire) && !stays
            });
            link.end();
            // The trace ends as by a signal: that is what it waits for anyway.
            if !has_ended.load(Ordering::Acquire) {
                let _ = signal_hook::low_level::raise(libc::SIGTERM);
            }
            shown
        };
        let thread = Builder::new().name("screen".to_owned()).spawn(show);
        thread.context("cannot start the thread that draws")?
    };
    let traced = trace(TopSetup {
        spans,
        window,
        link: Some(Arc::clone(&link)),
    });
    has_ended.store(true, Ordering::Release);
    if traced.is_err() {
        link.end();
    }
    // The thread that reads keys may not notice that the terminal is gone.
    while !shown.is_finished() {
        if wait_for_keys(Duration::ZERO) == Keys::Gone {
            std::thread::sleep(TICK * 10);
            if !shown.is_finished() {
                return traced;
            }
        }
        std::thread::sleep(TICK / 5);
    }
    let shown = shown.join();
    let traced = traced?;
    let Ok(shown) = shown else {
        bail!("the thread that draws has panicked, which is a fault of tracer-user");
    };
    shown?;
    Ok(traced)
}

/// Plays a log.
///
/// # Errors
///
/// There is no terminal, or the log cannot be read.
pub fn show_log(recording: PlayedLog, window: Window) -> anyhow::Result<Outcome> {
    ensure_terminal()?;
    let play_first = Play {
        is_paused: recording.at > 0,
        ..Play::default()
    };
    let mut screen = Screen::new(look(), window, Some(play_first));
    let link = Arc::new(Link::new(screen.wish()));
    let played = {
        let link = Arc::clone(&link);
        let played = move || play(&recording, &link);
        let thread = Builder::new().name("player".to_owned()).spawn(played);
        thread.context("cannot start the thread that reads")?
    };
    let shown = show(&link, &mut screen, || played.is_finished());
    link.end();
    let played = played.join();
    shown?;
    let Ok(played) = played else {
        bail!("the thread that reads has panicked, which is a fault of tracer-user");
    };
    played?;
    Ok(Outcome::Complete)
}

fn look() -> ScreenLook {
    ScreenLook::for_terminal(ColorChoice::Auto.is_coloured(&std::io::stdout()))
}

/// Shows the shots that come until the user or `has_ended` ends it.
fn show(link: &Link, screen: &mut Screen, has_ended: impl Fn() -> bool) -> anyhow::Result<()> {
    let signals = SignalRequests::watch()?;
    let mut taken = TerminalSession::take()?;
    let (mut seen, mut is_due) = (0, true);
    loop {
        if signals.ask_to_end() || link.is_over() || has_ended() {
            return Ok(());
        }
        if signals.ask_to_stop() {
            taken.suspend()?;
            is_due = true;
        }
        if signals.have_continued() {
            taken.renew()?;
            is_due = true;
        }
        if link.shots() != seen {
            let shot;
            (seen, shot) = link.newest();
            screen.show(shot);
            is_due = true;
        }
        if is_due {
            taken.draw(screen)?;
            is_due = false;
        }
        // The terminal is waited for here: of one that is gone, what reads keys never comes back.
        if wait_for_keys(TICK) == Keys::Gone {
            return Ok(());
        }
        // Keys that are waiting are answered together.
        while event::poll(Duration::ZERO).context("cannot read keys")? {
            is_due = true;
            match event::read().context("cannot read keys")? {
                Event::Key(key) => match screen.key(key) {
                    Todo::Nothing => {}
                    Todo::Quit => return Ok(()),
                    Todo::Suspend => taken.suspend()?,
                    Todo::Redraw => taken.renew()?,
                },
                Event::Mouse(mouse) => screen.mouse(mouse),
                Event::Resize(..) => taken.begin_anew()?,
                Event::FocusGained | Event::FocusLost | Event::Paste(_) => {}
            }
        }
        let wish: ShotRequest = screen.wish();
        link.wish(&wish);
    }
}
