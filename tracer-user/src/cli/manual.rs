//! Texts of the manual pages and the long help in addition to the options: synopses and examples.

use super::read::EXIT_CODES as OF_A_LOG;

/// Texts of a command's page in addition to its definition.
#[derive(Clone, Copy, Debug)]
pub struct ManualPage {
    /// Name of the command; empty for the program itself.
    pub command: &'static str,
    /// Synopsis, a line for each form of the call.
    pub synopsis: &'static [&'static str],
    /// Examples: a task, and the line that does it.
    pub examples: &'static [(&'static str, &'static str)],
    /// Meaning of its exit codes.
    pub exit: &'static str,
}

const OF_A_TRACE: &str = "\
0 the trace is complete; 1 events were lost; 2 it failed, or a process cannot be traced.";

/// Pages, in the order of the commands.
pub const PAGES: &[ManualPage] = &[
    ManualPage {
        command: "",
        synopsis: &["tracer-user [-v] COMMAND [OPTION]... [ARGUMENT]..."],
        examples: &[
            (
                "What does a program do in its first moments?",
                "sudo tracer-user run -- ls",
            ),
            (
                "What does a running one do?",
                "sudo tracer-user attach $(pidof nginx) --duration 5s",
            ),
            (
                "What can be traced here, and what is missing?",
                "tracer-user doctor",
            ),
        ],
        exit: "0 done; 1 done, but events were lost, or the log is damaged or was not completed; 2 failed.",
    },
    ManualPage {
        command: "attach",
        synopsis: &[
            "tracer-user attach [OPTION]... PID...",
            "tracer-user attach [OPTION]... --comm NAME | --cgroup GROUP | --named NAME | --all",
        ],
        examples: &[
            (
                "Five seconds of a process and the children it makes, without context switches",
                "sudo tracer-user attach 4711 --events fork,exec,exit,signal --duration 5s",
            ),
            (
                "Which files do the processes of redis open?",
                "sudo tracer-user attach --comm 'redis*' --syscalls openat --events exec",
            ),
            (
                "A flight recorder: the newest events, in a log, when SIGUSR1 or Ctrl-C asks for them",
                "sudo tracer-user attach --cgroup nginx.service --log ring.log --full-policy loop",
            ),
            (
                "Who calls malloc, and with what? No library is needed for that",
                "sudo tracer-user attach 4711 --probe libc.so.6:malloc --events probe --limit 20",
            ),
            (
                "A log of the two seconds before a thread had to wait long for a CPU, whenever that happens",
                "sudo tracer-user attach 4711 --when 'runnable>2ms' --keep 2s --log slow",
            ),
            (
                "The user events of one's own process, without privileges",
                "tracer-user attach --no-system 4711",
            ),
        ],
        exit: OF_A_TRACE,
    },
    ManualPage {
        command: "run",
        synopsis: &["tracer-user run [OPTION]... [--] COMMAND [ARGUMENT]..."],
        examples: &[
            (
                "Which programs does a build run, and how long after one another?",
                "sudo tracer-user run --events exec,exit --time delta -- make -j2",
            ),
            (
                "Which files does it look for? All calls with the name of a file, but no stat",
                "sudo tracer-user run --syscalls '%file,!*stat*' -- ls",
            ),
            (
                "For programs: one JSON object a line, apart from what the command writes",
                "sudo tracer-user run --format json -o ls.json -- ls && jq -r .type ls.json | sort | uniq -c",
            ),
            (
                "Into a log, to be looked at later",
                "sudo tracer-user run --log make.log -- make && tracer-user info make.log",
            ),
        ],
        exit: "\
The status of the command when that is not 0 (128 and the signal number when a signal ended it); else 0 \
the trace is complete; 1 events were lost; 2 the command cannot be started or traced.",
    },
    ManualPage {
        command: "read",
        synopsis: &["tracer-user read [OPTION]... FILE"],
        examples: &[
            (
                "What one process did in the second second",
                "tracer-user read trace.log --pid 4711 --from 1s --until 2s",
            ),
            (
                "The user events called request, as a table",
                "tracer-user read trace.log --event request --format csv -o requests.csv",
            ),
            (
                "What it sent and received, of a log with all system calls",
                "tracer-user read trace.log --events syscall --syscalls '%network,read,write'",
            ),
            (
                "What is being recorded at this moment",
                "tracer-user read trace.log --follow",
            ),
        ],
        exit: OF_A_LOG,
    },
    ManualPage {
        command: "info",
        synopsis: &["tracer-user info [OPTION]... FILE"],
        examples: &[
            (
                "What a log has, and what it lacks",
                "tracer-user info trace.log",
            ),
            (
                "How many events were lost?",
                "tracer-user info --format json trace.log | jq .lost",
            ),
        ],
        exit: OF_A_LOG,
    },
    ManualPage {
        command: "stat",
        synopsis: &[
            "tracer-user stat [OPTION]... FILE",
            "tracer-user stat [OPTION]... -p PID | --comm NAME | --cgroup GROUP | --all",
            "tracer-user stat [OPTION]... -- COMMAND [ARGUMENT]...",
        ],
        examples: &[
            (
                "Who waited for a CPU, and how long",
                "tracer-user stat trace.log",
            ),
            (
                "The slowest system call",
                "tracer-user stat --format json trace.log | jq '.syscalls | max_by(.took.max_ns)'",
            ),
        ],
        exit: OF_A_LOG,
    },
    ManualPage {
        command: "why",
        synopsis: &[
            "tracer-user why [OPTION]... FILE",
            "tracer-user why [OPTION]... -p PID | --comm NAME | --cgroup GROUP | --all",
            "tracer-user why [OPTION]... -- COMMAND [ARGUMENT]...",
            "tracer-user why --now [OPTION]... -p PID | --comm NAME | --cgroup GROUP | --all",
        ],
        examples: &[
            (
                "A program hangs: what does each of its threads wait for, and who has it?",
                "tracer-user why --now -p $(pidof server)",
            ),
            (
                "Why are requests slow? They lie between the user events \"request begin\" and \
                 \"request end\"",
                "tracer-user why --span request trace.log",
            ),
            (
                "Why does a server sync so long? Ten seconds of it",
                "tracer-user why -p $(pidof nginx) --duration 10s --span syscall:fdatasync",
            ),
            (
                "Why do reads take longer than 5 ms? They were recorded with --syscalls read",
                "tracer-user why --span syscall:read --longer-than 5ms trace.log",
            ),
            (
                "Requests that begin on one thread and end on another, by the first 8 bytes of both \
                 events",
                "tracer-user why --span 'req=accepted[0:8]..answered[0:8]' trace.log",
            ),
            (
                "What did a thread wait for in the second second?",
                "tracer-user why --thread 4713 --from 1s --until 2s trace.log",
            ),
        ],
        exit: OF_A_LOG,
    },
    ManualPage {
        command: "compare",
        synopsis: &[
            "tracer-user compare [OPTION]... A B",
            "tracer-user compare [OPTION]... --a PATTERN... --b PATTERN...",
        ],
        examples: &[
            (
                "What takes longer than yesterday?",
                "tracer-user compare yesterday.log today.log",
            ),
            (
                "The same with several runs of each, which tells chance from change",
                "tracer-user compare --a 'old*.log' --b 'new*.log'",
            ),
            (
                "For programs: what is clearly slower, and the first cause",
                "tracer-user compare --format json a.log b.log | \
                 jq '.subjects[] | select(.verdict == \"slower\") | [.name, .causes[0].cause]'",
            ),
        ],
        exit: OF_A_LOG,
    },
    ManualPage {
        command: "explain",
        synopsis: &[
            "tracer-user explain [OPTION]... FILE",
            "tracer-user explain [OPTION]... -p PID | --comm NAME | --cgroup GROUP | --all",
            "tracer-user explain [OPTION]... -- COMMAND [ARGUMENT]...",
        ],
        examples: &[
            (
                "Why is this program slow?",
                "sudo tracer-user explain -- ./server --once",
            ),
            (
                "Ten seconds of one that runs",
                "sudo tracer-user explain -p $(pidof server) --duration 10s",
            ),
            (
                "A log, in two kilobytes for a program that reasons",
                "tracer-user explain trace.log --format json --budget 2K",
            ),
        ],
        exit: OF_A_LOG,
    },
    ManualPage {
        command: "top",
        synopsis: &[
            "tracer-user top [OPTION]... [PID...]",
            "tracer-user top [OPTION]... --comm NAME | --cgroup GROUP | --all",
            "tracer-user top [OPTION]... LOG",
        ],
        examples: &[
            ("What do all threads do now?", "sudo tracer-user top"),
            (
                "What does nginx wait for, and which system calls does it make?",
                "sudo tracer-user top --comm nginx --syscalls all",
            ),
            (
                "The spans of a program, by functions of it",
                "sudo tracer-user top 4711 --span libc.so.6:malloc",
            ),
            (
                "One screen of the next five seconds, for a script",
                "sudo tracer-user top 4711 --once --window 5s",
            ),
            (
                "The threads that are blocked now, and in what",
                "sudo tracer-user top --once --format json | jq '.threads[].now.in // empty'",
            ),
            (
                "A log, from its third second on",
                "tracer-user top trace.log --at 3s",
            ),
            (
                "User events of one's own process, without rights",
                "tracer-user top --no-system 4711",
            ),
        ],
        exit: OF_A_LOG,
    },
    ManualPage {
        command: "report",
        synopsis: &["tracer-user report [OPTION]... FILE --output OUT"],
        examples: &[
            (
                "A page of all of it",
                "tracer-user report trace.log -o trace.html && xdg-open trace.html",
            ),
            (
                "Of one process, from the second second on",
                "tracer-user report trace.log --pid 4711 --from 1s -o trace.html",
            ),
        ],
        exit: OF_A_LOG,
    },
    ManualPage {
        command: "export",
        synopsis: &["tracer-user export [OPTION]... FILE --to FORMAT --output OUT"],
        examples: &[
            (
                "For ui.perfetto.dev",
                "tracer-user export trace.log --to perfetto -o trace.pftrace",
            ),
            (
                "For SQL",
                "tracer-user export trace.log --to parquet -o trace.parquet && \
                 duckdb -c \"select type, count(*) from 'trace.parquet' group by type\"",
            ),
            (
                "Its first second, for babeltrace2",
                "tracer-user export trace.log --to ctf --until 1s -o trace.ctf && babeltrace2 trace.ctf",
            ),
        ],
        exit: OF_A_LOG,
    },
    ManualPage {
        command: "probes",
        synopsis: &["tracer-user probes [OPTION]... PID [TEXT]"],
        examples: &[
            (
                "Which functions have malloc in their names?",
                "sudo tracer-user probes 4711 malloc",
            ),
            (
                "Which static probes are there?",
                "sudo tracer-user probes 4711 | grep usdt",
            ),
            (
                "The largest functions of a program",
                "tracer-user probes --format json /bin/ls | jq -s 'sort_by(-.bytes)[:9]'",
            ),
        ],
        exit: "0 done; 2 failed.",
    },
    ManualPage {
        command: "doctor",
        synopsis: &["tracer-user doctor [OPTION]..."],
        examples: &[
            (
                "What is there for root, and what for me?",
                "sudo tracer-user doctor; tracer-user doctor",
            ),
            (
                "What is to be done, for a script",
                "tracer-user doctor --format json | jq -r '.checks[].remedy // empty'",
            ),
        ],
        exit: "0 everything is there; 2 something is missing without which the kernel's events cannot be traced.",
    },
    ManualPage {
        command: "events",
        synopsis: &["tracer-user events [OPTION]..."],
        examples: &[
            (
                "The types whose recording is not to be noticed",
                "tracer-user events | grep rare",
            ),
            (
                "The fields of a type",
                "tracer-user events --format json | jq 'select(.name == \"linux_trace_fork\").fields'",
            ),
        ],
        exit: "0 done; 2 failed.",
    },
    ManualPage {
        command: "snapshot",
        synopsis: &["tracer-user snapshot --log FILE PID"],
        examples: &[
            (
                "A flight recorder of nginx, which holds its newest 64 MiB of events",
                "sudo tracer-user attach --named nginx --log ring --full-policy loop --stream-size 64M --snapshots 8",
            ),
            (
                "What has just happened there?",
                "sudo tracer-user snapshot --log ring 4711 && tracer-user stat ring.1",
            ),
        ],
        exit: "0 the snapshot is there; 2 it is not.",
    },
    ManualPage {
        command: "ship",
        synopsis: &["tracer-user ship --spool FOLDER --to URL [OPTION]..."],
        examples: &[
            (
                "What the recorders of this host put into a folder, to S3",
                "AWS_REGION=eu-west-1 tracer-user ship --spool /var/spool/slices --to s3://traces/fleet",
            ),
            (
                "Once, into a folder, and look",
                "tracer-user ship --spool /var/spool/slices --to file:///srv/traces --once && \
                 duckdb -c \"select * from '/srv/traces/spans/*/*/*.parquet' order by duration_ns desc limit 9\"",
            ),
        ],
        exit: "0 done; 1 something was dropped, and is counted; 2 failed, or with --once something could \
               not be shipped, and waits in the queue.",
    },
    ManualPage {
        command: "mcp",
        synopsis: &["tracer-user mcp [--allow-record]"],
        examples: &[(
            "What a client starts, where it may record too",
            "tracer-user mcp --allow-record",
        )],
        exit: "0 the client has left; 2 failed.",
    },
    ManualPage {
        command: "serve",
        synopsis: &["tracer-user serve [--socket PATH] [--idle TIME]"],
        examples: &[
            (
                "Until Ctrl-C, for programs of all users, where there is no systemd",
                "sudo tracer-user serve",
            ),
            (
                "For programs that are started with LINUX_TRACE_AGENT=/run/mine/agent.sock",
                "sudo tracer-user serve --socket /run/mine/agent.sock",
            ),
        ],
        exit: "0 it was ended, or had nothing to do; 2 it cannot load eBPF programs, or cannot listen.",
    },
    ManualPage {
        command: "completion",
        synopsis: &["tracer-user completion bash|zsh|fish"],
        examples: &[
            (
                "What bash reads, where no package has installed it: source <(tracer-user completion bash)",
                "tracer-user completion bash",
            ),
            (
                "For this shell, where it is fish",
                "tracer-user completion fish | source",
            ),
        ],
        exit: "0 done; 2 failed.",
    },
];

/// Adds these texts to the definition: synopses, and examples in the long help.
pub fn complete(mut definition: clap::Command) -> clap::Command {
    for page in PAGES {
        definition = if page.command.is_empty() {
            with(definition, page)
        } else {
            definition.mut_subcommand(page.command, |command| with(command, page))
        };
    }
    definition
}

fn with(command: clap::Command, page: &ManualPage) -> clap::Command {
    let usage = page.synopsis.join("\n       ");
    let examples = page
        .examples
        .iter()
        .map(|(what, line)| format!("  # {what}\n  {line}\n"));
    let exit = format!("Exit codes: {}", page.exit);
    let long = format!("Examples:\n{}\n{exit}", examples.collect::<String>());
    command
        .override_usage(usage)
        .after_help(format!(
            "{exit}\n--help has all options, what they take, and examples."
        ))
        .after_long_help(long)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the arguments of each call of the program in an example.
    fn calls(line: &str) -> Vec<Vec<String>> {
        let commands = line.split("&&").flat_map(|part| part.split(['|', ';']));
        let of_ours = commands.filter_map(|part| {
            let (_, words) = part.split_once("tracer-user ")?;
            let words = words.replace("$(pidof nginx)", "1").replace('\'', "");
            Some(words.split_whitespace().map(str::to_owned).collect())
        });
        of_ours.collect()
    }

    #[test]
    fn every_command_has_a_page_and_every_example_is_parsed() {
        let definition = super::super::definition();
        let mut named = vec![""];
        named.extend(definition.get_subcommands().map(clap::Command::get_name));
        let pages: Vec<&str> = PAGES.iter().map(|page| page.command).collect();
        assert_eq!(pages, named);
        for (_, line) in PAGES.iter().flat_map(|page| page.examples) {
            let calls = calls(line);
            assert!(!calls.is_empty(), "{line}");
            for words in calls {
                let words = std::iter::once("tracer-user".to_owned()).chain(words);
                let parsed = definition.clone().try_get_matches_from(words);
                assert!(parsed.is_ok(), "{line}: {}", parsed.unwrap_err());
            }
        }
    }
}
