//! Manual pages: written by hand in `man/`, except those that are made from the code.

mod events;

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, bail, ensure};

use crate::tasks::dist::{Content, Part, Piece};
use crate::tasks::test::binaries;
use crate::{packages, process, workspace};

/// Arguments of the task.
#[derive(clap::Args)]
pub struct Args {
    /// Only fail when they are not up to date, or not clean
    #[arg(long)]
    pub check: bool,
}

/// Folder of the pages, from the top folder.
const PAGES: &str = "man";
/// Page that is made from the table of system event types.
const EVENTS: &str = "man/linux_trace_events.7";
/// Folder of the pages of programs, under `target`.
const OF_PROGRAMS: &str = "man";

/// Writes the page that is made from the code, or compares it; and checks all pages.
pub fn run(args: &Args) -> anyhow::Result<()> {
    packages::install_missing(packages::TO_LINT)?;
    let path = workspace::root().join(EVENTS);
    let page = events::page();
    if args.check {
        let present = fs::read_to_string(&path).with_context(|| EVENTS.to_owned())?;
        ensure!(
            present == page,
            "{EVENTS} is not up to date; run: cargo xtask man"
        );
    } else {
        fs::write(&path, page).with_context(|| format!("cannot write {EVENTS}"))?;
    }
    for page in pages()? {
        let path = workspace::root().join(PAGES).join(page);
        process::run(
            Command::new("mandoc")
                .args(["-Tlint", "-Wwarning"])
                .arg(path),
        )?;
    }
    Ok(())
}

/// Makes the pages of the programs from the definitions of their command lines. The generator is an
/// example that is built with the tests, with the same options, so that it is built once.
pub fn make_for_programs() -> anyhow::Result<()> {
    let folder = workspace::target(OF_PROGRAMS);
    // A subcommand that is no more leaves no page.
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    process::run(
        workspace::cargo_for_tests("build")
            .args(binaries::SELECTION)
            .args(["--quiet", "--example=manual"]),
    )?;
    process::run(Command::new(workspace::target("debug/examples/manual")).arg(&folder))
}

/// Returns the pages, and for each further name that a page describes a page that refers to it.
pub fn pieces() -> anyhow::Result<Vec<Piece>> {
    let mut pieces = Vec::new();
    for page in pages()? {
        let from = format!("{PAGES}/{page}");
        let text = fs::read_to_string(workspace::root().join(&from)).context(from.clone())?;
        let (name, section) = name_and_section(&page)?;
        let path = |name: &str| format!("share/man/man{section}/{name}.{section}");
        // What the events carry is for those who read them; the rest is for programs.
        let is_of_events = page
            == Path::new(EVENTS)
                .file_name()
                .unwrap_or_default()
                .to_string_lossy();
        let part = if is_of_events {
            Part::Tool
        } else {
            Part::Development
        };
        for other in names(&text).with_context(|| from.clone())? {
            if other != name {
                let refers = format!(".so man{section}/{page}\n");
                pieces.push(Piece::new(part, path(&other), Content::Text(refers)));
            }
        }
        let content = Content::Copy { from, mode: 0o644 };
        pieces.push(Piece::new(part, path(name), content));
    }
    for page in files(&workspace::target(OF_PROGRAMS))? {
        let from = format!("target/{OF_PROGRAMS}/{page}");
        let content = Content::Copy { from, mode: 0o644 };
        let path = format!("share/man/man1/{page}");
        pieces.push(Piece::new(Part::Tool, path, content));
    }
    Ok(pieces)
}

fn pages() -> anyhow::Result<Vec<String>> {
    files(&workspace::root().join(PAGES))
}

/// Returns the files of a folder, in order.
fn files(folder: &Path) -> anyhow::Result<Vec<String>> {
    let mut files = Vec::new();
    let entries = fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    for entry in entries {
        files.push(entry?.file_name().to_string_lossy().into_owned());
    }
    files.sort();
    Ok(files)
}

fn name_and_section(page: &str) -> anyhow::Result<(&str, &str)> {
    match page.rsplit_once('.') {
        Some((name, section @ ("3" | "7"))) => Ok((name, section)),
        _ => bail!("{page} is no name of a manual page"),
    }
}

/// Returns the names that a page describes: the text after `.SH NAME`, up to the dash.
fn names(page: &str) -> anyhow::Result<Vec<String>> {
    let mut lines = page.lines().skip_while(|line| *line != ".SH NAME").skip(1);
    let (names, _) = lines
        .next()
        .and_then(|line| line.split_once(" \\- "))
        .context("the page has no NAME section")?;
    Ok(names.split(", ").map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_about_the_names_before_the_dash() {
        let page = ".TH X 3\n.SH NAME\none, two \\- count\n.SH SYNOPSIS\n";

        assert_eq!(names(page).unwrap(), ["one", "two"]);
        assert!(names(".TH X 3\n").is_err());
    }

    #[test]
    fn every_exported_function_has_a_page() {
        let root = workspace::root();
        let mut named = Vec::new();
        for page in pages().unwrap() {
            let text = fs::read_to_string(root.join(PAGES).join(page)).unwrap();
            named.extend(names(&text).unwrap());
        }
        let exports =
            fs::read_to_string(root.join("tracer-posix/libposixtrace/exports.txt")).unwrap();
        for function in exports.lines().filter(|name| name.starts_with("posix_")) {
            assert!(named.iter().any(|name| name == function), "{function}");
        }
    }
}
