//! Values of options and arguments.

use std::ffi::OsStr;
use std::sync::Arc;

use clap_complete::engine::{
    ArgValueCompleter, CompletionCandidate, PathCompleter, ValueCompleter,
};
use tracer_common::event_type::SYSTEM_EVENT_TYPES;

use super::{in_list, that_begin_with};
use super::{probes, processes};
use tracer_kernel::named_tracepoints::{Pattern, list};
use tracer_syscalls::choice::class_names;
use tracer_syscalls::names::names;
use tracer_text::push_short_name;

/// Function that finds the values that begin with the typed text; the slice has the words before
/// it.
type Find = fn(&str, &[String]) -> Vec<CompletionCandidate>;

/// Options and arguments by their identifiers, which are the same in all commands.
const VALUES: &[(&str, Find)] = &[
    ("pids", |typed, _| processes::by_pid(typed)),
    ("pid", |typed, _| processes::by_pid(typed)),
    ("what", |typed, _| pids_and_paths(typed)),
    ("subject", |typed, _| pids_and_paths(typed)),
    ("comm", |typed, _| processes::by_name(typed)),
    ("cgroup", |typed, _| processes::control_groups(typed)),
    ("recorder", |typed, _| processes::by_pid(typed)),
    ("named", |typed, _| processes::services(typed)),
    ("events", |typed, _| in_list(typed, event_words())),
    ("add_events", |typed, _| in_list(typed, event_words())),
    ("event", |typed, _| that_begin_with(typed, event_types())),
    ("syscalls", |typed, _| in_list(typed, syscalls())),
    ("usdt", probes::static_probes),
    ("probe", probes::functions),
    ("retprobe", probes::functions),
    ("tracepoint", |typed, _| in_list(typed, tracepoints(typed))),
    ("tracepoints", |typed, _| {
        that_begin_with(typed, tracepoints(typed))
    }),
    ("command", |typed, _| processes::programs(typed)),
];

/// Adds to the definition how values are found. `before` are the words before the one that is
/// completed.
pub fn attach(definition: clap::Command, before: &[String]) -> clap::Command {
    with_values(definition, &before.to_vec().into())
}

fn with_values(command: clap::Command, before: &Arc<[String]>) -> clap::Command {
    let command = command.mut_args(|arg| {
        let named = VALUES.iter().find(|(id, _)| arg.get_id() == *id);
        match named {
            Some((_, find)) => arg.add(completer(*find, before.clone())),
            None => arg,
        }
    });
    command.mut_subcommands(|command| with_values(command, before))
}

fn completer(find: Find, before: Arc<[String]>) -> ArgValueCompleter {
    ArgValueCompleter::new(move |typed: &OsStr| match typed.to_str() {
        Some(typed) => find(typed, &before),
        None => Vec::new(),
    })
}

fn pids_and_paths(typed: &str) -> Vec<CompletionCandidate> {
    let mut found = processes::by_pid(typed);
    // Most users want a process, and a folder may have a thousand files.
    if !typed.is_empty() || found.is_empty() {
        found.extend(PathCompleter::any().complete(OsStr::new(typed)));
    }
    found
}

/// Lists event types by their short names.
fn event_types() -> impl Iterator<Item = (String, String)> {
    SYSTEM_EVENT_TYPES.iter().map(|entry| {
        let mut name = Vec::new();
        push_short_name(&mut name, entry.name);
        let name = String::from_utf8_lossy(&name).into_owned();
        (name, entry.about.to_owned())
    })
}

/// Lists the words that select event types: types, families, and the words for events that others
/// define.
fn event_words() -> impl Iterator<Item = (String, String)> {
    let mut families: Vec<&str> = SYSTEM_EVENT_TYPES
        .iter()
        .map(|entry| entry.family)
        .collect();
    families.dedup();
    let types: Vec<_> = event_types().collect();
    families.retain(|family| !types.iter().any(|(name, _)| name == family));
    let families = families.into_iter();
    let families = families.map(|family| (family.to_owned(), format!("all of family {family}")));
    let others = [
        ("user", "events that programs define"),
        ("probe", "what --usdt, --probe and --retprobe record"),
    ];
    let others = others.map(|(word, help)| (word.to_owned(), help.to_owned()));
    let all: Vec<_> = types
        .iter()
        .cloned()
        .chain(families)
        .chain(others)
        .collect();
    all.into_iter()
}

fn syscalls() -> impl Iterator<Item = (String, String)> {
    let classes = class_names().map(|name| (name.to_owned(), "a class of strace".to_owned()));
    let calls = names().map(|name| (name.to_owned(), String::new()));
    std::iter::once(("all".to_owned(), String::new()))
        .chain(classes)
        .chain(calls)
}

/// Finds the categories, and the tracepoints of the typed one. Only root can read them.
fn tracepoints(typed: &str) -> Vec<(String, String)> {
    let word = typed.rsplit(',').next().unwrap_or(typed);
    let Some((category, _)) = word.split_once(':') else {
        let categories = tracer_kernel::named_tracepoints::categories();
        let categories = categories.unwrap_or_default().into_iter();
        return categories
            .map(|name| (format!("{name}:"), String::new()))
            .collect();
    };
    let pattern = Pattern::new(&format!("{category}:*"));
    let found = pattern
        .and_then(|pattern| list(&pattern))
        .unwrap_or_default();
    let found = found.into_iter().map(|found| {
        let fields = found.format.fields.iter().map(|field| field.name.as_str());
        let fields = fields.collect::<Vec<_>>().join(" ");
        (format!("{}:{}", found.category, found.name), fields)
    });
    found.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_identifier_is_one_of_the_command_line() {
        let definition = super::super::super::definition();
        for (id, _) in VALUES {
            let mut commands = definition.get_subcommands();
            assert!(
                commands.any(|command| command.get_arguments().any(|arg| arg.get_id() == *id)),
                "{id}"
            );
        }
    }

    #[test]
    fn every_word_for_events_chooses_some() {
        for (word, _) in event_words().filter(|(word, _)| word != "probe") {
            let chosen = tracer_event::selection::Selection::from_words([word.as_str()]);
            assert!(chosen.is_ok(), "{word}");
        }
    }
}
