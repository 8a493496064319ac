//! What to do about a failure, and the command to type next.

use std::ffi::OsString;
use std::io;
use std::path::Path;

use tracer_kernel::LoadError;
use tracer_text::{shell_word, suggest};

/// Longest command that is proposed, in bytes: no user types a longer one.
const MOST_BYTES: usize = 300;

/// Advice about a failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Advice {
    /// What to do, where that is known.
    pub remedy: Option<String>,
    /// Command to type next.
    pub next: String,
}

/// Returns the advice about a failure, of which `said` is the whole line. `typed` is what was typed
/// after the program's name.
pub fn advice(error: &anyhow::Error, said: &str, typed: &[OsString]) -> Advice {
    let typed: Vec<String> = typed
        .iter()
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    let of_machine = error
        .chain()
        .find_map(|cause| cause.downcast_ref::<LoadError>())
        .and_then(LoadError::remedy);
    let in_line = said.split_once("; ").map(|(_, remedy)| remedy.to_owned());
    let proposed = [
        corrected(said, &typed),
        with_force(said, &typed),
        quoted_command(said),
        about_process(said),
        has_no_space(error, said).then(|| "df -h".to_owned()),
        of_machine.map(|_| "tracer-user doctor".to_owned()),
        about_group(said),
        about_file(error, said, &typed),
    ];
    let mut proposed = proposed.into_iter().flatten();
    Advice {
        remedy: of_machine
            .or_else(|| has_no_space(error, said).then_some(AGAINST_NO_SPACE))
            .map(str::to_owned)
            .or(in_line),
        next: proposed
            .find(|next| next.len() <= MOST_BYTES)
            .unwrap_or_else(|| help(&typed)),
    }
}

/// Remedy where a file system is full.
const AGAINST_NO_SPACE: &str =
    "make room on that file system, or give a file on another one; of a log, --log-size bounds it";

/// Tells whether a file system was full, or its user's part of it.
fn has_no_space(error: &anyhow::Error, said: &str) -> bool {
    let mut causes = error.chain().filter_map(|cause| cause.downcast_ref());
    let is_full = |cause: &io::Error| {
        matches!(
            cause.kind(),
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
        )
    };
    causes.any(is_full) || said.contains("No space left on device")
}

/// Returns the typed command with the word that was meant, where the line asks `is WORD meant?`.
fn corrected(said: &str, typed: &[String]) -> Option<String> {
    let (before, rest) = said.split_once("; is ")?;
    let (meant, _) = rest.split_once(" meant?")?;
    let named = before.split(|character: char| {
        character.is_whitespace() || matches!(character, '"' | '\'' | ',' | '<' | '>')
    });
    let is_typed = |word: &&str| !word.is_empty() && typed.iter().any(|typed| has(typed, word));
    let named: Vec<&str> = named.filter(is_typed).collect();
    let wrong = match (suggest(meant, named.iter().copied()), &named[..]) {
        (Some(wrong), _) => wrong,
        // What is not much like it, and is all that the line names.
        (None, [wrong]) => wrong,
        (None, _) => return None,
    };
    let at = typed.iter().position(|word| has(word, wrong))?;
    let words = typed.iter().enumerate().map(|(index, word)| {
        if index == at {
            shell_word(&word.replacen(wrong, meant, 1))
        } else {
            shell_word(word)
        }
    });
    let words: Vec<String> = words.collect();
    Some(format!("tracer-user {}", words.join(" ")))
}

/// Returns the typed command with the option that replaces a file, where one is there already.
fn with_force(said: &str, typed: &[String]) -> Option<String> {
    let (command, rest) = typed.split_first()?;
    let is_there = said.contains("is there already; give --force");
    let words = rest.iter().map(|word| shell_word(word));
    let words: Vec<String> = words.collect();
    is_there.then(|| {
        let words = words.join(" ");
        format!("tracer-user {} --force {words}", shell_word(command))
    })
}

/// Tells whether a word of the command line is this one, or has it as its value or in a list.
fn has(typed: &str, word: &str) -> bool {
    typed == word || typed.split(['=', ',', ':']).any(|part| part == word)
}

/// Returns the command that the line has between backticks.
fn quoted_command(said: &str) -> Option<String> {
    let quoted = said.split('`').skip(1).step_by(2);
    let mut commands = quoted.filter(|words| {
        ["tracer-user ", "ps ", "ls"]
            .iter()
            .any(|known| words.starts_with(known))
    });
    commands.next().map(str::to_owned)
}

/// Returns a look at the processes that there are.
fn about_process(said: &str) -> Option<String> {
    let is_about = ["no process has", "is no pid", "these processes have ended"];
    is_about
        .iter()
        .any(|words| said.contains(words))
        .then(|| "ps -e".to_owned())
}

/// Returns a look at the control groups that there are.
fn about_group(said: &str) -> Option<String> {
    let (_, behind) = said.split_once("no control group, systemd unit or container is called")?;
    let (_, mount) = behind.rsplit_once(" below ")?;
    Some(format!("ls {}", shell_word(mount)))
}

/// Returns a look at the file that is not there, is no log, or is not for this user.
fn about_file(error: &anyhow::Error, said: &str, typed: &[String]) -> Option<String> {
    let values = typed.iter().map(|word| match word.split_once('=') {
        Some((_, value)) => value,
        None => word,
    });
    let named = values.filter(|word| said.contains(word));
    // A short word may stand in any line.
    let named = named
        .max_by_key(|word| word.len())
        .filter(|word| !word.is_empty())?;
    let path = Path::new(named);
    let is_missing = error.chain().any(|cause| {
        let of_file = cause.downcast_ref::<io::Error>();
        of_file.is_some_and(|of_file| of_file.kind() == io::ErrorKind::NotFound)
    });
    if said.contains("Permission denied") {
        let folders = path.ancestors().map(|folder| match folder {
            folder if folder.as_os_str().is_empty() => Path::new("."),
            folder => folder,
        });
        // What may not be looked into, or is not there, is looked at by its folder.
        let known = folders.into_iter().find(|path| path.exists())?;
        return Some(format!("ls -ld {}", shell_word(&known.to_string_lossy())));
    }
    if path.is_dir() {
        return Some(format!("ls {}", shell_word(named)));
    }
    let is_program = said.contains("no command is called") && named.contains('/');
    if (is_missing || is_program || said.contains("No such file")) && !path.exists() {
        let mut folders = path.ancestors().skip(1);
        let folder = folders.find(|folder| folder.is_dir() || folder.as_os_str().is_empty())?;
        let folder = Some(folder).filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new("."));
        return Some(format!("ls {}", shell_word(&folder.to_string_lossy())));
    }
    let is_another = ["not a trace log", "is no program or library"];
    let is_another = is_another.iter().any(|words| said.contains(words));
    (is_another && path.is_file()).then(|| format!("file {}", shell_word(named)))
}

/// Returns the help of the command that was typed.
fn help(typed: &[String]) -> String {
    let definition = super::definition();
    let mut commands = typed.iter().take_while(|word| *word != "--");
    let command = commands.find(|word| definition.find_subcommand(word).is_some());
    match command {
        Some(command) => format!("tracer-user {command} --help"),
        None => "tracer-user --help".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn next(said: &str, typed: &str) -> String {
        let typed: Vec<OsString> = typed.split(' ').map(OsString::from).collect();
        advice(&anyhow::anyhow!(said.to_owned()), said, &typed).next
    }

    #[test]
    fn what_is_meant_is_put_where_the_wrong_word_was() {
        for (said, typed, proposed) in [
            (
                "there is no option --frmt; is --format meant?",
                "read log --frmt json",
                "tracer-user read log --format json",
            ),
            (
                "--events: \"frok\"; is fork meant?",
                "read log --events=exec,frok",
                "tracer-user read log --events=exec,fork",
            ),
            (
                "invalid value 'jsn' for '--format <FORMAT>'; is json meant?",
                "info --format jsn log",
                "tracer-user info --format json log",
            ),
            // What was typed does not have it.
            ("no x; is y meant?", "info log", "tracer-user info --help"),
        ] {
            assert_eq!(next(said, typed), proposed);
        }
    }

    #[test]
    fn a_command_of_the_line_is_the_next_one_and_else_the_help() {
        let said = "no process has pid 7 (`ps -e` lists those that there are)";
        assert_eq!(next(said, "attach 7"), "ps -e");
        assert_eq!(next("\"me\" is no pid", "attach me"), "ps -e");
        assert_eq!(next("no", "stat log"), "tracer-user stat --help");
        assert_eq!(next("no", "run -- stat"), "tracer-user run --help");
        assert_eq!(next("no", "nonsense"), "tracer-user --help");
        let said = "cannot open /nowhere/log: No such file or directory";
        assert_eq!(next(said, "info /nowhere/log"), "ls /");
        let said = "cannot read /nowhere: No such file or directory";
        assert_eq!(next(said, "read /nowhere"), "ls /");
        assert_eq!(next("/etc is a directory", "info /etc"), "ls /etc");
        let said = "a b.svg is there already; give --force to replace it, or --output another name";
        assert_eq!(
            next(said, "stat --flame on-cpu -- ls"),
            "tracer-user stat --force --flame on-cpu -- ls"
        );
        let said = "no command is called \"/nowhere/at\"";
        assert_eq!(next(said, "run -- /nowhere/at"), "ls /");
        let said = "cannot read /etc/passwd: Permission denied";
        assert_eq!(next(said, "info /etc/passwd"), "ls -ld /etc/passwd");
        let said = "cannot make /etc/nowhere.log: Permission denied";
        assert_eq!(next(said, "run --log /etc/nowhere.log ls"), "ls -ld /etc");
        let said =
            "--cgroup: no control group, systemd unit or container is called \"x\" below /sys";
        assert_eq!(next(said, "stat --cgroup x"), "ls /sys");
        assert_eq!(
            next("/etc/passwd is not a trace log", "info /etc/passwd"),
            "file /etc/passwd"
        );
    }

    #[test]
    fn a_name_does_nothing_in_the_command_that_is_proposed() {
        let said = "there is no option --frmt; is --format meant?";
        let proposed = next(said, "read $(reboot) --frmt json\u{1b}");
        assert_eq!(proposed, "tracer-user read '$(reboot)' --format 'json?'");
    }

    #[test]
    fn what_to_do_is_what_the_line_says_behind_what_is_wrong() {
        let error = anyhow::anyhow!("x is there already; give --force");
        let given = advice(&error, &error.to_string(), &[]);
        assert_eq!(given.remedy.as_deref(), Some("give --force"));
        assert_eq!(advice(&error, "x", &[]).remedy, None);
        let full = anyhow::Error::from(io::Error::from_raw_os_error(28)).context("cannot write");
        let given = advice(&full, &format!("{full:#}"), &["run".into()]);
        assert!(given.remedy.unwrap().starts_with("make room"));
        assert_eq!(given.next, "df -h");
    }
}
