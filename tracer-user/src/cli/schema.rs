//! `--schema`: prints the JSON Schema of what a command writes, and does nothing else.

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::process::ExitCode;

use anyhow::Context as _;
use clap::{Arg, ArgAction, Command};

/// Identifier of the option.
const OPTION: &str = "schema";

/// Adds the option to each command that writes JSON.
pub fn add(definition: Command) -> Command {
    let Ok(known) = tracer_schema::definitions() else {
        return definition;
    };
    let commands = known.answers.into_iter().map(|answer| answer.command);
    commands.fold(definition, |definition, command| {
        definition.mut_subcommand(command, |command| command.arg(option()))
    })
}

fn option() -> Arg {
    Arg::new(OPTION)
        .long(OPTION)
        .action(ArgAction::SetTrue)
        .exclusive(true)
        .help("Print the JSON Schema of what --format json writes, and end")
        .hide_short_help(true)
        .display_order(1000)
}

/// Returns the command whose schema is asked for: `stat --schema`, which needs nothing of what the
/// command needs. With anything else the option is refused.
pub fn asked(typed: impl Iterator<Item = OsString>) -> Option<String> {
    let words: Vec<OsString> = typed
        .filter(|word| word != "-v" && word != "--verbose")
        .collect();
    let [command, option] = &words[..] else {
        return None;
    };
    let known = tracer_schema::definitions().ok()?;
    let command = known.answer(command.to_str()?)?;
    (option == "--schema").then(|| command.command.clone())
}

/// Prints the schema of what `command` writes.
///
/// # Errors
///
/// It cannot be printed.
pub fn print(command: &str) -> anyhow::Result<ExitCode> {
    let known = tracer_schema::definitions()?;
    let schema = tracer_schema::schema(&known, command)
        .with_context(|| format!("{command} writes no JSON"))?;
    let mut shown = serde_json::to_string_pretty(&schema)?;
    shown.push('\n');
    io::stdout().lock().write_all(shown.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schema_needs_none_of_what_the_command_needs() {
        let known = tracer_schema::definitions().unwrap();
        let asked = |words: &[&str]| asked(words.iter().map(OsString::from));
        for answer in &known.answers {
            let words = [answer.command.as_str(), "--schema"];
            assert_eq!(asked(&words).as_ref(), Some(&answer.command));
        }
        assert_eq!(asked(&["-v", "stat", "--schema"]).as_deref(), Some("stat"));
        for words in [
            &["stat", "log", "--schema"][..],
            &["serve", "--schema"],
            &["stat"],
        ] {
            assert_eq!(asked(words), None);
            let typed = ["tracer-user"].iter().chain(words);
            assert!(
                super::super::definition()
                    .try_get_matches_from(typed)
                    .is_err()
            );
        }
    }

    #[test]
    fn all_that_has_a_format_json_has_a_schema() {
        let known = tracer_schema::definitions().unwrap();
        let definition = super::super::definition();
        for command in definition.get_subcommands() {
            let has_json = command.get_arguments().any(|arg| {
                arg.get_id() == "format"
                    && arg
                        .get_possible_values()
                        .iter()
                        .any(|value| value.get_name() == "json")
            });
            assert_eq!(
                known.answer(command.get_name()).is_some(),
                has_json,
                "{}",
                command.get_name()
            );
        }
    }
}
