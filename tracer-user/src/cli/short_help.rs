//! Lines of `-h` for options that the tracing commands share, under headings. `--help` and the
//! manual have the whole text of each.

use clap::{Arg, Command};

/// Option: its identifier, its line, and whether `-h` leaves it to `--help`.
type Short = (&'static str, &'static str, bool);

/// Commands that have this many options.
const COMMANDS: [&str; 6] = ["attach", "run", "top", "why", "explain", "stat"];

/// Options by purpose.
const SECTIONS: &[(&str, &[Short])] = &[
    (
        "What is traced",
        &[
            ("pid", "These processes, separated by commas", false),
            ("comm", "Processes of this name: 'redis*'", false),
            (
                "named",
                "The control group, or else the processes, of this name",
                true,
            ),
            ("cgroup", "A control group: path, unit, or container", false),
            ("all", "Every process but this one", false),
            ("inherit", "Children too (the default)", true),
            ("no_inherit", "Not the children that they make", false),
            ("follow_wakers", "Who wakes them too, 256 at most", false),
            (
                "no_system",
                "User events alone, which needs no rights",
                false,
            ),
            ("command", "Start this command and trace it", false),
            ("duration", "End after this time: 10s, 500ms", false),
            ("limit", "End after so many events", false),
        ],
    ),
    (
        "Which events",
        &[
            (
                "events",
                "Only these families or types (`tracer-user events` lists them)",
                false,
            ),
            ("add_events", "These families or types too", false),
            ("locks", "Which locks threads wait for, held by whom", false),
            ("no_user", "No user events", false),
            (
                "filter",
                "Only where this is true: 'ret < 0 && comm == \"nginx\"'",
                false,
            ),
        ],
    ),
    (
        "System calls",
        &[
            (
                "syscalls",
                "These too: names, 'stat*', %file, !close, all",
                false,
            ),
            (
                "failed",
                "Of system calls, only those that return an error",
                false,
            ),
            ("calls", "When calls are recorded: both, exit", false),
            (
                "call_cost",
                "Calls in parts of the time: at most 3 per cent",
                true,
            ),
            (
                "switch_cost",
                "Switches in parts of the time, likewise",
                false,
            ),
            ("string_size", "Bytes of what is read and written", false),
            (
                "descriptors",
                "What descriptors are: paths, addresses",
                false,
            ),
        ],
    ),
    (
        "Probes and stacks",
        &[
            ("usdt", "A static probe of the program", false),
            (
                "probe",
                "Each call of a function: 'libc.so.6:fopen(str, str)'",
                false,
            ),
            ("retprobe", "Each return of a function", false),
            ("tracepoint", "Tracepoints of the kernel: 'sock:*'", false),
            (
                "stack",
                "With each event what called what: user,kernel",
                false,
            ),
            (
                "trace_context",
                "For which request of OpenTelemetry a thread works",
                true,
            ),
            (
                "stack_for",
                "Only with these: syscall, fault, switch-out, ...",
                false,
            ),
            ("sample", "So many times a second, of who runs: 99", false),
            ("off_cpu", "Of who was blocked for longer: 1ms", false),
            ("unwind", "Without frame pointers: dwarf", true),
            ("inlined", "Functions put into others, and lines", true),
            (
                "debuginfod",
                "Names from a server, by build identifier",
                true,
            ),
        ],
    ),
    (
        "Spans, and when",
        &[
            ("from", "From this time since the start on: 1.5s", false),
            ("until", "Until this time since the start", false),
            ("at", "At this time since the start: 1.5s", false),
            (
                "window",
                "Sum up the last so long, 10s at most, or all",
                false,
            ),
            (
                "span",
                "NAME, syscall:NAME, FILE:FUNCTION, or NAME=BEGIN..END",
                false,
            ),
            ("slowest", "Explain so many, the slowest", false),
            ("longer_than", "Only those that took longer: 5ms", false),
            ("thread", "Instead of spans, what this thread did", false),
            ("whole", "Instead of spans, all that the command did", false),
            (
                "now",
                "Instead of spans, what threads wait for at this moment",
                false,
            ),
            ("stacks", "With --now, what called what", true),
            ("trace_id", "Only of this trace (OpenTelemetry)", true),
        ],
    ),
    (
        "Output",
        &[
            ("format", "text or json", false),
            ("budget", "At most so many bytes: 4096, 16K", true),
            ("output", "Write to this file", false),
            (
                "to",
                "Write for other tools: perfetto, chrome, ctf, ctf2, parquet",
                false,
            ),
            (
                "by",
                "A row for each thread, process, or comm (name)",
                false,
            ),
            (
                "sort",
                "First what has most of: running, blocked, max, ...",
                false,
            ),
            ("count", "Count in the kernel, and record nothing", false),
            ("no_times", "Not how long counted calls take", true),
            (
                "count_interval",
                "A table of counts every so often: 1s",
                true,
            ),
            ("brief", "At most 40 lines", false),
            (
                "segments",
                "In JSON, each step of each path, in order of time",
                false,
            ),
            ("once", "Print one screen as text, and end", false),
            ("time", "The first column of text", true),
            ("color", "Whether kinds of events have colours", true),
            ("flame", "A flame graph: on-cpu, off-cpu, wakeup", false),
            ("folded", "A flame graph as text", true),
            (
                "log",
                "Into this file, which `read`, `stat`, `why` show",
                false,
            ),
            ("report", "Make a page for a browser when it ends", false),
            ("append", "Go on with a log that is there", true),
            ("force", "Replace the file that is there", false),
            ("log_size", "Most bytes for events in the log", true),
            ("log_policy", "What a full log does", true),
            (
                "full_policy",
                "What a full stream does: flush, loop, until-full",
                true,
            ),
            ("snapshots", "Each flush makes a log, up to so many", true),
            (
                "when",
                "Only around this: 'blocked > 100ms', 'exit != 0'",
                false,
            ),
            ("keep", "How much before that is written", true),
            ("most_logs", "So many logs at most", true),
        ],
    ),
    (
        "Sizes and types",
        &[
            ("ring_size", "Each ring between kernel and tracer", true),
            (
                "stream_size",
                "Stream of events that are not shown yet",
                true,
            ),
            ("thread_ring_size", "Ring of each thread that emits", true),
            ("btf", "Where the kernel does not describe its types", true),
        ],
    ),
];

/// Heading of --span where the spans are those of the page, not the subject of the question.
const OUTPUT: &str = "Output";

/// Replaces the help of each of these options by its line.
pub fn shorten(mut definition: Command) -> Command {
    for command in COMMANDS {
        definition = definition.mut_subcommand(command, |of| {
            let of = of.mut_args(in_a_line);
            if matches!(command, "attach" | "run") {
                of.mut_arg("span", |span| {
                    span.help("Which spans that page has").help_heading(OUTPUT)
                })
            } else {
                of
            }
        });
    }
    definition
}

fn in_a_line(arg: Arg) -> Arg {
    let found = SECTIONS.iter().find_map(|(heading, options)| {
        let mut options = options.iter();
        let option = options.find(|(id, ..)| arg.get_id() == *id)?;
        Some((*heading, *option))
    });
    let Some((heading, (_, line, is_rare))) = found.filter(|_| !arg.is_positional()) else {
        return arg;
    };
    let long = arg.get_long_help().or(arg.get_help()).cloned();
    arg.help(line)
        .long_help(long.unwrap_or_default())
        .help_heading(heading)
        .hide_short_help(is_rare)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lines that a terminal of usual height shows without scrolling twice.
    const MOST_LINES: usize = 60;

    #[test]
    fn the_short_help_has_a_line_an_option_and_the_long_one_has_them_all() {
        let mut definition = super::super::definition();
        definition.build();
        for name in COMMANDS {
            let command = definition.find_subcommand_mut(name).unwrap();
            let short = command.render_help().to_string();
            assert!(short.lines().count() <= MOST_LINES, "{name}: {short}");
            let options = short
                .lines()
                .filter(|line| line.starts_with("  ") && line.trim().starts_with('-'));
            for line in options {
                let what = line.trim().split_once("  ");
                assert!(what.is_some(), "{name}: {line} goes on in the next line");
                assert!(line.len() <= 110, "{name}: {line}");
            }
            let long = command.render_long_help().to_string();
            let shown = command.get_arguments().filter(|arg| !arg.is_hide_set());
            for arg in shown.filter_map(Arg::get_long) {
                assert!(long.contains(&format!("--{arg}")), "{name}: --{arg}");
            }
        }
    }

    #[test]
    fn each_line_is_of_an_option() {
        let definition = super::super::definition();
        let has = |id: &str| {
            let mut commands = definition.get_subcommands();
            commands.any(|command| command.get_arguments().any(|arg| arg.get_id() == id))
        };
        for (id, ..) in SECTIONS.iter().flat_map(|(_, options)| *options) {
            assert!(has(id), "{id}");
        }
    }
}
