//! `tracer-user help agent`: how programs that reason work with the tool.

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::process::ExitCode;

/// The page, as packages carry it.
const SKILL: &str = include_str!("../../skill/SKILL.md");

/// Returns the page without what is for the reader of packages.
#[must_use]
pub fn text() -> &'static str {
    let head = SKILL.strip_prefix("---\n");
    let behind = head.and_then(|head| head.split_once("\n---\n"));
    behind.map_or(SKILL, |(_, text)| text)
}

/// Tells whether the page is asked for: `help agent`.
pub fn is_asked(typed: impl Iterator<Item = OsString>) -> bool {
    typed.eq(["help", "agent"].map(OsString::from))
}

/// Prints the page.
///
/// # Errors
///
/// It cannot be printed.
pub fn print() -> anyhow::Result<ExitCode> {
    io::stdout().lock().write_all(text().as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_fits_sixty_lines() {
        assert!(text().starts_with("# tracer-user"), "{}", text());
        assert!(text().lines().count() <= 60, "{}", text().lines().count());
        assert!(text().lines().all(|line| line.chars().count() <= 120));
    }

    #[test]
    fn each_command_and_option_of_the_page_is_there() {
        let definition = crate::cli::definition();
        let mut checked = 0;
        for line in text().lines().filter(|line| line.contains("tracer-user ")) {
            for call in line.split("tracer-user ").skip(1) {
                let mut words = call
                    .split([' ', ';', ')', '`'])
                    .filter(|word| !word.is_empty());
                let Some(command) = words
                    .next()
                    .and_then(|word| definition.find_subcommand(word))
                else {
                    continue;
                };
                for option in words.take_while(|word| *word != "--") {
                    if let Some(long) = option.strip_prefix("--") {
                        let mut all = command.get_arguments();
                        assert!(
                            all.any(|arg| arg.get_long() == Some(long)),
                            "{line}: {long}"
                        );
                        checked += 1;
                    }
                }
            }
        }
        assert!(checked > 12, "{checked}");
    }

    #[test]
    fn it_is_asked_for_by_two_words() {
        let asked = |words: &[&str]| is_asked(words.iter().map(OsString::from));
        assert!(asked(&["help", "agent"]));
        assert!(!asked(&["help"]) && !asked(&["help", "agent", "x"]));
    }
}
