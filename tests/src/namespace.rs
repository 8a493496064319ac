//! Pid namespaces that tests make, and programs in them that say by what numbers they know themselves.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context as _;

use crate::dist;
use crate::event::Event;

/// A shell in a pid namespace of its own, `depth` levels below this one, with its own `/proc`. It runs
/// `script` with `arguments` from `$0` on; all of it ends with the shell.
#[must_use]
pub fn shell(depth: usize, script: &str, arguments: &[&Path]) -> Command {
    let mut words = Vec::new();
    for _ in 0..depth {
        words.extend(["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]);
    }
    words.extend(["sh", "-c", script]);
    let mut command = Command::new(words.remove(0));
    command.args(words).args(arguments);
    command
}

/// The program `numbered`, and what it says.
pub struct Numbered {
    /// The program.
    pub program: PathBuf,
    /// The file to which it says its numbers.
    pub said: PathBuf,
}

/// Process and thread.
pub type Numbers = (i32, i32);

impl Numbered {
    /// Compiles it into `folder`.
    ///
    /// # Errors
    ///
    /// What the compiler said.
    pub fn compile(folder: &Path) -> anyhow::Result<Self> {
        Ok(Self {
            program: dist::compile("numbered", folder)?,
            said: folder.join("said"),
        })
    }

    /// Lets it begin.
    ///
    /// # Errors
    ///
    /// The file cannot be made.
    pub fn go(&self) -> anyhow::Result<()> {
        let mut go = self.said.clone().into_os_string();
        go.push(".go");
        File::create(go)?;
        Ok(())
    }

    /// By what numbers who says which word knows itself.
    ///
    /// # Errors
    ///
    /// It has not said that.
    pub fn numbers(&self) -> anyhow::Result<BTreeMap<String, Numbers>> {
        let said = fs::read_to_string(&self.said).context("it said nothing")?;
        said.lines()
            .map(|line| {
                let mut words = line.split(' ');
                let mut next = || words.next().context("a word is missing");
                Ok((next()?.to_owned(), (next()?.parse()?, next()?.parse()?)))
            })
            .collect()
    }
}

/// What events say that is not what the program says of itself: none, when all is true.
#[must_use]
pub fn contradictions(events: &[Event], said: &BTreeMap<String, Numbers>) -> Vec<String> {
    let mut wrong = Vec::new();
    let of = |word: &str| said.get(word).copied().unwrap_or((-1, -1));
    let (main, thread, child, again) = (of("main"), of("thread"), of("child"), of("again"));
    let mut check = |what: &str, is_true: &dyn Fn(&Event) -> bool| {
        if !events.iter().any(is_true) {
            wrong.push(format!("no event tells: {what}"));
        }
    };
    let is = |event: &Event, name: &str, numbers: Numbers| {
        event.is_system(name) && (event.pid, event.tid) == numbers
    };
    let tells = |event: &Event, name: &str, number: i32| event.number(name) == Some(number.into());
    for (word, numbers) in said {
        check(&format!("{word} emits as {numbers:?}"), &|e| {
            e.is_user("here") && e.text() == Some(word) && (e.pid, e.tid) == *numbers
        });
        check(&format!("{word} gets a CPU"), &|e| {
            is(e, "switch_in", *numbers)
        });
        check(&format!("{word} leaves a CPU"), &|e| {
            is(e, "switch_out", *numbers)
        });
    }
    check("the thread is made", &|e| {
        is(e, "thread_create", main)
            && tells(e, "child_pid", thread.0)
            && tells(e, "child_tid", thread.1)
    });
    check("the child is made", &|e| {
        is(e, "fork", main) && tells(e, "child_pid", child.0) && tells(e, "child_tid", child.1)
    });
    check("the child sends a signal", &|e| {
        is(e, "signal_generate", child)
            && tells(e, "target_pid", main.0)
            && tells(e, "target_tid", main.1)
            && tells(e, "sender_pid", child.0)
            && tells(e, "sender_tid", child.1)
    });
    check("the signal is taken", &|e| is(e, "signal_deliver", main));
    check("another program is run", &|e| {
        is(e, "exec", again) && tells(e, "old_tid", again.1)
    });
    check("the child ends", &|e| {
        is(e, "exit", child) && tells(e, "status", 7)
    });
    check("the program ends", &|e| {
        is(e, "exit", again) && tells(e, "status", 9)
    });
    check("the thread ends", &|e| is(e, "thread_exit", thread));
    check("main is woken by its own", &|e| {
        let wakers = [child, again, thread];
        is(e, "wakeup", main)
            && wakers
                .iter()
                .any(|one| tells(e, "waker_pid", one.0) && tells(e, "waker_tid", one.1))
    });
    let known: Vec<i32> = said.values().map(|(pid, _)| *pid).collect();
    // A stream that is full on a busy machine says so itself: that is nobody's.
    let is_strange =
        |event: &&Event| !known.contains(&event.pid) && !event.event_type.contains("overflow");
    let strange = events.iter().find(is_strange);
    wrong.extend(strange.map(|event| format!("a stranger's: {}", event.line)));
    wrong
}

/// Numbers in the data of events that are no number up to `last`: in a namespace that has given no
/// others.
#[must_use]
pub fn beyond(events: &[Event], last: i32) -> Vec<String> {
    const FIELDS: [&str; 12] = [
        "child_pid",
        "child_tid",
        "next_pid",
        "next_tid",
        "prev_pid",
        "prev_tid",
        "waker_pid",
        "waker_tid",
        "sender_pid",
        "sender_tid",
        "target_pid",
        "target_tid",
    ];
    let is_beyond = |event: &&Event| {
        let numbers = FIELDS.iter().filter_map(|name| event.number(name));
        numbers.max().is_some_and(|most| most > last.into())
    };
    events
        .iter()
        .filter(is_beyond)
        .map(|event| event.line.clone())
        .collect()
}
