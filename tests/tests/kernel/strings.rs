//! Arguments of system calls, and the strings that they point to, beside strace in the same run.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::HashMap;
use std::path::Path;
use std::process::Command;

use tests::call_lines::{self, CallLines};
use tests::dist;
use tests::rights::missing_right;

/// Calls of which both show all strings.
const COMPARED: &[&str] = &[
    "access",
    "chdir",
    "chmod",
    "creat",
    "faccessat2",
    "fchmodat",
    "fchownat",
    "getcwd",
    "link",
    "linkat",
    "lstat",
    "mkdir",
    "mkdirat",
    "newfstatat",
    "open",
    "openat",
    "pread64",
    "pwrite64",
    "read",
    "readlink",
    "readlinkat",
    "recvfrom",
    "rename",
    "renameat",
    "renameat2",
    "rmdir",
    "sendto",
    "stat",
    "statfs",
    "statx",
    "symlink",
    "symlinkat",
    "truncate",
    "unlink",
    "unlinkat",
    "utimensat",
    "write",
];

/// Calls of which both call the same bits by name.
const WITH_WORDS: &[&str] = &[
    "access",
    "clock_nanosleep",
    "clone",
    "dup3",
    "epoll_create1",
    "epoll_ctl",
    "faccessat2",
    "fadvise64",
    "fcntl",
    "flock",
    "futex",
    "getrandom",
    "getrusage",
    "lseek",
    "madvise",
    "mmap",
    "mprotect",
    "mremap",
    "newfstatat",
    "open",
    "openat",
    "pipe2",
    "prlimit64",
    "renameat2",
    "rt_sigprocmask",
    "sendto",
    "socket",
    "statx",
    "unlinkat",
    "utimensat",
    "wait4",
];

/// A call: its name, the strings that it was given or has filled in, and the names of its flags.
type Call = (String, Vec<String>, Vec<String>);

/// Returns the names of flags, outside of quotes, structs, lists and remarks.
fn constants(name: &str, arguments: &str) -> Vec<String> {
    if !WITH_WORDS.contains(&name) {
        return Vec::new();
    }
    let (mut depth, mut outside) = (0_i32, String::new());
    let mut rest = arguments;
    while let Some(letter) = rest.chars().next() {
        match letter {
            '"' => {
                let length = quoted(rest)[0].trim_end_matches("...").len();
                rest = &rest[length..];
                continue;
            }
            '{' | '[' => depth += 1,
            '}' | ']' => depth -= 1,
            _ if depth == 0 => outside.push(letter),
            _ => {}
        }
        rest = &rest[letter.len_utf8()..];
    }
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let all = outside.split(|letter| !is_part(letter));
    let is_word = |word: &&str| {
        word.len() > 2 && word.starts_with(|letter: char| letter.is_ascii_uppercase())
    };
    let found = all.filter(is_word).filter(|word| *word != "NULL");
    // What a command takes is not looked at.
    let most = if name == "fcntl" { 1 } else { usize::MAX };
    found.take(most).map(str::to_owned).collect()
}

/// Returns the quoted strings, with their quotes and the dots behind them.
fn quoted(words: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = words;
    while let Some(start) = rest.find('"') {
        let text = &rest[start + 1..];
        let mut escaped = false;
        let end = text
            .find(|letter| {
                let is_end = letter == '"' && !escaped;
                escaped = letter == '\\' && !escaped;
                is_end
            })
            .unwrap();
        let behind = &text[end + 1..];
        let dots = if behind.starts_with("...") { "..." } else { "" };
        found.push(format!("\"{}\"{dots}", &text[..end]));
        rest = behind;
    }
    found
}

/// Returns the parts of each thread's calls that are compared.
fn compared_parts(lines: CallLines) -> HashMap<i32, Vec<Call>> {
    let mut calls: HashMap<i32, Vec<Call>> = HashMap::new();
    for (tid, whole) in lines
        .iter()
        .flat_map(|(tid, lines)| lines.iter().map(move |line| (*tid, line)))
    {
        let Some((name, rest)) = whole.split_once('(') else {
            continue;
        };
        if COMPARED.contains(&name) || WITH_WORDS.contains(&name) {
            let (arguments, _) = rest.rsplit_once(" = ").unwrap_or((rest, ""));
            let mut strings = if COMPARED.contains(&name) {
                quoted(rest)
            } else {
                Vec::new()
            };
            if name == "read" || name == "pread64" {
                // At the end of a file nothing is filled in.
                strings.retain(|string| string != "\"\"");
            }
            // A remark says what is sent in words.
            let (arguments, _) = arguments.split_once(" /*").unwrap_or((arguments, ""));
            let call = (name.to_owned(), strings, constants(name, arguments));
            calls.entry(tid).or_default().push(call);
        }
    }
    calls
}

/// Runs a script under strace, and that under the tracer: how many calls are the same, of how many,
/// and those that differ.
fn compared(script: &str, beside: &Path) -> (usize, usize, Vec<(Call, Option<Call>)>) {
    let (log, theirs) = (beside.join("log"), beside.join("strace"));
    let mut run = Command::new(dist::tracer_user().unwrap());
    run.args(["run", "--events", "syscall", "--ring-size", "32M"]);
    run.args(["--stream-size", "256M", "--log"]).arg(&log);
    run.args(["--", "strace", "-f", "-s", "64", "-o"])
        .arg(&theirs);
    let output = run.args(["sh", "-c", script]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains(" 0 lost"), "{said}");

    let tool = dist::tracer_user().unwrap();
    let ours = compared_parts(call_lines::read_log(&tool, &log).unwrap());
    let theirs = compared_parts(call_lines::read_strace(&theirs).unwrap());
    let (mut same, mut all, mut differ) = (0, 0, Vec::new());
    for (tid, theirs) in theirs {
        let none = Vec::new();
        let ours = ours.get(&tid).unwrap_or(&none);
        // The first ones of a process may be strace's own, before its exec.
        let skipped = ours.len().saturating_sub(theirs.len());
        let ours = ours.get(skipped..).unwrap_or_default();
        for (nth, theirs) in theirs.into_iter().enumerate() {
            all += 1;
            if ours.get(nth) == Some(&theirs) {
                same += 1;
            } else {
                differ.push((theirs, ours.get(nth).cloned()));
            }
        }
    }
    (same, all, differ)
}

#[test]
#[ignore = "needs root"]
fn what_calls_are_given_is_what_strace_says() {
    if missing_right().is_some() {
        return;
    }
    // What is written about the calls is not in the folder that they look at.
    let (folder, beside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::fs::write(folder.path().join("a \"quoted\"\n name"), "x".repeat(100)).unwrap();
    std::os::unix::fs::symlink("nowhere", folder.path().join("link")).unwrap();
    let compat = dist::compile("compat_paths", beside.path()).unwrap();
    let script = format!(
        "cd {}; ls -la /etc . >/dev/null; cat a* /etc/passwd | sort -r | head -3; \
         mkdir made; mv made moved; rmdir moved; readlink link; stat /proc/self >/dev/null; \
         /usr/bin/python3 -c 'import json, os; print(json.dumps(os.listdir(\"/\")))'; tar cf t.tar /etc/apt; \
         cp t.tar u.tar; find / -maxdepth 1 -newer t.tar; git init -q g; touch -r t.tar v; \
         chmod 600 v; ln v w; rm -f t.tar u.tar v w; {}",
        folder.path().display(),
        compat.display()
    );
    let (same, all, differ) = compared(&script, beside.path());
    assert!(all > 1000, "{all}");
    assert!(
        same * 1000 >= all * 998,
        "{same} of {all}: {:#?}",
        &differ[..differ.len().min(12)]
    );
}

#[test]
#[ignore = "needs root"]
fn addresses_at_which_nothing_is_do_no_harm_and_are_shown_as_they_are() {
    if missing_right().is_some() {
        return;
    }
    let beside = tempfile::tempdir().unwrap();
    let program = dist::compile("bad_pointers", beside.path()).unwrap();
    // It says by itself whether each of its calls did as it should.
    let script = format!("{} && {}", program.display(), program.display());
    let (same, all, differ) = compared(&script, beside.path());
    assert!(all > 2 * 20 * 11, "{all}");
    // strace shows more of a long path.
    let is_long = |call: &Call| call.1.iter().any(|string| string.len() > 300);
    let (long, differ): (Vec<_>, Vec<_>) =
        differ.into_iter().partition(|(theirs, _)| is_long(theirs));
    assert_eq!(long.len(), 2 * 20, "{same} of {all}");
    for (_, ours) in &long {
        let strings = &ours.as_ref().unwrap().1;
        assert_eq!(*strings, [format!("\"{}\"...", "/".repeat(256))]);
    }
    assert!(differ.is_empty(), "{differ:?}");
}

#[test]
#[ignore = "needs root"]
fn a_path_is_whole_however_much_space_it_needs() {
    if missing_right().is_some() {
        return;
    }
    let beside = tempfile::tempdir().unwrap();
    let folder = beside.path().join("folder");
    std::fs::create_dir(&folder).unwrap();
    // Names about as long as the least space, of one path and of two.
    let script = format!(
        "cd {}; name=$(printf %050d 0); for nth in $(seq 30); do name=${{name}}x; test -e $name; \
         : >$name; mv $name ${{name}}y; mv ${{name}}y z; done",
        folder.display()
    );
    let (same, all, differ) = compared(&script, beside.path());
    assert!(all > 30 * 20, "{all}");
    assert!(differ.is_empty(), "{same} of {all}: {differ:#?}");
}
