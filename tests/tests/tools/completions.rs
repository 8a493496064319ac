//! Completions by Tab in real shells: bash, zsh and fish in a real terminal. The completed line is
//! then run, and a function of the shell prints the arguments that it was given.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Child, Command};

use tests::dist;
use tests::terminal::Terminal;

/// A shell whose prompt is `$ `, and how it is set up.
struct Shell {
    name: &'static str,
    /// Becomes that shell.
    start: &'static str,
    /// Reads the script, which is at this path below the distribution.
    script: &'static str,
    /// Lines that read it, `SCRIPT` being its path, and define what is called instead of the
    /// program. The scripts ask the program itself.
    set_up: &'static [&'static str],
}

const PRINT: &str = "tracer-user() { printf 'got:'; printf '<%s>' \"$@\"; echo; }";

const SHELLS: [Shell; 3] = [
    Shell {
        name: "bash",
        start: "true",
        script: "share/bash-completion/completions/tracer-user",
        set_up: &["source SCRIPT", PRINT],
    },
    Shell {
        name: "zsh",
        start: "exec env 'PS1=$ ' zsh -f",
        script: "share/zsh/site-functions/_tracer-user",
        set_up: &[
            "autoload -U compinit && compinit -u -D",
            "source SCRIPT",
            PRINT,
        ],
    },
    Shell {
        name: "fish",
        start: "exec fish --no-config -C \"function fish_prompt; printf '\\$ '; end\"",
        script: "share/fish/vendor_completions.d/tracer-user.fish",
        set_up: &[
            "set fish_autosuggestion_enabled 0",
            "source SCRIPT",
            "function tracer-user; printf 'got:'; printf '<%s>' $argv; echo; end",
        ],
    },
];

/// A program that waits, under that name, until it is dropped.
struct Named(Child);

impl Named {
    fn start(folder: &Path, name: &str) -> Self {
        let path = folder.join(name);
        // A link: a program that is written while another thread starts one cannot be started.
        symlink("/bin/sleep", &path).unwrap();
        Self(Command::new(path).arg("1000").spawn().unwrap())
    }

    fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Named {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Types lines, each up to where Tab is pressed, and compares the arguments that come of it.
fn complete(shell: &Shell, folder: &Path, lines: &[(String, Vec<String>)]) {
    let dist = dist::folder().unwrap();
    let home = folder.to_str().unwrap();
    let terminal = Terminal::start((200, 50), &[]).unwrap();
    let script = dist.join(shell.script);
    let script = script.to_str().unwrap();
    // tmux gives a new shell its own client's path, whatever it is asked for.
    let cd = format!(
        "cd {home}; export HOME={home} PATH={}/bin:$PATH",
        dist.display()
    );
    let set_up = shell
        .set_up
        .iter()
        .map(|line| line.replace("SCRIPT", script));
    for line in [cd, shell.start.to_owned()].into_iter().chain(set_up) {
        enter(&terminal, &line);
    }
    for (typed, expected) in lines {
        enter(&terminal, "clear");
        terminal.text(typed).unwrap();
        wait_for(&terminal, typed, |last| last.ends_with(typed.as_str()));
        terminal.keys(&["Tab"]).unwrap();
        wait_for(
            &terminal,
            &format!("{}: {typed}, completed", shell.name),
            |last| last.len() > typed.len() + 2,
        );
        terminal.keys(&["Enter"]).unwrap();
        let expected: String = expected.iter().map(|word| format!("<{word}>")).collect();
        let what = format!("{}: got:{expected}", shell.name);
        let is_there = |screen: &str| screen.lines().any(|line| line == format!("got:{expected}"));
        terminal.wait_for(&what, is_there).unwrap();
    }
}

/// A line, after which there is a prompt again.
fn enter(terminal: &Terminal, line: &str) {
    terminal.text(line).unwrap();
    terminal.keys(&["Enter"]).unwrap();
    wait_for(terminal, line, |last| last == "$");
}

fn wait_for(terminal: &Terminal, what: &str, is_it: impl Fn(&str) -> bool) {
    let is_last = |screen: &str| {
        is_it(
            screen
                .trim_end()
                .lines()
                .last()
                .unwrap_or_default()
                .trim_end(),
        )
    };
    terminal.wait_for(what, is_last).unwrap();
}

#[test]
fn every_shell_completes_commands_types_and_probes_and_runs_no_name() {
    let folder = tempfile::tempdir().unwrap();
    // The kernel has 15 bytes of a name.
    let hostile = Named::start(folder.path(), "zq$(>pwned);'\"x");
    let _escape = Named::start(folder.path(), "zq\u{1b}[2Jx");
    let _option = Named::start(folder.path(), "--output=zq");
    let pid = hostile.pid();
    let line = |typed: &str, got: &str| {
        let got = got.split(' ').map(str::to_owned).collect();
        (typed.to_owned(), got)
    };
    let lines = [
        line("tracer-user att", "attach"),
        line("tracer-user attach --cgr", "attach --cgroup"),
        line(
            "tracer-user attach 1 --events fork,thread-cr",
            "attach 1 --events fork,thread-create",
        ),
        line(
            &format!("tracer-user attach {pid} --probe libc.so.6:posix_memal"),
            &format!("attach {pid} --probe libc.so.6:posix_memalign"),
        ),
        line(
            "tracer-user attach --comm zq",
            "attach --comm zq$(>pwned);'\"x",
        ),
        line(
            "tracer-user attach --comm=zq",
            "attach --comm=zq$(>pwned);'\"x",
        ),
    ];
    for shell in &SHELLS {
        complete(shell, folder.path(), &lines);
        assert!(!folder.path().join("pwned").exists(), "{}", shell.name);
    }
}

#[test]
fn a_name_that_is_an_option_is_not_offered() {
    let folder = tempfile::tempdir().unwrap();
    let _option = Named::start(folder.path(), "--output=zq");
    for question in [
        &["zsh", "tracer-user", "attach", "--comm", ""][..],
        &["bash", "tracer-user attach --comm ", ""],
    ] {
        let mut command = Command::new(dist::tracer_user().unwrap());
        let said = command.arg("__complete").args(question).output().unwrap();
        let said = String::from_utf8(said.stdout).unwrap();
        assert!(said.contains("sleep") || said.contains("tools"), "{said}");
        assert!(!said.contains("--output=zq"), "{said}");
    }
}
