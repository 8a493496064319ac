//! Shots of a log that is played.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tracer_engine::EventTypes;
use tracer_engine::event::MonotonicNs;

use super::link::{Link, Play, Publisher};
use crate::model::{Model, ShownLosses};
use tracer_answers::queries::{SpanSpec, follow_while};
use tracer_event::consumer::Consumer;
use tracer_event::event_view::EventView;
use tracer_event::gap::Gap;
use tracer_log_view::{Walk, WantedEvents, open};

/// Longest wait until it looks whether anything has changed.
const LONGEST_WAIT: Duration = Duration::from_millis(50);

/// Range of useful speeds, as powers of two.
pub const SPEEDS: (i32, i32) = (-10, 10);

/// Log to be played.
#[derive(Clone, Debug)]
pub struct PlayedLog {
    /// Path of the log.
    pub file: PathBuf,
    /// Choice of its events.
    pub wanted: WantedEvents,
    /// Spans to look at.
    pub spans: Vec<SpanSpec>,
    /// Time of the first shot, since the start of the log.
    pub at: u64,
}

/// Plays the log until no screen looks any more.
///
/// # Errors
///
/// The log cannot be read.
pub fn play(recording: &PlayedLog, link: &Arc<Link>) -> anyhow::Result<()> {
    let mut clock = Clock::new(recording.at, link.wished().1.play);
    while !link.is_over() {
        clock = pass(recording, link, clock)?;
    }
    Ok(())
}

/// Goes through the log, until time goes backwards or no screen looks any more.
fn pass(recording: &PlayedLog, link: &Arc<Link>, clock: Clock) -> anyhow::Result<Clock> {
    let file: &Path = &recording.file;
    let mut walk = Walk::new(open(file)?, recording.wanted.settled_in(file)?);
    let start = walk.anchor().monotonic;
    let mut player = Player {
        model: Model::new(recording.spans.clone()).starting_at(start),
        publisher: Publisher::new(Arc::clone(link)),
        link: Arc::clone(link),
        clock,
        start,
        events: 0,
        lost: Rc::default(),
        is_over: false,
    };
    // What is lost by then is known as soon as the next thousand events are taken.
    let lost = Rc::clone(&player.lost);
    follow_while(&mut walk, &mut player, |walk| {
        lost.set(ShownLosses {
            lost: walk.lost().saturating_sub(walk.not_reported()),
            not_reported: walk.not_reported(),
        });
        Ok(())
    })?;
    if player.is_over {
        return Ok(player.clock);
    }
    let summary = walk.summary();
    player.model.count_losses(ShownLosses {
        lost: summary.lost_in_trace(),
        not_reported: summary.not_reported(),
    });
    player.stay_at_end();
    Ok(player.clock)
}

/// Clock of the log, which runs as the screen wishes.
#[derive(Clone, Copy, Debug)]
struct Clock {
    play: Play,
    /// Time in the log at the moment `since`, in nanoseconds since its start.
    at: u64,
    /// Time by the clock of this machine.
    since: Instant,
}

impl Clock {
    fn new(at: u64, play: Play) -> Self {
        Self {
            play,
            at,
            since: Instant::now(),
        }
    }

    /// Returns the current time in the log.
    fn now(&self) -> u64 {
        if self.play.is_paused {
            return self.at;
        }
        let ns = u64::try_from(self.since.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let ns = match u32::try_from(self.play.speed) {
            Ok(faster) => ns.saturating_mul(1 << faster.min(32)),
            Err(_) => ns >> self.play.speed.unsigned_abs().min(63),
        };
        self.at.saturating_add(ns)
    }

    /// Returns the real time until the clock of the log reaches `at`.
    fn until(&self, at: u64) -> Duration {
        if self.play.is_paused {
            return LONGEST_WAIT;
        }
        let ns = at.saturating_sub(self.now());
        let ns = match u32::try_from(self.play.speed) {
            Ok(faster) => ns >> faster.min(63),
            Err(_) => ns.saturating_mul(1 << self.play.speed.unsigned_abs().min(32)),
        };
        Duration::from_nanos(ns).min(LONGEST_WAIT)
    }

    /// Follows the wish of the screen.
    fn obey(&mut self, play: Play) {
        let moved = play.moved.wrapping_sub(self.play.moved);
        let at = if play.ends != self.play.ends {
            u64::MAX
        } else if play.starts != self.play.starts {
            0
        } else {
            self.now().saturating_add_signed(moved)
        };
        *self = Self::new(at, play);
    }
}

/// Consumer that takes each event when its time has come.
struct Player {
    model: Model,
    publisher: Publisher,
    link: Arc<Link>,
    clock: Clock,
    start: MonotonicNs,
    events: u32,
    /// Events lost so far.
    lost: Rc<Cell<ShownLosses>>,
    /// Whether time goes backwards, or no screen looks any more.
    is_over: bool,
}

impl Player {
    /// Follows the newest wish. Tells whether this pass is over: a part already shown has to be
    /// shown again, or no screen looks any more.
    fn obey(&mut self) -> bool {
        let (_, wish) = self.link.wished();
        if wish.play != self.clock.play {
            self.clock.obey(wish.play);
        }
        let shown = self.model.now().0.saturating_sub(self.start.0);
        if self.link.is_over() || self.clock.now() < shown {
            self.is_over = true;
        }
        self.is_over
    }

    /// Waits until the time of an event has come.
    fn wait_for(&mut self, at: MonotonicNs) {
        let at = at.0.saturating_sub(self.start.0);
        loop {
            let wishes = self.link.wishes();
            if self.obey() {
                return;
            }
            let now = self.clock.now();
            if at <= now {
                return;
            }
            self.model
                .advance(MonotonicNs(self.start.0.saturating_add(now)));
            self.publisher.publish_if_due(&mut self.model);
            self.link.wait(wishes, self.clock.until(at));
        }
    }

    /// Shows the last moment until time goes backwards.
    fn stay_at_end(&mut self) {
        self.model.end();
        let end = self.model.now().0.saturating_sub(self.start.0);
        self.publisher.publish(&mut self.model, Instant::now());
        loop {
            let wishes = self.link.wishes();
            // It goes no further.
            let at = self.clock.now().min(end);
            self.clock = Clock::new(at, self.clock.play);
            if self.obey() {
                return;
            }
            self.publisher.publish_if_due(&mut self.model);
            self.link.wait(wishes, LONGEST_WAIT);
        }
    }
}

impl Consumer for Player {
    fn is_done(&self) -> bool {
        self.is_over
    }

    fn idle(&mut self, now: MonotonicNs) {
        self.wait_for(now);
        if !self.is_over {
            self.model.idle(now);
        }
    }

    fn learn_types(&mut self, types: &EventTypes) {
        self.model.learn_types(types);
    }

    fn gap(&mut self, gap: &Gap) {
        if !self.is_over {
            self.model.gap(gap);
        }
    }

    fn event(&mut self, view: &EventView<'_>) -> anyhow::Result<()> {
        if self.is_over {
            return Ok(());
        }
        let is_due = view.at().0.saturating_sub(self.start.0) <= self.clock.now();
        self.events += 1;
        // A clock that has nothing to wait for is asked now and then.
        if !is_due || self.events >= 256 {
            self.events = 0;
            self.wait_for(view.at());
            if self.is_over {
                return Ok(());
            }
            self.model.count_losses(self.lost.get());
            self.publisher.publish_if_due(&mut self.model);
        }
        self.model.event(view)
    }
}
