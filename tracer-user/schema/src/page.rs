//! Page of all objects and members, for people.

use std::fmt::Write as _;

use crate::VERSION;
use crate::definition::{Definitions, Object, ObjectEntry, Type};

/// Returns the page, in Markdown.
#[must_use]
pub fn page(definitions: &Definitions) -> String {
    let mut page = format!(
        "# Members of JSON

Each object that commands write with `--format json`, and its members, in version {VERSION}. [`json.md`](json.md) says
what holds for all of them. `tracer-user COMMAND --schema` prints the same as JSON Schema. This page is made of
`tracer-user/schema/src/members.txt`, by `cargo xtask json`.

A type with `?` may be `null`; a member in *italics* is there where it has something to say. `[x]` is a list of `x`,
`{{x}}` an object with any names; `ns` is a count of nanoseconds, `count` a whole number from 0 on. Each object that is
written by itself has `schema` too, [the version](json.md#the-version).

| command | writes |
|---|---|
"
    );
    for answer in &definitions.answers {
        let objects: Vec<String> = answer.objects.iter().map(|name| link(name)).collect();
        push(
            &mut page,
            format_args!("| `{}` | {} |\n", answer.command, objects.join(", ")),
        );
    }
    for object in &definitions.objects {
        push_object(&mut page, object);
    }
    page
}

fn push_object(page: &mut String, object: &Object) {
    push(
        page,
        format_args!(
            "\n## {}\n\n{}.\n\n| member | type | what it is |\n|---|---|---|\n",
            object.name, object.about
        ),
    );
    for entry in &object.entries {
        match entry {
            ObjectEntry::Include(name) => {
                push(page, format_args!("| those of {} | | |\n", link(name)));
            }
            ObjectEntry::Member(member) => {
                let mark = if member.is_always { "" } else { "*" };
                push(
                    page,
                    format_args!(
                        "| {mark}`{}`{mark} | {} | {} |\n",
                        member.name,
                        shown(&member.of),
                        member.about.replace('|', "\\|")
                    ),
                );
            }
        }
    }
}

fn push(page: &mut String, words: std::fmt::Arguments<'_>) {
    // Writing to a string does not fail.
    let _ = page.write_fmt(words);
}

fn link(name: &str) -> String {
    format!("[{name}](#{name})")
}

fn shown(of: &Type) -> String {
    match of {
        Type::OneOf(words) => {
            let words: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
            words.join(", ")
        }
        Type::Object(name) => link(name),
        Type::List(of) => format!("[ {} ]", shown(of)),
        Type::Map(of) => format!("{{ {} }}", shown(of)),
        Type::OrNull(of) => format!("{}?", shown(of)),
        plain => plain.to_string(),
    }
}
