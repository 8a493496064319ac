//! System calls as lines of text, one for each call: those of strace and those of `tracer-user`.

use std::collections::HashMap;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, ensure};
use similar::{Algorithm, DiffTag};

/// The lines of each thread, in order: `openat(AT_FDCWD, "x", O_RDONLY) = 3`.
pub type CallLines = HashMap<i32, Vec<String>>;

/// Lines by thread, where a call may be split over two.
#[derive(Default)]
struct Halves {
    lines: CallLines,
    begun: HashMap<i32, String>,
}

impl Halves {
    fn push(&mut self, tid: i32, words: &str) {
        if let Some(begun) = words.strip_suffix("<unfinished ...>") {
            self.begun.insert(tid, begun.trim_end().to_owned());
            return;
        }
        let whole = match words.strip_prefix("<... ") {
            Some(resumed) => {
                let rest = resumed.split_once("resumed>").map_or("", |(_, rest)| rest);
                let begun = self.begun.remove(&tid).unwrap_or_default();
                let rest = rest.trim_start();
                // Both halves are trimmed: the space behind a comma or before `=>` is gone.
                let is_apart = begun.ends_with(',') || rest.starts_with("=>");
                begun + if is_apart { " " } else { "" } + rest
            }
            None => words.to_owned(),
        };
        self.lines.entry(tid).or_default().push(whole);
    }
}

/// Reads the lines that strace wrote with `-f -o FILE`:
/// `4711  openat(AT_FDCWD, "x", O_RDONLY) = 3`.
///
/// # Errors
///
/// The file cannot be read, or is not of that form.
pub fn read_strace(file: &Path) -> anyhow::Result<CallLines> {
    let mut halves = Halves::default();
    for line in std::fs::read_to_string(file)?.lines() {
        let (tid, words) = line.split_once(char::is_whitespace).context("no tid")?;
        halves.push(tid.parse()?, words.trim_start());
    }
    Ok(halves.lines)
}

/// Reads the lines that `tracer-user` shows of a log, without their durations. `tool` is the path
/// of `tracer-user`.
///
/// # Errors
///
/// `tracer-user` fails, or its lines are not as they should be.
pub fn read_log(tool: &Path, log: &Path) -> anyhow::Result<CallLines> {
    let output = Command::new(tool)
        .args(["read", "--events", "syscall,exit"])
        .arg(log)
        .output()?;
    ensure!(
        !output.stdout.is_empty(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let mut halves = Halves::default();
    for line in String::from_utf8(output.stdout)?.lines() {
        let Some((head, words)) = line.split_once(" syscall ") else {
            continue;
        };
        let (head, _) = head.rsplit_once('[').context("no CPU")?;
        let task = head.split_whitespace().next_back().context("no pid")?;
        let tid = task.rsplit('/').next().context("no tid")?.parse()?;
        halves.push(tid, without_duration(words.trim_start()));
    }
    Ok(halves.lines)
}

fn without_duration(words: &str) -> &str {
    match words.rsplit_once(" <") {
        Some((call, duration)) if is_duration(duration) => call,
        _ => words,
    }
}

fn is_duration(words: &str) -> bool {
    let digits = words
        .strip_suffix('>')
        .and_then(|words| words.split_once('.'));
    digits.is_some_and(|(seconds, nanos)| {
        nanos.len() == 9
            && (seconds.to_owned() + nanos)
                .bytes()
                .all(|byte| byte.is_ascii_digit())
    })
}

/// Comparison of two lists of calls: the calls that are the same, and those that differ.
#[derive(Debug, Default)]
pub struct Compared {
    /// Number of calls that are the same.
    pub same: usize,
    /// Number of calls in the first list.
    pub all: usize,
    /// The lines of the first list.
    pub lines: Vec<String>,
    /// Lines of the first list that differ, with those of the other; empty where one has none.
    pub differ: Vec<(String, String)>,
}

/// Compares the lines of each thread in `theirs` with those in `ours`, in the form that `normal`
/// returns, where `theirs` has the thread.
#[must_use]
pub fn compare(
    theirs: &CallLines,
    ours: &CallLines,
    normal: impl Fn(&str) -> Option<String>,
) -> Compared {
    let mut compared = Compared::default();
    for (tid, theirs) in theirs {
        let lines = |lines: &[String]| -> Vec<String> {
            lines.iter().filter_map(|line| normal(line)).collect()
        };
        let theirs = lines(theirs);
        let ours = ours.get(tid).map(|ours| lines(ours)).unwrap_or_default();
        compared.all += theirs.len();
        let mut has_begun = false;
        for part in similar::capture_diff_slices(Algorithm::Myers, &theirs, &ours) {
            let old = theirs.get(part.old_range()).unwrap_or_default();
            if part.tag() == DiffTag::Equal {
                has_begun = true;
                compared.same += old.len();
                continue;
            }
            // The counterpart of a line is the next call of the same name.
            let mut new = ours.get(part.new_range()).unwrap_or_default().to_vec();
            for line in old {
                let name = |line: &str| line.split('(').next().map(str::to_owned);
                let meant = new.iter().position(|ours| name(ours) == name(line));
                let other = meant.map(|meant| new.remove(meant));
                compared
                    .differ
                    .push((line.clone(), other.unwrap_or_default()));
            }
            // Until it runs the program, strace's child makes calls that strace does not show.
            let added = new.into_iter().filter(|_| has_begun);
            let added = added.map(|line| (String::new(), line));
            compared.differ.extend(added);
        }
        compared.lines.extend(theirs);
    }
    compared
}

/// Converts a line of strace or of `tracer-user` to a common form, without remarks and columns.
/// Returns `None` for a line that is no call.
#[must_use]
pub fn normal(line: &str) -> Option<String> {
    if !line.starts_with(|first: char| first.is_ascii_lowercase() || first == '_') {
        return None;
    }
    let mut normal = String::new();
    let mut rest = line;
    // Remarks go, except those that count variables or entries: ` /* 30 vars */`.
    while let Some((before, behind)) = rest.split_once(" /* ") {
        normal += before;
        let Some((remark, behind)) = behind.split_once(" */") else {
            return Some(normal);
        };
        if [" vars", "1 var", " entries"]
            .iter()
            .any(|end| remark.ends_with(end))
        {
            normal += &format!(" /* {remark} */");
        }
        rest = behind;
    }
    normal += rest;
    // strace aligns results in a column: the spaces before it go.
    let Some((call, result)) = normal.rsplit_once(") ") else {
        return Some(normal);
    };
    Some(format!("{call}) {}", result.trim_start()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_halves_are_one_call() {
        let mut halves = Halves::default();
        for words in [
            "read(3, <unfinished ...>",
            "<... read resumed>\"hi\", 8) = 2",
            "futex(0x10, FUTEX_WAIT, 2, NULL <unfinished ...>",
            "<... futex resumed>) = 0",
            "close(3) = 0",
        ] {
            halves.push(7, words);
        }
        assert_eq!(
            halves.lines[&7],
            [
                "read(3, \"hi\", 8) = 2",
                "futex(0x10, FUTEX_WAIT, 2, NULL) = 0",
                "close(3) = 0"
            ]
        );
    }

    #[test]
    fn a_duration_is_taken_off() {
        assert_eq!(
            without_duration("close(3) = 0 <0.000000123>"),
            "close(3) = 0"
        );
        assert_eq!(
            without_duration("write(1, \" <a>\", 4"),
            "write(1, \" <a>\", 4"
        );
    }
}
