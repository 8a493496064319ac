//! Part of `trace.h` that describes the kernel's events: constants and structs, from their
//! declarations.

use std::fs;

use anyhow::{Context as _, ensure};
use tracer_common::event_type::{CType, DataLayout, DataMember, KernelEventType, Scalar};
use tracer_common::kernel::KERNEL_EVENT_TYPES;

use crate::workspace;

/// Arguments of the task.
#[derive(clap::Args)]
pub struct Args {
    /// Only fail when the header is not up to date
    #[arg(long)]
    pub check: bool,
}

const HEADER: &str = "tracer-posix/libposixtrace/include/trace.h";
const BEGIN: &str =
    "/* From here on made by cargo xtask header, from tracer-common/src/kernel. */\n";
const END: &str = "/* To here. */\n";

/// Length of the longest line.
const COLUMNS: usize = 120;

/// Writes the part, or compares it.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let path = workspace::root().join(HEADER);
    let present = fs::read_to_string(&path).context(HEADER)?;
    let made = with_part(&present)?;
    if args.check {
        ensure!(
            present == made,
            "{HEADER} is not up to date; run: cargo xtask header"
        );
        return Ok(());
    }
    fs::write(&path, made).with_context(|| format!("cannot write {HEADER}"))
}

/// Returns the header with its part made anew.
fn with_part(header: &str) -> anyhow::Result<String> {
    let (before, rest) = header.split_once(BEGIN).context("no begin of the part")?;
    let (_, after) = rest.split_once(END).context("no end of the part")?;
    Ok(format!("{before}{BEGIN}{}{END}{after}", part()))
}

fn part() -> String {
    let of = |has_process| {
        let types = KERNEL_EVENT_TYPES
            .iter()
            .filter(move |known| known.entry.has_process == has_process);
        let constants: Vec<_> = types.map(constant).collect();
        described("", &constants)
    };
    let mut text = of(true);
    text += "/* What CPUs do for no process (POSIX_TRACE_WOPID_EVENTS). */\n";
    text += &of(false);
    let mut layouts: Vec<&DataLayout> = Vec::new();
    for layout in KERNEL_EVENT_TYPES.iter().filter_map(|known| known.layout) {
        if !layouts
            .iter()
            .any(|known| known.rust_name == layout.rust_name)
        {
            layouts.push(layout);
        }
    }
    for layout in layouts {
        text.push('\n');
        text += &structure(layout);
    }
    text
}

/// Code, and the comment behind it.
type Line = (String, String);

/// Returns the constant of a type, with its description.
fn constant(known: &KernelEventType) -> Line {
    let entry = &known.entry;
    let (constant, id) = (entry.constant, entry.id.0);
    let code = format!("#define {constant} ((trace_event_id_t){id})");
    (code, entry.about.to_owned())
}

/// Formats the lines, with the comments in one column behind them, or before the line where a
/// comment is too long.
fn described(indent: &str, lines: &[Line]) -> String {
    let widest = |lines: &mut dyn Iterator<Item = &Line>| lines.map(|(code, _)| code.len()).max();
    let fits =
        |width: usize, said: &str| indent.len() + width + said.len() + " /*  */".len() <= COLUMNS;
    let all = widest(&mut lines.iter()).unwrap_or(0);
    let short = &mut lines.iter().filter(|(_, said)| fits(all, said));
    let width = widest(short).unwrap_or(0);
    let line = |(code, said): &Line| {
        if fits(all, said) {
            format!("{indent}{code:width$} /* {said} */\n")
        } else {
            format!("{}{indent}{code}\n", comment(indent, said))
        }
    };
    lines.iter().map(line).collect()
}

/// Formats the struct of C.
fn structure(layout: &DataLayout) -> String {
    let members = layout.members.iter();
    let members: Vec<_> = members
        .map(|member| (declared(member) + ";", plain(member.doc)))
        .collect();
    let about = comment("", &plain(layout.doc));
    let members = described("    ", &members);
    format!("{about}{} {{\n{members}}};\n", c_name(layout))
}

/// Returns the name of the struct in C: for `SwitchInData`, `struct linux_trace_switch_in`.
fn c_name(layout: &DataLayout) -> String {
    let name = layout.rust_name;
    let mut c_name = String::from("struct linux_trace");
    for letter in name.strip_suffix("Data").unwrap_or(name).chars() {
        if letter.is_ascii_uppercase() {
            c_name.push('_');
        }
        c_name.push(letter.to_ascii_lowercase());
    }
    c_name
}

fn c_member(member: &DataMember) -> String {
    format!("linux_{}", member.name)
}

fn declared(member: &DataMember) -> String {
    let CType { scalar, length } = member.c_type;
    let scalar = match scalar {
        Scalar::Char => "char",
        Scalar::U8 => "unsigned char",
        Scalar::U16 => "unsigned short",
        Scalar::I32 => "int",
        Scalar::U32 => "unsigned",
        Scalar::I64 => "__linux_trace_i64",
        Scalar::U64 => "__linux_trace_u64",
    };
    let length = length.map_or(String::new(), |length| format!("[{length}]"));
    format!("{scalar} {}{length}", c_member(member))
}

/// Removes the markup of rustdoc from documentation: a link in its own parentheses, which leads
/// nowhere in C, is left out.
fn plain(doc: &[&str]) -> String {
    let words: Vec<_> = doc
        .iter()
        .flat_map(|line| line.split_whitespace())
        .collect();
    let mut text = words.join(" ");
    while let Some((before, rest)) = text.split_once(" ([`") {
        let after = rest.split_once("`])").map_or("", |(_, after)| after);
        text = format!("{before}{after}");
    }
    text.replace(['`', '[', ']'], "")
}

/// Formats a comment of as many lines as it takes.
fn comment(indent: &str, text: &str) -> String {
    let mut lines = vec![format!("{indent}/*")];
    for word in text.split(' ') {
        let is_full = lines
            .last()
            .is_some_and(|line| line.len() + 1 + word.len() + " */".len() > COLUMNS);
        if is_full {
            lines.push(format!("{indent} *"));
        }
        if let Some(line) = lines.last_mut() {
            line.push(' ');
            line.push_str(word);
        }
    }
    lines.join("\n") + " */\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_rustdoc_alone_needs_is_no_part_of_a_comment() {
        let doc = [
            " What asked: 1 `a thread`",
            " or [`none`] ([`waker_context`]).",
        ];

        assert_eq!(plain(&doc), "What asked: 1 a thread or none.");
    }

    #[test]
    fn a_long_comment_has_several_lines() {
        let text = comment("    ", "word ".repeat(40).trim_end());

        assert_eq!(text.lines().count(), 2);
        assert!(text.lines().all(|line| line.len() <= COLUMNS));
        assert!(text.ends_with("word */\n"));
    }

    #[test]
    fn what_is_around_the_part_stays() {
        let header = format!("before\n{BEGIN}what was\n{END}after\n");
        let made = with_part(&header).unwrap();

        assert!(made.starts_with("before\n"));
        assert!(made.ends_with("after\n"));
        assert!(!made.contains("what was"));
        assert!(with_part("nothing").is_err());
    }
}
