//! The shapes of the JSON that `tracer-user` writes.
//!
//! One definition, `members.txt`, has each object with its members, their types, and what they are.
//! Of it are made
//!
//! - the JSON Schema of each command ([`schema`]), which `--schema` prints;
//! - the page `docs/json-members.md` ([`page()`]);
//! - the list of all members that a version has ([`members`]), which a test compares with the one
//!   that was written down for it: a member that is changed or taken away is a new version.
//!
//! Nothing here knows how an answer is made.

// Whatever comes from outside is no reason to end the program.
#![cfg_attr(
    not(test),
    deny(
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::panic,
        clippy::print_stdout
    )
)]

mod definition;
mod json_schema;
mod page;
mod parse;

pub use definition::{CommandAnswer, Definitions, JsonMember, Object, Type};
pub use json_schema::schema;
pub use page::page;
pub use parse::{ParseError, parse};

/// Version of all JSON. It rises when a member is removed or changes its meaning, in any object;
/// members are added without that. `docs/json.md` has the history.
pub const VERSION: u32 = 1;

/// The object that reports a failure.
pub const FAILURE: &str = "failure";

/// Returns the one definition.
///
/// # Errors
///
/// It is malformed; a test shows that it is not.
pub fn definitions() -> Result<Definitions, ParseError> {
    parse(include_str!("members.txt"))
}

/// Returns each member as a line: its object, its name, and its type, as `members.txt` has them;
/// with the commands and what they write.
#[must_use]
pub fn members(definitions: &Definitions) -> Vec<String> {
    let answers = definitions
        .answers
        .iter()
        .map(|answer| format!("@{} {}", answer.command, answer.objects.join("|")));
    let members = definitions.objects.iter().flat_map(|object| {
        let members = definitions.members_of(object);
        members.into_iter().map(|member| {
            let mark = if member.is_always { "" } else { "?" };
            format!("{}.{}{mark} {}", object.name, member.name, member.of)
        })
    });
    let mut lines: Vec<String> = answers.chain(members).collect();
    lines.sort();
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Members that this version has, as they were written down by `cargo xtask json`.
    const WRITTEN_DOWN: &str = include_str!("written_down.txt");

    #[test]
    fn a_member_that_changes_is_another_version() {
        let mut lines = WRITTEN_DOWN.lines();
        let version = lines.next().and_then(|line| line.strip_prefix("version "));
        assert_eq!(version, Some(VERSION.to_string().as_str()));
        let written: Vec<&str> = lines.collect();
        let now = members(&definitions().unwrap());
        let gone: Vec<_> = written
            .iter()
            .filter(|line| !now.iter().any(|member| member == *line))
            .collect();
        assert!(
            gone.is_empty(),
            "these are no more, or are others: raise VERSION, say so in docs/json.md, and run \
             `cargo xtask json`: {gone:#?}"
        );
        let new: Vec<_> = now
            .iter()
            .filter(|member| !written.contains(&member.as_str()))
            .collect();
        assert!(new.is_empty(), "run `cargo xtask json`: {new:#?}");
    }
}
