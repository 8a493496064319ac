//! Page of all members of JSON, and the list of those that its version has: of the one definition.

use std::fs;

use anyhow::{Context as _, ensure};

use crate::workspace;

/// Arguments of the task.
#[derive(clap::Args)]
pub struct Args {
    /// Only fail when the page is not up to date
    #[arg(long)]
    pub check: bool,
}

const PAGE: &str = "docs/json-members.md";
const WRITTEN_DOWN: &str = "tracer-user/schema/src/written_down.txt";

/// Writes the page and the list, or compares the page. A test of `tracer-schema` compares the list.
///
/// # Errors
///
/// A member is another one, or no more, and the version is the same.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let definitions = tracer_schema::definitions()?;
    let made = tracer_schema::page(&definitions);
    let path = workspace::root().join(PAGE);
    if args.check {
        let present = fs::read_to_string(&path).context(PAGE)?;
        ensure!(
            present == made,
            "{PAGE} is not up to date; run: cargo xtask json"
        );
        return Ok(());
    }
    fs::write(&path, made).with_context(|| format!("cannot write {PAGE}"))?;
    let path = workspace::root().join(WRITTEN_DOWN);
    let before = fs::read_to_string(&path).context(WRITTEN_DOWN)?;
    let after = written_down(&before, tracer_schema::VERSION, &definitions)?;
    fs::write(&path, after).with_context(|| format!("cannot write {WRITTEN_DOWN}"))
}

/// Returns the list of all members: what is new is added, and with a new version all is written
/// anew.
fn written_down(
    before: &str,
    version: u32,
    definitions: &tracer_schema::Definitions,
) -> anyhow::Result<String> {
    let head = format!("version {version}");
    let now = tracer_schema::members(definitions);
    if before.lines().next() == Some(head.as_str()) {
        let gone = before.lines().skip(1);
        let gone: Vec<&str> = gone
            .filter(|line| !now.iter().any(|member| member == line))
            .collect();
        ensure!(
            gone.is_empty(),
            "these members are no more, or are others, which is a new version: raise VERSION in \
             tracer-user/schema/src/lib.rs and say in docs/json.md what changed:\n{}",
            gone.join("\n")
        );
    }
    Ok(format!("{head}\n{}\n", now.join("\n")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_up_to_date() {
        run(&Args { check: true }).unwrap();
    }

    #[test]
    fn a_member_that_changes_is_refused_but_in_a_new_version() {
        let before = tracer_schema::parse("[o] x\na text : x").unwrap();
        let more = tracer_schema::parse("[o] x\na text : x\nb? text : y").unwrap();
        let other = tracer_schema::parse("[o] x\na count : x").unwrap();
        let first = written_down("", 1, &before).unwrap();
        assert_eq!(first, "version 1\no.a text\n");
        let second = written_down(&first, 1, &more).unwrap();
        assert_eq!(second, "version 1\no.a text\no.b? text\n");
        assert!(written_down(&second, 1, &other).is_err());
        let third = written_down(&second, 2, &other).unwrap();
        assert_eq!(third, "version 2\no.a count\n");
    }
}
