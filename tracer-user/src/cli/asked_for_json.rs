//! Tells whether a command line asks for JSON, even when it cannot be parsed: its error is then
//! reported as JSON too.

use std::ffi::OsStr;

use clap::{Arg, ArgMatches, Command};

/// Option for the format of an answer, and its value for JSON.
const FORMAT: &str = "format";
const JSON: &str = "json";

/// Tells whether a parsed command line asks for JSON.
pub fn in_matches(matches: &ArgMatches) -> bool {
    let Some((_, of_command)) = matches.subcommand() else {
        return false;
    };
    let formats = of_command.try_get_raw(FORMAT).ok().flatten();
    let is_json = formats.is_some_and(|mut formats| formats.any(|format| format == JSON));
    let has_flag = of_command.try_get_one::<bool>(JSON);
    is_json || matches!(has_flag, Ok(Some(true)))
}

/// Tells whether the words after the program's name ask for JSON, whatever else is wrong with them.
/// Words of a command that is to be traced do not count.
pub fn in_words(definition: &Command, words: impl IntoIterator<Item = impl AsRef<OsStr>>) -> bool {
    let mut command = definition;
    let mut words = words.into_iter();
    while let Some(word) = words.next() {
        // What is no text is no option.
        let word = word.as_ref().to_str().unwrap_or_default();
        if word == "--" {
            return false;
        }
        let takes = match word.strip_prefix("--") {
            Some(JSON) => return true,
            Some(long) => match long.split_once('=') {
                Some((FORMAT, JSON)) => return true,
                Some(_) => None,
                None => Some(long).filter(|long| {
                    *long == FORMAT || find(command, |arg| arg.get_long() == Some(long))
                }),
            },
            None if word.len() > 1 && word.starts_with('-') => bundled(command, word),
            None => {
                if let Some(named) = command.find_subcommand(word) {
                    command = named;
                } else if has_words_of_its_own(command) {
                    return false;
                }
                None
            }
        };
        if let Some(option) = takes {
            let value = words.next();
            let is_json = value.is_some_and(|value| value.as_ref() == JSON);
            if option == FORMAT && is_json {
                return true;
            }
        }
    }
    false
}

/// Tells whether the command has such an option, with a value.
fn find(command: &Command, is_it: impl Fn(&Arg) -> bool) -> bool {
    let takes_value = |arg: &&Arg| arg.get_action().takes_values();
    command.get_arguments().filter(takes_value).any(|arg| {
        is_it(arg)
            && arg
                .get_num_args()
                .is_none_or(|count| count.min_values() > 0)
    })
}

/// Returns the word when its last letter is an option whose value is the next word.
fn bundled<'a>(command: &Command, word: &'a str) -> Option<&'a str> {
    let takes_value = |letter| find(command, |arg| arg.get_short() == Some(letter));
    let first = word.chars().skip(1).position(takes_value)?;
    // What follows in the same word is the value.
    (first + 2 == word.chars().count()).then_some(word)
}

/// Tells whether all words from the first one that is no option belong to a command that is run.
fn has_words_of_its_own(command: &Command) -> bool {
    let mut positional = command.get_positionals();
    positional.any(Arg::is_trailing_var_arg_set)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the answer of `in_words`, and checks that `in_matches` agrees where the line can be
    /// parsed.
    fn asked(typed: &str) -> bool {
        let definition = super::super::definition();
        let words: Vec<&str> = typed.split_whitespace().collect();
        let is_asked = in_words(&definition, &words);
        let line = std::iter::once(&"tracer-user").chain(&words);
        if let Ok(matches) = definition.try_get_matches_from(line) {
            assert_eq!(in_matches(&matches), is_asked, "{typed}");
        }
        is_asked
    }

    #[test]
    fn json_is_asked_for_by_options_of_the_command() {
        for typed in [
            "read log --format json",
            "read --format=json log",
            "run --format json ls",
            "run -v --format json -- ls",
            "attach -p 1 --format json",
            "attach 1 -o --format --format json",
            "info --json log",
            "events --tracepoints --format json",
            "stat --format json -- ls",
            // These make no sense.
            "read --format json",
            "read log --frmt --format json",
            "--format json",
            "inf --format json log",
            "attach --format json --evnts",
            "doctor --format json --format text",
        ] {
            assert!(asked(typed), "{typed}");
        }
    }

    #[test]
    fn json_is_not_asked_for_by_values_and_by_words_of_others() {
        for typed in [
            "read log",
            "read log --format text",
            "read log --format csv",
            "run ls --format json",
            "run -- ls --format json",
            "run -o --format json ls",
            "stat -- ls --format json",
            "attach 1 -o --format",
            "attach 1 -ojson",
            "read log --comm --json",
            "export log --to chrome -o json",
            "read log --format jsn",
            "--version",
            "",
        ] {
            assert!(!asked(typed), "{typed}");
        }
    }
}
