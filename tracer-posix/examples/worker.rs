//! `worker.c` in Rust: workers that hand a lock over, and now and then a child that runs another
//! program. Each step is a user event.
//!
//! ```text
//! cargo run --release -p tracer-posix --example worker [SECONDS [MILLISECONDS THE LOCK IS HELD]]
//! ```

use std::error::Error;
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use tracer_posix::emit::UserEvent;

const WORKERS: usize = 3;

/// Events of the program in its trace.
#[derive(Clone, Copy)]
struct Events {
    lock_wanted: UserEvent,
    lock_held: UserEvent,
    lock_released: UserEvent,
    child_wanted: UserEvent,
    child_ended: UserEvent,
}

/// The number of the last worker that held it.
static LOCK: Mutex<usize> = Mutex::new(0);

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut value_or = |default: u64| match arguments.next() {
        Some(argument) => argument.parse::<u64>(),
        None => Ok(default),
    };
    let seconds = value_or(10)?;
    let hold = Duration::from_millis(value_or(2)?);
    let events = Events {
        lock_wanted: UserEvent::open("lock wanted")?,
        lock_held: UserEvent::open("lock held")?,
        lock_released: UserEvent::open("lock released")?,
        child_wanted: UserEvent::open("child wanted")?,
        child_ended: UserEvent::open("child ended")?,
    };

    for worker in 1..=WORKERS {
        thread::Builder::new()
            .name(format!("worker {worker}"))
            .spawn(move || work(events, worker, hold))?;
    }
    for child in 1..=seconds {
        let data = format!("child={child}");
        events.child_wanted.emit(data.as_bytes());
        Command::new("true").status()?;
        events.child_ended.emit(data.as_bytes());
        thread::sleep(Duration::from_secs(1));
    }
    Ok(())
}

fn work(events: Events, worker: usize, hold: Duration) {
    let me = format!("worker={worker}");
    loop {
        events.lock_wanted.emit(me.as_bytes());
        let mut last_holder = LOCK.lock().unwrap_or_else(PoisonError::into_inner);
        events
            .lock_held
            .emit(format!("from={last_holder}").as_bytes());
        *last_holder = worker;
        thread::sleep(hold); // sleeps while it holds the lock: what a trace should show
        drop(last_holder);
        events.lock_released.emit(me.as_bytes());
    }
}
