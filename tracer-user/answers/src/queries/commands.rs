//! Command lines of processes, for people.

use std::collections::hash_map::Entry;
use std::fs::File;
use std::io::Read as _;
use std::mem::offset_of;

use foldhash::HashMap;
use tracer_common::event_type::EventTypeId;
use tracer_common::kernel::{ExecData, ForkData};
use tracer_engine::event::Event;
use zerocopy::FromBytes as _;

use tracer_event::fields::ExecArguments;
use tracer_text::escape::push_for_people;

/// Processes whose command lines are remembered; those beyond have none.
const MOST_COMMANDS: usize = 65_536;

/// Bytes of a command line.
const MOST_BYTES: usize = 256;

/// Command lines that processes were started with, as far as they were recorded.
#[derive(Debug, Default)]
pub struct Commands {
    lines: HashMap<i32, Box<[u8]>>,
}

impl Commands {
    /// Learns from an event that a process has started a program, or is another one than before.
    pub fn learn(&mut self, event: &Event<'_>) {
        match event.header.event_type {
            EventTypeId::EXEC => self.start(event.header.pid, event.data),
            EventTypeId::FORK => {
                // What it was started with was its parent's, and the ids may be used again.
                if let Ok((fork, _)) = ForkData::read_from_prefix(event.data) {
                    self.lines.remove(&fork.child_pid.cast_signed());
                }
            }
            _ => {}
        }
    }

    fn start(&mut self, pid: i32, data: &[u8]) {
        let file = data.get(offset_of!(ExecData, file)..);
        let mut line = Vec::new();
        for (argument, _) in file
            .and_then(ExecArguments::behind)
            .iter()
            .flat_map(|arguments| arguments.iter())
        {
            if line.len() > MOST_BYTES {
                break;
            }
            line.extend_from_slice(argument);
            line.push(0);
        }
        let count = self.lines.len();
        match self.lines.entry(pid) {
            Entry::Occupied(mut known) => {
                known.insert(line.into());
            }
            Entry::Vacant(unknown) if count < MOST_COMMANDS => {
                unknown.insert(line.into());
            }
            Entry::Vacant(_) => {}
        }
    }

    /// Forgets the command lines of all processes but those that are needed.
    pub fn retain(&mut self, is_needed: impl Fn(i32) -> bool) {
        self.lines.retain(|pid, _| is_needed(*pid));
    }

    /// Returns the command line of a process; empty where it is not known.
    #[must_use]
    pub fn get(&self, pid: i32) -> String {
        let line = self.lines.get(&pid);
        line.map_or_else(String::new, |line| for_people(line))
    }
}

/// Returns the command line of a process that is there now, as it is now: a program may have put
/// other words there. Empty where it has none, or may not be read.
#[must_use]
pub fn current_command(pid: i32) -> String {
    let mut untrusted = Vec::new();
    let file = File::open(format!("/proc/{pid}/cmdline"));
    let most = MOST_BYTES as u64 + 1;
    let read = file.and_then(|file| file.take(most).read_to_end(&mut untrusted));
    read.map_or_else(|_| String::new(), |_| for_people(&untrusted))
}

/// Renders arguments, each with a null behind it, with spaces between them.
fn for_people(untrusted: &[u8]) -> String {
    let is_whole = untrusted.len() <= MOST_BYTES;
    let untrusted = untrusted.get(..MOST_BYTES).unwrap_or(untrusted);
    // A title is one argument, with nulls up to where the arguments ended.
    let end = untrusted.iter().rposition(|byte| *byte != 0);
    let used = untrusted.get(..end.map_or(0, |end| end + 1));
    let words: Vec<u8> = used
        .unwrap_or_default()
        .iter()
        .map(|byte| if *byte == 0 { b' ' } else { *byte })
        .collect();
    let mut line = Vec::new();
    push_for_people(&mut line, words.trim_ascii());
    if !is_whole {
        line.extend_from_slice("…".as_bytes());
    }
    String::from_utf8_lossy(&line).into_owned()
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_command_line_is_one_line_of_harmless_words() {
        assert_eq!(for_people(b"sed\0-n\x001p\0"), "sed -n 1p");
        assert_eq!(
            for_people(b"postgres: app orders [local] UPDATE\0\0\0\0\0"),
            "postgres: app orders [local] UPDATE"
        );
        assert_eq!(for_people(b"a\0\x1b[2J\n\xff\0"), "a \\u{1b}[2J\\n\\xff");
        assert_eq!(for_people(b""), "");
        assert_eq!(for_people(b"\0\0"), "");
        let long = for_people(&[b'x'; 4_000]);
        assert_eq!(long, format!("{}…", "x".repeat(MOST_BYTES)));
    }

    #[test]
    fn one_that_is_there_has_the_words_of_proc() {
        let mut child = Command::new("sleep")
            .arg("100.25")
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        // It has none before its program is loaded.
        let mut looks = std::iter::repeat_with(|| current_command(pid));
        let line = looks.find(|line| line.starts_with("sleep")).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(line, "sleep 100.25");
        assert_eq!(current_command(pid), "");
        assert_eq!(current_command(-1), "");
    }
}
