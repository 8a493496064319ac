//! Questions to the kernel about processes, none of which waits for long.
//!
//! A process may keep the kernel from answering: it runs another program, or waits for a page, and
//! that waits for a file that a program serves (FUSE). This one may hang so itself, of whatever
//! user it is, and that is what is to be seen here. So another thread asks, and where an answer
//! does not come in time, nothing more is asked about that process.

use std::collections::HashSet;
use std::sync::mpsc::{self, Sender};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use tracer_binary::bounded_proc::HeldProcess;

/// Time for an answer. On a busy machine each of them takes a while.
const TIME: Duration = Duration::from_millis(500);

/// Time for an answer where some processes have not answered.
const SHORT_TIME: Duration = Duration::from_millis(50);

/// Processes that may take the longer time.
const MOST_PATIENT: usize = 2;

/// Processes that do not answer: each has a thread.
const MOST_HELD: usize = 32;

type Question = Box<dyn FnOnce() + Send>;

/// Thread that asks, and the processes that have not answered.
#[derive(Default)]
struct Asker {
    idle: Option<Sender<Question>>,
    held: HashSet<i32>,
}

static ASKER: LazyLock<Mutex<Asker>> = LazyLock::new(Mutex::default);

/// Returns the kernel's answer to a question about process `pid`.
///
/// # Errors
///
/// No answer comes in time, or none has come before.
pub fn ask<A: Send + 'static>(
    pid: i32,
    question: impl FnOnce() -> A + Send + 'static,
) -> Result<A, HeldProcess> {
    let mut asker = ASKER.lock().unwrap_or_else(PoisonError::into_inner);
    let held = HeldProcess { pid };
    if asker.held.contains(&pid) || asker.held.len() >= MOST_HELD {
        return Err(held);
    }
    if asker.idle.is_none() {
        asker.idle = start();
    }
    let (answer, answers) = mpsc::sync_channel(1);
    let question: Question = Box::new(move || drop(answer.send(question())));
    let sent = asker.idle.as_ref().map(|idle| idle.send(question));
    let time = if asker.held.len() < MOST_PATIENT {
        TIME
    } else {
        SHORT_TIME
    };
    let answer = match sent {
        Some(Ok(())) => answers.recv_timeout(time),
        _ => return Err(held),
    };
    answer.map_err(|_late| {
        // That thread ends when it is answered.
        asker.idle = None;
        asker.held.insert(pid);
        held
    })
}

fn start() -> Option<Sender<Question>> {
    let (sender, questions) = mpsc::channel::<Question>();
    let asker = thread::Builder::new().name("asker".to_owned());
    let started = asker.spawn(move || questions.into_iter().for_each(|question| question()));
    started.ok().map(|_| sender)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_does_not_answer_is_not_asked_again_and_others_are() {
        // Pids that no process has.
        let (held, other) = (i32::MAX, i32::MAX - 1);
        let (release, released) = mpsc::channel::<()>();
        let never = ask(held, move || released.recv().is_err());
        assert_eq!(never, Err(HeldProcess { pid: held }));
        assert_eq!(ask(held, || 1), Err(HeldProcess { pid: held }));
        assert_eq!(ask(other, || 2), Ok(2));
        drop(release);
    }
}
