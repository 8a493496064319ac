//! Interpreters of other languages than Python: shown as what they are, by their own functions, and
//! which functions of a script they run, where static probes say so.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fs;
use std::process::Command;

use tests::rights::missing_right;
use tests::{command, dist};

use super::names_by_time::run;

#[test]
#[ignore = "loads eBPF"]
fn an_interpreter_that_tells_nothing_has_the_functions_that_it_consists_of() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let shown = folder.path().join("shown");
    let mut tool = run(&["--unwind", "dwarf"]);
    tool.arg("-o")
        .arg(&shown)
        .args(["--", "/usr/bin/perl", "-e"]);
    let script = "sub inner { getppid() } sub outer { inner() } outer() for 1..3";
    command::text(tool.arg(script)).unwrap();
    let mut nm = Command::new("nm");
    let exported = command::text(nm.args(["-D", "--defined-only", "/usr/bin/perl"])).unwrap();
    let exported: Vec<&str> = exported
        .lines()
        .filter_map(|line| line.split_whitespace().nth(2))
        .collect();
    let lines = fs::read_to_string(&shown).unwrap();
    let mut calls = 0;
    for line in lines.lines() {
        let event: serde_json::Value = serde_json::from_str(line).unwrap();
        if event["type"] != "linux_trace_syscall_enter" {
            continue;
        }
        let frames = event["stack"].as_array().unwrap();
        let own = frames.iter().filter(|frame| {
            let module = frame["module"].as_str().unwrap_or_default();
            module.starts_with("/usr/bin/perl")
        });
        let names: Vec<_> = own.map(|frame| frame["symbol"].as_str().unwrap()).collect();
        // The call, what goes from one to the next, and the program.
        assert_eq!(
            (names[0], *names.last().unwrap()),
            ("Perl_pp_getppid", "_start")
        );
        assert!(names.len() > 3, "{names:?}");
        let are_own = names
            .iter()
            .all(|name| exported.contains(name) || *name == "_start");
        assert!(are_own, "{names:?}");
        calls += 1;
    }
    assert_eq!(calls, 3);
}

/// A script in Ruby, and one in PHP, each with functions in lines of their own.
const RUBY: &str = "def inner\n  Process.ppid\nend\n3.times { inner }\n";
const PHP: &str = "<?php\nfunction inner() { return 1; }\nfunction outer() {\n  return inner();\n}\nfor ($i = 0; $i < 3; $i++)\n  outer();\n";

#[test]
#[ignore = "loads eBPF"]
fn functions_of_ruby_and_php_are_those_that_their_static_probes_name() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let called = |probe: &str, words: &[&str], script: &str| -> Vec<String> {
        fs::write(at("script"), script).unwrap();
        let mut tool = Command::new(dist::tracer_user().unwrap());
        tool.args([
            "run", "--events", "probe", "--format", "json", "--usdt", probe, "-o",
        ]);
        tool.arg(at("shown")).args(["--ring-size", "64M", "--"]);
        tool.args(words).arg(at("script"));
        // Otherwise PHP has its probes and passes none.
        command::text(tool.env("USE_ZEND_DTRACE", "1")).unwrap();
        let shown = fs::read_to_string(at("shown")).unwrap();
        let events = shown
            .lines()
            .map(|line| -> serde_json::Value { serde_json::from_str(line).unwrap() });
        let script = at("script");
        let file = script.to_str().unwrap();
        let words = |event: serde_json::Value| {
            let field = |name: &str| event["data"][name].clone();
            let all = ["arg0", "arg1", "arg2", "arg3"].map(field);
            let all = all.map(|one| one.as_str().map_or_else(|| one.to_string(), str::to_owned));
            all.contains(&file.to_owned())
                .then(|| all.join(" ").replace(file, "script"))
        };
        events.filter_map(words).collect()
    };
    let of_ruby = called(
        "ruby:cmethod__entry(str, str, str, int)",
        &["ruby", "--disable-gems"],
        RUBY,
    );
    let of_ruby: Vec<_> = of_ruby
        .iter()
        .filter(|call| call.contains("ppid"))
        .collect();
    assert_eq!(of_ruby, vec!["Process ppid script 2"; 3]);
    let of_php = called("php:function__entry(str, str, int, str)", &["php"], PHP);
    // Each with the line of the first thing that it does.
    let each = ["outer script 4 ", "inner script 2 "];
    assert_eq!(of_php, [&["main script 6 "][..], &each.repeat(3)].concat());
}

/// Script in Lua that notes where it is mapped, and opens a file that is not there from functions
/// that C has not called, and from one that it has.
const LUA: &str = "
    local notes = io.open(arg[1], 'w')
    for line in io.lines('/proc/self/maps') do notes:write(line, '\\n') end
    notes:close()
    local function inner() io.open('/nowhere/at/all') end
    local function outer() inner() end
    for round = 1, 3 do outer() end
    for round = 1, 3 do pcall(outer) end
";

/// Returns the functions that a program exports: where they begin, and where they end.
fn exported(program: &str) -> Vec<(u64, u64, String)> {
    let mut nm = Command::new("nm");
    let text = command::text(nm.args(["-D", "-S", "--defined-only", program])).unwrap();
    let functions = text.lines().filter_map(|line| {
        let words: Vec<_> = line.split_whitespace().collect();
        let [start, bytes, "T", name] = words[..] else {
            return None;
        };
        let number = |digits| u64::from_str_radix(digits, 16).unwrap();
        let name = name.split('@').next().unwrap_or(name);
        Some((
            number(start),
            number(start) + number(bytes),
            name.to_owned(),
        ))
    });
    functions.collect()
}

#[test]
#[ignore = "loads eBPF"]
fn lua_has_the_functions_that_it_exports_and_others_have_no_name() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::write(at("a.lua"), LUA).unwrap();
    // Both call a script by a function that they export; the second has another way to a function
    // that C calls.
    for (program, calls_it, expected) in [
        ("/usr/bin/lua5.4", "lua_pcallk", [2, 2, 2, 3, 3, 3]),
        ("/usr/bin/luajit", "lua_pcall", [1, 1, 1, 1, 1, 1]),
    ] {
        let mut tool = Command::new(dist::tracer_user().unwrap());
        tool.args(["run", "--ring-size", "64M", "--format", "json"]);
        tool.args(["--syscalls", "openat", "--stack", "user"]);
        tool.args(["--stack-for", "syscall-enter", "--unwind", "dwarf", "-o"]);
        tool.arg(at("shown")).args(["--", program]);
        command::text(tool.arg(at("a.lua")).arg(at("notes"))).unwrap();
        let own = fs::canonicalize(program).unwrap();
        let own = own.to_str().unwrap();
        let notes = fs::read_to_string(at("notes")).unwrap();
        let first = notes.lines().find(|line| line.ends_with(own)).unwrap();
        let base = first.split('-').next().unwrap();
        let base = u64::from_str_radix(base, 16).unwrap();
        let exported = exported(program);
        let lines = fs::read_to_string(at("shown")).unwrap();
        let events = lines
            .lines()
            .map(|line| -> serde_json::Value { serde_json::from_str(line).unwrap() });
        let calls = events.filter(|event| {
            let is_call = event["type"] == "linux_trace_syscall_enter";
            is_call && event.to_string().contains("/nowhere/at/all")
        });
        let mut counts = Vec::new();
        for call in calls {
            let frames = call["stack"].as_array().unwrap();
            let of_program = frames.iter().filter(|frame| frame["module"] == own);
            let of_program: Vec<_> = of_program.collect();
            for frame in &of_program {
                // Where it goes on after a call, which may be behind the function.
                let at = frame["ip"].as_u64().unwrap() - base - 1;
                let is_in = |(start, end, _): &&(u64, u64, String)| (*start..*end).contains(&at);
                let name = exported.iter().find(is_in).map(|(.., name)| name.as_str());
                assert_eq!(frame["symbol"].as_str(), name, "{call}");
            }
            let names = of_program
                .iter()
                .filter_map(|frame| frame["symbol"].as_str());
            counts.push(names.filter(|name| *name == calls_it).count());
            assert_eq!(call["stack_ends"], "beginning", "{call}");
        }
        // What the program runs first, the script, and the function that is called by C.
        assert_eq!(counts, expected, "{program}");
    }
}
