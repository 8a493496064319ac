//! Pid namespaces that tests make, and programs in them that write down their own pids and tids.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context as _;

use crate::dist;
use crate::event::Event;

/// A shell in a pid namespace of its own, `depth` levels below this one, with its own `/proc`. It
/// runs `script` with `arguments` from `$0` on; all of it ends with the shell.
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

/// The program `own_ids`, and what it says.
pub struct OwnIds {
    /// The program.
    pub program: PathBuf,
    /// The file to which it writes its pids and tids.
    pub said: PathBuf,
}

/// Process and thread.
pub type Ids = (i32, i32);

impl OwnIds {
    /// Compiles it into `folder`.
    ///
    /// # Errors
    ///
    /// The compiler fails; the error has its complaint.
    pub fn compile(folder: &Path) -> anyhow::Result<Self> {
        Ok(Self {
            program: dist::compile("own_ids", folder)?,
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

    /// Pid and tid by word: those of the thread that says the word, as it sees them itself.
    ///
    /// # Errors
    ///
    /// It has not said that.
    pub fn ids(&self) -> anyhow::Result<BTreeMap<String, Ids>> {
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

/// Lists what events and the program say differently about the program: nothing, when all is true.
#[must_use]
pub fn contradictions(events: &[Event], said: &BTreeMap<String, Ids>) -> Vec<String> {
    let mut wrong = Vec::new();
    let of = |word: &str| said.get(word).copied().unwrap_or((-1, -1));
    let (main, thread, child, again) = (of("main"), of("thread"), of("child"), of("again"));
    let mut check = |what: &str, is_true: &dyn Fn(&Event) -> bool| {
        if !events.iter().any(is_true) {
            wrong.push(format!("no event shows: {what}"));
        }
    };
    let is = |event: &Event, name: &str, ids: Ids| {
        event.is_system(name) && (event.pid, event.tid) == ids
    };
    let has = |event: &Event, name: &str, value: i32| event.integer(name) == Some(value.into());
    for (word, ids) in said {
        check(&format!("{word} emits as {ids:?}"), &|e| {
            e.is_user("here") && e.text() == Some(word) && (e.pid, e.tid) == *ids
        });
        check(&format!("{word} gets a CPU"), &|e| is(e, "switch_in", *ids));
        check(&format!("{word} leaves a CPU"), &|e| {
            is(e, "switch_out", *ids)
        });
    }
    check("the thread is made", &|e| {
        is(e, "thread_create", main)
            && has(e, "child_pid", thread.0)
            && has(e, "child_tid", thread.1)
    });
    check("the child is made", &|e| {
        is(e, "fork", main) && has(e, "child_pid", child.0) && has(e, "child_tid", child.1)
    });
    check("the child sends a signal", &|e| {
        is(e, "signal_generate", child)
            && has(e, "target_pid", main.0)
            && has(e, "target_tid", main.1)
            && has(e, "sender_pid", child.0)
            && has(e, "sender_tid", child.1)
    });
    check("the signal is taken", &|e| is(e, "signal_deliver", main));
    check("another program is run", &|e| {
        is(e, "exec", again) && has(e, "old_tid", again.1)
    });
    check("the child ends", &|e| {
        is(e, "exit", child) && has(e, "status", 7)
    });
    check("the program ends", &|e| {
        is(e, "exit", again) && has(e, "status", 9)
    });
    check("the thread ends", &|e| is(e, "thread_exit", thread));
    check("main is woken by its own", &|e| {
        let wakers = [child, again, thread];
        is(e, "wakeup", main)
            && wakers
                .iter()
                .any(|one| has(e, "waker_pid", one.0) && has(e, "waker_tid", one.1))
    });
    let known: Vec<i32> = said.values().map(|(pid, _)| *pid).collect();
    let strange = events
        .iter()
        .find(|event| !known.contains(&event.pid) && !is_mark_of_loss(event));
    wrong.extend(strange.map(|event| format!("a stranger's: {}", event.line)));
    wrong
}

/// Tells whether an event says that events are missing: such an event belongs to no thread.
#[must_use]
pub fn is_mark_of_loss(event: &Event) -> bool {
    ["posix_trace_overflow", "posix_trace_resume"]
        .iter()
        .any(|name| event.is_system(name))
}

/// Lists the events with a pid or tid above `last` in their data: their namespace has given none
/// above it.
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
        let ids = FIELDS.iter().filter_map(|name| event.integer(name));
        ids.max().is_some_and(|most| most > last.into())
    };
    events
        .iter()
        .filter(is_beyond)
        .map(|event| event.line.clone())
        .collect()
}
