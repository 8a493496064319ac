//! Wrong calls: each error names what is wrong, and why or what is taken, and ends with the command
//! to type next.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Call, words that its error has, and the command to type next.
type Wrong = (&'static str, &'static [&'static str], &'static str);

/// In a folder with a file `text` that is no log, an empty one, and a folder `folder`.
const CALLS: &[Wrong] = &[
    (
        "inf text",
        &["no command inf", "is info meant?"],
        "tracer-user info text",
    ),
    ("atach 1", &["no command atach"], "tracer-user attach 1"),
    (
        "statt text --by comm",
        &["no command statt"],
        "tracer-user stat text --by comm",
    ),
    (
        "explian text",
        &["no command explian"],
        "tracer-user explain text",
    ),
    ("nonsense", &["no command nonsense"], "tracer-user --help"),
    (
        "attach",
        &["not provided", "<PID>"],
        "tracer-user attach --help",
    ),
    ("attach me", &["\"me\" is no pid", "such as 1234"], "ps -e"),
    ("attach 0", &["\"0\" is no pid"], "ps -e"),
    ("attach --pid 1,x", &["\"x\" is no pid"], "ps -e"),
    (
        "attach --no-system 4194305",
        &["no process has pid 4194305"],
        "ps -e",
    ),
    (
        "attach --evnts fork 1",
        &["no option --evnts"],
        "tracer-user attach --events fork 1",
    ),
    (
        "attach --events frok 1",
        &["\"frok\""],
        "tracer-user attach --events fork 1",
    ),
    (
        "attach --events everything 1",
        &["\"everything\"", "known are"],
        "tracer-user events",
    ),
    (
        "attach --events 0 1",
        &["--events 0", "at least 1"],
        "tracer-user attach --help",
    ),
    (
        "attach 1 --format jsn",
        &["'jsn'", "text, json"],
        "tracer-user attach 1 --format json",
    ),
    (
        "attach 1 --duration soon",
        &["\"soon\"", "10s"],
        "tracer-user attach --help",
    ),
    (
        "attach 1 --duration -1",
        &["--duration is -1", "above 0"],
        "tracer-user attach --help",
    ),
    (
        "attach 1 --ring-size 1",
        &["--ring-size is 1", "from 4K"],
        "tracer-user attach --help",
    ),
    (
        "attach 1 --ring-size 8X",
        &["\"8X\"", "K, M or G"],
        "tracer-user attach --help",
    ),
    (
        "attach 1 --no-user --no-system",
        &["together", "give one"],
        "tracer-user attach --help",
    ),
    (
        "attach 1 --color sometimes",
        &["'sometimes'", "always"],
        "tracer-user attach --help",
    ),
    (
        "attach 1 --filter ret<",
        &["cannot be read", "write it as"],
        "tracer-user attach --help",
    ),
    (
        "attach 1 --filter nonsense==1",
        &["\"nonsense\"", "known are"],
        "tracer-user events",
    ),
    (
        "attach 1 --sample 0",
        &["--sample 0", "such as 99"],
        "tracer-user attach --help",
    ),
    (
        "attach 1 --stack usr",
        &["\"usr\"", "user,kernel"],
        "tracer-user attach --help",
    ),
    (
        "attach 1 --unwind dwrf",
        &["dwrf", "dwarf,8K"],
        "tracer-user attach --help",
    ),
    (
        "run",
        &["not provided", "<COMMAND>"],
        "tracer-user run --help",
    ),
    (
        "run --no-system -- /no/such/it",
        &["\"/no/such/it\""],
        "ls /",
    ),
    (
        "run --no-system -- ./folder",
        &["\"./folder\"", "is a directory"],
        "ls ./folder",
    ),
    (
        "run --no-system --log text -- true",
        &["already", "--force"],
        "tracer-user run --help",
    ),
    (
        "run --no-system --log text --append -- true",
        &["not a trace log"],
        "file text",
    ),
    (
        "run --syscalls opneat -- true",
        &["\"opneat\"", "is openat meant?"],
        "tracer-user run --syscalls openat -- true",
    ),
    (
        "run --syscalls %fiel -- true",
        &["\"%fiel\"", "known are"],
        "tracer-user run --help",
    ),
    (
        "run --usdt nonsense -- true",
        &["\"nonsense\"", "provider:name"],
        "tracer-user probes PID",
    ),
    (
        "run --probe nonsense -- true",
        &["\"nonsense\"", "PATH:symbol"],
        "tracer-user run --help",
    ),
    (
        "run --no-system -o /no/such/x -- true",
        &["/no/such/x", "No such file"],
        "ls /",
    ),
    (
        "read",
        &["not provided", "<FILE>"],
        "tracer-user read --help",
    ),
    (
        "read /nowhere/at/all",
        &["/nowhere/at/all", "No such file"],
        "ls /",
    ),
    ("read text", &["text: not a trace log"], "file text"),
    ("read folder", &["folder", "directory"], "ls folder"),
    (
        "read text --frmt json",
        &["no option --frmt"],
        "tracer-user read text --format json",
    ),
    (
        "read text --limit x",
        &["--limit x", "--limit 100"],
        "tracer-user read --help",
    ),
    (
        "read text --from yesterday",
        &["\"yesterday\"", "10s"],
        "tracer-user read --help",
    ),
    (
        "read text --from 2s --until 1s",
        &["later than --until"],
        "tracer-user read --help",
    ),
    (
        "read text --pid x",
        &["--pid \"x\"", "number of a process"],
        "tracer-user read --help",
    ),
    ("info empty", &["empty: not a trace log"], "file empty"),
    (
        "info",
        &["not provided", "<FILE>"],
        "tracer-user info --help",
    ),
    (
        "stat",
        &["not provided", "FILE|PID"],
        "tracer-user stat --help",
    ),
    (
        "stat text --by thred",
        &["'thred'", "comm"],
        "tracer-user stat text --by thread",
    ),
    (
        "stat text --sort runing",
        &["'runing'"],
        "tracer-user stat text --sort running",
    ),
    (
        "stat text --budget 1",
        &["--budget is 1", "256"],
        "tracer-user stat --help",
    ),
    (
        "stat text --duration 1s",
        &["--duration", "read as a log"],
        "tracer-user stat --help",
    ),
    (
        "stat text --flame on-cpy",
        &["'on-cpy'"],
        "tracer-user stat text --flame on-cpu",
    ),
    (
        "stat --count text",
        &["--count", "what was recorded"],
        "tracer-user stat --help",
    ),
    (
        "stat text --schema",
        &["--schema", "cannot be used"],
        "tracer-user stat --help",
    ),
    (
        "why text --slowest x",
        &["'x'", "give a whole number"],
        "tracer-user why --help",
    ),
    (
        "why text --span =",
        &["\"=\"", "NAME=BEGIN..END"],
        "tracer-user why --help",
    ),
    (
        "why --now text",
        &["--now", "give -p"],
        "tracer-user why --help",
    ),
    (
        "why --now -p 4194305",
        &["no process has pid 4194305"],
        "ps -e",
    ),
    (
        "compare text",
        &["not provided", "<B>"],
        "tracer-user compare --help",
    ),
    (
        "compare --a nothing* --b text",
        &["nothing*", "matches no file"],
        "ls",
    ),
    (
        "explain --pid 1 --pid 2 text",
        &["--pid names", "give one"],
        "tracer-user explain --help",
    ),
    ("explain /nowhere", &["/nowhere", "No such file"], "ls /"),
    (
        "top text --once --window 1y",
        &["\"1y\"", "ms, s, m or h"],
        "tracer-user top --help",
    ),
    (
        "export text --to xml",
        &["--to xml", "known are perfetto"],
        "tracer-user export --help",
    ),
    ("report text -o -", &["text: not a trace log"], "file text"),
    (
        "events --tracepoints [",
        &["\"[\"", "CATEGORY:NAME"],
        "tracer-user events --help",
    ),
    (
        "probes 4194305",
        &["no process has the pid 4194305"],
        "ps -e",
    ),
    ("probes text", &["text is no program"], "file text"),
    (
        "events fork",
        &["\"fork\"", "one word too many", "leave it out"],
        "tracer-user events --help",
    ),
    (
        "info text empty",
        &["\"empty\"", "one word too many"],
        "tracer-user info --help",
    ),
    (
        "--force report text",
        &["--force is an option of report"],
        "tracer-user report --force",
    ),
    (
        "doctor --frmat json",
        &["no option --frmat"],
        "tracer-user doctor --format json",
    ),
    (
        "snapshot 1",
        &["not provided", "--log"],
        "tracer-user snapshot --help",
    ),
    (
        "completion tcsh",
        &["'tcsh'", "bash, zsh, fish"],
        "tracer-user completion zsh",
    ),
    (
        "mcp --allow-recrd",
        &["no option --allow-recrd"],
        "tracer-user mcp --allow-record",
    ),
];

fn called(folder: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tracer-user"));
    command.args(words).current_dir(folder).stdin(Stdio::null());
    command.output().unwrap()
}

/// Tells whether a call may be asked to answer in JSON.
fn has_json(words: &[&str]) -> bool {
    const COMMANDS: [&str; 9] = [
        "attach", "read", "info", "stat", "why", "compare", "explain", "events", "probes",
    ];
    COMMANDS.contains(&words[0]) && !words.iter().any(|word| word.starts_with("--format"))
}

#[test]
fn sixty_wrong_calls_are_told_what_why_and_what_to_type_next() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("text"), "no log").unwrap();
    std::fs::write(folder.path().join("empty"), "").unwrap();
    std::fs::create_dir(folder.path().join("folder")).unwrap();
    assert!(CALLS.len() >= 60, "{}", CALLS.len());
    for (typed, says, next) in CALLS {
        let words: Vec<&str> = typed.split(' ').collect();
        let output = called(folder.path(), &words);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{typed}: {said}");
        assert_eq!(output.stdout, b"", "{typed}");
        let line = said.lines().last().unwrap_or_default();
        assert!(line.starts_with("tracer-user: "), "{typed}: {said}");
        for word in *says {
            assert!(line.contains(word), "{typed}: {word}: {said}");
        }
        let has_next = line.ends_with(&format!("(next: {next})"));
        assert!(
            has_next || line.contains(&format!("`{next}`")),
            "{typed}: {next}: {said}"
        );
        if !has_json(&words) {
            continue;
        }
        let output = called(folder.path(), &[&words[..], &["--format", "json"]].concat());
        let said = String::from_utf8(output.stderr).unwrap();
        let object = said.lines().last().unwrap_or_default();
        let object: serde_json::Value = serde_json::from_str(object).expect(&said);
        let error = object["error"].as_str().unwrap();
        assert!(
            says.iter().all(|word| error.contains(word)),
            "{typed}: {error}"
        );
        let proposed = object["next"].as_str().unwrap();
        assert!(proposed.starts_with(next), "{typed}: {next}: {proposed}");
    }
}
