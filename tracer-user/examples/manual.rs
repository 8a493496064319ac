//! Writes the manual pages of the command line, made from its definition, to a folder.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap_mangen::Man;
use tracer_user::cli::manual::{ManualPage, PAGES};

const SEE_ALSO: &str = ".SH \"SEE ALSO\"
.BR posix_trace (7),
.BR linux_trace_events (7)
";

const VERSION: &str = concat!("tracer-user ", env!("CARGO_PKG_VERSION"));

fn main() -> ExitCode {
    let Some(folder) = std::env::args_os().nth(1).map(PathBuf::from) else {
        eprintln!("usage: manual FOLDER");
        return ExitCode::from(2);
    };
    match write(&folder) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("cannot write to {}: {error}", folder.display());
            ExitCode::from(2)
        }
    }
}

fn write(folder: &Path) -> io::Result<()> {
    let mut definition = tracer_user::cli::definition();
    definition.build();
    for page in PAGES {
        let command = if page.command.is_empty() {
            Some(&definition)
        } else {
            definition.find_subcommand(page.command)
        };
        let command = command.ok_or_else(|| io::Error::other(page.command))?;
        let man = Man::new(command.clone());
        // The title that `clap_mangen` renders has the version in the place of the date.
        let name = man.get_filename();
        let name = name.trim_end_matches(".1");
        let mut text = format!(".TH {} 1 \"\" \"{VERSION}\"\n", roff(name)).into_bytes();
        man.render_name_section(&mut text)?;
        text.extend_from_slice(synopsis(page).as_bytes());
        man.render_description_section(&mut text)?;
        if page.command.is_empty() {
            man.render_subcommands_section(&mut text)?;
        }
        man.render_options_section(&mut text)?;
        text.extend_from_slice(format!(".SH \"EXIT STATUS\"\n{}\n", roff(page.exit)).as_bytes());
        text.extend_from_slice(examples(page).as_bytes());
        text.extend_from_slice(SEE_ALSO.as_bytes());
        fs::write(folder.join(man.get_filename()), text)?;
    }
    Ok(())
}

fn synopsis(page: &ManualPage) -> String {
    let lines: Vec<String> = page.synopsis.iter().map(|line| roff(line)).collect();
    format!(".SH SYNOPSIS\n{}\n", lines.join("\n.br\n"))
}

fn examples(page: &ManualPage) -> String {
    let examples = page.examples.iter();
    let examples = examples.map(|(what, line)| {
        let (what, line) = (roff(what), roff(line));
        format!(".PP\n{what}:\n.PP\n.in +4n\n.EX\n{line}\n.EE\n.in\n")
    });
    format!(".SH EXAMPLES\n{}", examples.collect::<String>()).replace("?:\n", "?\n")
}

/// Escapes text for roff: no part of it is a command, and its hyphens can be copied from the page.
fn roff(text: &str) -> String {
    let text = text.replace('\\', "\\e").replace('-', "\\-");
    let text = text.replace('\'', "\\(aq").replace('`', "\\(ga");
    if text.starts_with('.') {
        return format!("\\&{text}");
    }
    text
}
