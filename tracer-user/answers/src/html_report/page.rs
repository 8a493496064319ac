//! One file with the data, and with the program that shows it.
//!
//! The program's modules are joined into one, since a page that is opened from disk may import
//! none: each line of import is removed, and `export` before each exported item. Text from the
//! traced programs is within the data alone, so that it cannot become a part of the page.

use std::io::{self, Write};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use sha2::{Digest as _, Sha256};

use super::columns::{Deflated, deflate};
use super::letters::Letters;
use tracer_text::escape::push_for_people;

/// Modules of the program, in the order in which they need each other.
const MODULES: [&str; 20] = [
    include_str!("../../page/words.js"),
    include_str!("../../page/decode.js"),
    include_str!("../../page/slices.js"),
    include_str!("../../page/guess.js"),
    include_str!("../../page/intervals.js"),
    include_str!("../../page/rows.js"),
    include_str!("../../page/window.js"),
    include_str!("../../page/colours.js"),
    include_str!("../../page/forest.js"),
    include_str!("../../page/draw.js"),
    include_str!("../../page/details.js"),
    include_str!("../../page/tables.js"),
    include_str!("../../page/dom.js"),
    include_str!("../../page/find.js"),
    include_str!("../../page/panel.js"),
    include_str!("../../page/flames.js"),
    include_str!("../../page/input.js"),
    include_str!("../../page/overlay.js"),
    include_str!("../../page/page.js"),
    include_str!("../../page/main.js"),
];

/// Style sheet of the page.
const STYLE: &str = include_str!("../../page/page.css");

/// Body of the page.
const BODY: &str = include_str!("../../page/body.html");

/// Returns the modules as one.
pub fn script() -> String {
    let mut script = String::from("\"use strict\";\n");
    for line in MODULES.iter().flat_map(|module| module.lines()) {
        if !line.starts_with("import ") {
            script.push_str(line.strip_prefix("export ").unwrap_or(line));
            script.push('\n');
        }
    }
    script
}

/// Returns the policy of the page: it may show itself, with this script and this style, and nothing
/// else.
fn policy(script: &str) -> String {
    format!(
        "default-src 'none'; script-src '{}'; style-src '{}'; base-uri 'none'; form-action 'none'; \
         require-trusted-types-for 'script'; trusted-types 'none'",
        hash(script),
        hash(STYLE)
    )
}

/// Returns the hash by which a Content-Security-Policy allows a text.
pub fn hash(text: &str) -> String {
    format!("sha256-{}", BASE64_STANDARD.encode(Sha256::digest(text)))
}

/// Writes the page of the log with the name `title`.
///
/// # Errors
///
/// It cannot be written.
pub fn write(
    out: &mut impl Write,
    title: &str,
    header: &[u8],
    columns: &[Deflated],
) -> io::Result<()> {
    let script = script();
    write!(
        out,
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{}\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>{}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n{BODY}\n\
         <script type=\"text/plain\" id=\"data\">",
        policy(&script),
        escaped(title)
    )?;
    let mut letters = Letters::new(&mut *out);
    let header = deflate(header)?;
    let length = u32::try_from(header.len()).map_err(io::Error::other)?;
    letters.write_all(&length.to_le_bytes())?;
    letters.write_all(&header)?;
    for (_, deflated) in columns.iter().flat_map(|column| &column.planes) {
        letters.write_all(deflated)?;
    }
    letters.finish()?;
    write!(
        out,
        "</script>\n<script type=\"module\">{script}</script>\n</body>\n</html>\n"
    )
}

/// Escapes a text within a page.
pub fn escaped(untrusted: &str) -> String {
    let mut visible = Vec::new();
    push_for_people(&mut visible, untrusted.as_bytes());
    let mut out = String::new();
    for character in String::from_utf8_lossy(&visible).chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_is_one_script_that_ends_where_it_ends() {
        let script = script();
        for line in script.lines() {
            let is_module = line.starts_with("import") || line.starts_with("export");
            assert!(!is_module, "{line}");
        }
        // What would end the element, or the one that holds the style.
        for end in ["</script", "<!--", "</style"] {
            assert!(!script.contains(end) && !STYLE.contains(end), "{end}");
        }
    }

    #[test]
    fn modules_are_joined_whose_names_differ() {
        let mut names: Vec<&str> = MODULES
            .iter()
            .flat_map(|module| module.lines())
            .filter_map(|line| {
                let line = line.strip_prefix("export ").unwrap_or(line);
                let line = line.strip_prefix("async ").unwrap_or(line);
                let mut words =
                    line.split(|letter: char| !(letter.is_alphanumeric() || letter == '_'));
                let kind = words.next()?;
                let is_name = ["function", "const", "let", "class"].contains(&kind);
                words.next().filter(|_| is_name)
            })
            .collect();
        names.sort_unstable();
        let all = names.len();
        names.dedup();
        assert!(all > 20 && names.len() == all, "{all} {names:?}");
    }

    #[test]
    fn a_title_is_no_markup() {
        let mut out = Vec::new();
        write(
            &mut out,
            "</title><img src=x onerror=alert(1)>\"&",
            b"{}",
            &[],
        )
        .unwrap();
        let out = String::from_utf8(out).unwrap();
        assert!(!out.contains("<img"));
        assert!(out.contains("<title>&lt;/title&gt;&lt;img src=x onerror=alert(1)&gt;"));
    }
}
