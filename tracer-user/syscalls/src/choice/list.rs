//! Reads a list of system calls as it is typed.

use regex::Regex;

use super::classes;
use super::set::{SyscallSet, UnknownSyscall};
use crate::names::all_names;

/// Reason why a list chooses no system calls.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SyscallListError {
    /// A word is no name of a call.
    #[error(transparent)]
    Name(#[from] UnknownSyscall),
    /// A word begins with `%` and is no class.
    #[error(
        "no class of system calls is called {class:?}; known are {}",
        known_classes()
    )]
    Class {
        /// The word.
        class: String,
    },
    /// A pattern or an expression fits no call.
    #[error("no system call fits {pattern:?} (`man 2 syscalls` lists them)")]
    NoneFits {
        /// Pattern as it was typed.
        pattern: String,
    },
    /// An expression does not end.
    #[error("{expression:?} has no second slash; write {expression}/")]
    NoSecondSlash {
        /// Part of it that is there.
        expression: String,
    },
    /// An expression continues where it has ended.
    #[error("{after:?} follows the second slash of an expression; put a comma between them")]
    AfterExpression {
        /// Text that follows.
        after: String,
    },
    /// An expression is none.
    #[error("/{expression}/ is no regular expression: {why}")]
    Expression {
        /// Text between the slashes.
        expression: String,
        /// Fault in it.
        why: String,
    },
    /// Everything that is chosen is taken out again.
    #[error("{list:?} leaves no system call; take less out by !")]
    NothingLeft {
        /// The list.
        list: String,
    },
}

fn known_classes() -> String {
    classes::names().collect::<Vec<_>>().join(", ")
}

/// A word of a list.
struct Item<'a> {
    is_taken_out: bool,
    word: Word<'a>,
}

enum Word<'a> {
    /// Expression between two slashes.
    Expression(&'a str),
    /// A name, a class, a pattern, or `all`.
    Plain(&'a str),
}

impl SyscallSet {
    /// Returns the calls that a list chooses, for programs of both kinds: names, classes (`%file`),
    /// patterns (`*at`), expressions (`/^open/`) and `all`, separated by commas. A word with `!`
    /// before it is taken out of what the others choose; where the list begins with it, everything
    /// that the list names is taken out of all calls, as strace does it.
    ///
    /// # Errors
    ///
    /// A word chooses no call, or none is left.
    pub fn of_list(list: &str) -> Result<Self, SyscallListError> {
        let items = items(list)?;
        let is_all_but = items.first().is_some_and(|first| first.is_taken_out);
        let mut chosen = if is_all_but {
            Self::all()
        } else {
            Self::none()
        };
        let mut taken_out = Self::none();
        for item in &items {
            let named = item.word.calls()?;
            if is_all_but || item.is_taken_out {
                taken_out = taken_out.with(&named);
            } else {
                chosen = chosen.with(&named);
            }
        }
        let set = chosen.without(&taken_out);
        if set.is_empty() {
            return Err(SyscallListError::NothingLeft {
                list: list.to_owned(),
            });
        }
        Ok(set)
    }
}

/// Splits a list into its words.
fn items(list: &str) -> Result<Vec<Item<'_>>, SyscallListError> {
    let mut items = Vec::new();
    let mut rest = Some(list);
    while let Some(typed) = rest {
        let typed = typed.trim_start();
        let bare = typed.strip_prefix('!');
        let is_taken_out = bare.is_some();
        let bare = bare.unwrap_or(typed).trim_start();
        let (word, after) = match bare.strip_prefix('/') {
            Some(inside) => expression(inside)?,
            None => match bare.split_once(',') {
                Some((word, after)) => (Word::Plain(word.trim()), Some(after)),
                None => (Word::Plain(bare.trim()), None),
            },
        };
        items.push(Item { is_taken_out, word });
        rest = after;
    }
    Ok(items)
}

/// Reads an expression, after its first slash, and what comes after the comma behind it.
fn expression(inside: &str) -> Result<(Word<'_>, Option<&str>), SyscallListError> {
    let Some((expression, after)) = inside.split_once('/') else {
        let first = inside.split(',').next().unwrap_or_default();
        return Err(SyscallListError::NoSecondSlash {
            expression: format!("/{}", first.trim_end()),
        });
    };
    let after = after.trim();
    let next = after.strip_prefix(',');
    if next.is_none() && !after.is_empty() {
        return Err(SyscallListError::AfterExpression {
            after: after.to_owned(),
        });
    }
    Ok((Word::Expression(expression), next))
}

impl Word<'_> {
    fn calls(&self) -> Result<SyscallSet, SyscallListError> {
        match *self {
            Self::Expression(expression) => fitting(expression, &format!("/{expression}/")),
            Self::Plain("all") => Ok(SyscallSet::all()),
            Self::Plain(class) if class.starts_with('%') => {
                classes::members(class).ok_or_else(|| SyscallListError::Class {
                    class: class.to_owned(),
                })
            }
            Self::Plain(pattern) if pattern.contains(['*', '?']) => {
                let escaped = regex::escape(pattern);
                let expression = escaped.replace(r"\*", ".*").replace(r"\?", ".");
                fitting(&format!("^{expression}$"), pattern)
            }
            Self::Plain(name) => Ok(SyscallSet::of_names([name])?),
        }
    }
}

/// Returns the calls whose names fit an expression, which was typed as `typed`.
fn fitting(expression: &str, typed: &str) -> Result<SyscallSet, SyscallListError> {
    let regex = Regex::new(expression).map_err(|error| SyscallListError::Expression {
        expression: expression.to_owned(),
        why: last_line(&error),
    })?;
    let mut set = SyscallSet::none();
    for name in all_names().filter(|name| regex.is_match(name)) {
        set.add_name(name);
    }
    if set.is_empty() {
        return Err(SyscallListError::NoneFits {
            pattern: typed.to_owned(),
        });
    }
    Ok(set)
}

/// Returns the complaint itself: above it, the crate draws where.
fn last_line(error: &regex::Error) -> String {
    let text = error.to_string();
    let line = text.lines().last().unwrap_or_default();
    line.strip_prefix("error: ").unwrap_or(line).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(list: &str) -> Vec<&'static str> {
        let set = SyscallSet::of_list(list).unwrap_or_else(|error| panic!("{list}: {error}"));
        let is_chosen = |name| {
            SyscallSet::of_names([name])
                .unwrap()
                .without(&set)
                .is_empty()
        };
        let mut names: Vec<_> = all_names().filter(|name| is_chosen(*name)).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    fn refused(list: &str) -> String {
        SyscallSet::of_list(list).unwrap_err().to_string()
    }

    #[test]
    fn names_patterns_and_expressions_add_up() {
        assert_eq!(names("read, write"), ["read", "write"]);
        assert_eq!(
            names("epoll_p*,getpi?"),
            ["epoll_pwait", "epoll_pwait2", "getpid"]
        );
        // Commas inside the slashes belong to the expression.
        assert_eq!(
            names("/^pread.{1,3}$/,mlockall"),
            ["mlockall", "pread64", "preadv", "preadv2"]
        );
        assert_eq!(SyscallSet::of_list("all"), Ok(SyscallSet::all()));
    }

    #[test]
    fn what_has_an_exclamation_mark_is_taken_out() {
        assert_eq!(names("getpid,gettid,!getpid"), ["gettid"]);
        assert_eq!(names("getpid,gettid,!/^.{3,5}p/"), ["gettid"]);
    }

    #[test]
    fn a_list_that_begins_with_it_means_all_but_these() {
        let but = |list: &str| SyscallSet::all().without(&SyscallSet::of_list(list).unwrap());
        for list in [
            "!read,!write",
            "!read,write",
            " ! read , ! write ",
            "all,!read,!write",
        ] {
            let set = SyscallSet::of_list(list).unwrap();
            assert_eq!(set, but("read,write"), "{list}");
        }
        assert_eq!(SyscallSet::of_list("!%file"), Ok(but("%file")));
        assert_eq!(SyscallSet::of_list("!/^open/,*at"), Ok(but("open*,*at")));
    }

    #[test]
    fn what_chooses_nothing_is_refused() {
        assert_eq!(
            refused("read,opneat"),
            "no system call is called \"opneat\"; is openat meant?"
        );
        assert!(refused("%fiel").starts_with(
            "no class of system calls is called \"%fiel\"; known are %clock, %creds, %desc, %file"
        ));
        assert_eq!(
            refused("x*x"),
            "no system call fits \"x*x\" (`man 2 syscalls` lists them)"
        );
        assert_eq!(
            refused("read,!/x,y/"),
            "no system call fits \"/x,y/\" (`man 2 syscalls` lists them)"
        );
        assert_eq!(
            refused("/open,close"),
            "\"/open\" has no second slash; write /open/"
        );
        assert!(refused("/open/i,close").starts_with("\"i,close\" follows the second slash"));
        assert_eq!(
            refused("/(/"),
            "/(/ is no regular expression: unclosed group"
        );
        assert!(refused("read,!read").starts_with("\"read,!read\" leaves no system call"));
        for list in ["", "read,", "!", "!!read", ",", "!,read"] {
            assert!(
                refused(list).starts_with("no system call is called"),
                "{list}"
            );
        }
    }
}
