//! The table as Rust.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::machine::{Call, INNER, Machine};
use super::structs::{Definition, camel};
use super::table::{Argument, Kind, Line, Table};

/// Returns the table as Rust, for a machine.
pub fn rust(table: &Table<'_>, machine: &Machine) -> String {
    let mut out = String::new();
    for definition in table.structs.values() {
        out += &definition.rust();
    }
    let structs: Vec<_> = table
        .structs
        .keys()
        .map(|name| format!("&{}", Definition::constant(name)))
        .collect();
    let count = structs.len();
    let _ = writeln!(
        out,
        "#[cfg(test)]\nstatic STRUCTS: [&Struct; {count}] = [{}];",
        structs.join(", ")
    );
    let native = native(table, machine);
    let compat = compat(table, machine);
    for (name, calls, known) in [
        ("NATIVE", &machine.native, &native),
        ("COMPAT", &machine.compat, &compat),
    ] {
        push_calls(&mut out, table, name, calls, known);
    }
    let inner: Vec<_> = INNER.iter().map(|(number, _)| number.to_string()).collect();
    let _ = writeln!(out, "const INNER: [u32; 3] = [{}];", inner.join(", "));
    push_classes(&mut out, table);
    out
}

/// The line about each call that has one, and whether that was first one for other programs.
type Known<'a> = BTreeMap<&'a str, (Line<'a>, bool)>;

fn native<'a>(table: &Table<'a>, machine: &Machine) -> Known<'a> {
    let mut known = Known::new();
    for mark in ["", machine.native_mark] {
        for line in table.calls.iter().filter(|line| line.mark == mark) {
            known.insert(line.name, (line.clone(), false));
        }
    }
    known
}

fn compat<'a>(table: &Table<'a>, machine: &Machine) -> Known<'a> {
    let mut known = Known::new();
    for line in table.calls.iter().filter(|line| line.mark.is_empty()) {
        let mut line = line.clone();
        let has_long = |all: &Vec<Argument<'_>>| {
            let mut all = all.iter();
            all.any(|argument| argument.kind == Kind::Value("long"))
        };
        // It is passed in two registers.
        if line.arguments.as_ref().is_some_and(has_long) {
            line.arguments = None;
            line.together = None;
        }
        known.insert(line.name, (line, true));
    }
    for mark in ["@compat", machine.compat_mark] {
        for line in table.calls.iter().filter(|line| line.mark == mark) {
            known.insert(line.name, (line.clone(), false));
        }
    }
    known
}

fn push_calls(out: &mut String, table: &Table<'_>, name: &str, calls: &[Call], known: &Known<'_>) {
    let mut by_number = BTreeMap::new();
    let mut by_name = BTreeMap::new();
    for (number, call) in calls {
        let constant = format!("{name}_{}", call.to_uppercase());
        let nameless = Line::default();
        let (line, is_widened) = known.get(call).map_or((&nameless, false), |(a, b)| (a, *b));
        let info = info(table, call, line, is_widened);
        let _ = writeln!(out, "static {constant}: CallInfo = {info};");
        by_number.insert(*number, constant);
        by_name.insert(*call, *number);
    }
    let count = by_number.keys().max().map_or(0, |last| last + 1);
    let _ = writeln!(out, "static {name}: [Option<&CallInfo>; {count}] = [");
    for number in 0..count {
        let call = by_number.get(&number);
        let call = call.map_or("None".to_owned(), |constant| format!("Some(&{constant})"));
        let _ = writeln!(out, "    {call},");
    }
    let _ = writeln!(
        out,
        "];\nstatic {name}_BY_NAME: [(&str, u32); {}] = [",
        by_name.len()
    );
    for (call, number) in by_name {
        let _ = writeln!(out, "    (\"{call}\", {number}),");
    }
    out.push_str("];\n");
}

/// Returns all that is known of a call as Rust.
fn info(table: &Table<'_>, name: &str, line: &Line<'_>, is_compat: bool) -> String {
    let argument = |argument: &Argument<'_>| {
        let (values, named) = match argument.names {
            None => ("None".to_owned(), "None".to_owned()),
            Some(set) if set.starts_with(|first: char| first.is_ascii_uppercase()) => {
                (format!("Some(&flags::{set})"), "None".to_owned())
            }
            Some(function) => ("None".to_owned(), format!("Some(calls::name_{function})")),
        };
        let word = match argument.kind {
            Kind::Pointed(word, ..) => word,
            Kind::Value(_) => "",
        };
        format!(
            "Argument {{ name: \"{}\", kind: {}, values: {values}, named: {named}, \
             is_datagram: {}, is_asked_for_size: {} }}",
            argument.name,
            table.kind(argument.kind, is_compat),
            word == "datagram",
            word == "bytes_or_size",
        )
    };
    let arguments = match &line.arguments {
        None => "None".to_owned(),
        Some(arguments) => {
            let arguments: Vec<_> = arguments.iter().map(argument).collect();
            format!("Some(&[{}])", arguments.join(", "))
        }
    };
    let together = line
        .together
        .map_or("None".to_owned(), |(word, first, last)| {
            let (is_given, is_filled) = (
                word.starts_with('<'),
                !word.starts_with('<') || word.ends_with('>'),
            );
            let shape = word.trim_matches(['<', '>']).to_uppercase();
            format!(
                "Some(Together {{ first: {first}, last: {last}, shape: gathered::{shape}, \
             is_given: {is_given}, is_filled: {is_filled} }})"
            )
        });
    let attribute = |name: &str| line.attributes.get(name);
    let function = |name: &str, prefix: &str| match attribute(name) {
        None => "None".to_owned(),
        Some(function) => format!("Some(calls::{prefix}_{function})"),
    };
    format!(
        "CallInfo {{ name: \"{name}\", arguments: {arguments}, together: {together}, shows: {}, \
         returns: Returns::{}, result: {}, reads: {} }}",
        function("shows", "show"),
        camel(attribute("returns").unwrap_or(&"number")),
        function("result", "result"),
        match attribute("reads") {
            None => "None".to_owned(),
            Some(extent) => format!("Some(calls::{})", extent.to_uppercase()),
        },
    )
}

fn push_classes(out: &mut String, table: &Table<'_>) {
    let count = table.classes.len();
    let _ = writeln!(out, "static CLASSES: [Class; {count}] = [");
    for (class, parts) in &table.classes {
        let calls = table
            .calls
            .iter()
            .filter(|line| line.classes.contains(class));
        let calls: Vec<_> = calls.map(|line| line.name).collect();
        let _ = writeln!(
            out,
            "    Class {{ name: \"{class}\", parts: &{parts:?}, calls: &{calls:?} }},"
        );
    }
    out.push_str("];\n");
}
