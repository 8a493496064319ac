//! `tracer-user export`: converts a log to the formats of other tools.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, ensure};

use super::exit;
use super::log_filter::{FILTER_HEADING, LogFilterArgs};
use super::output_beside;
use tracer_export::{ExportFormat, ExportSetup, FORMATS, TableChoice, export};
use tracer_tables::{TABLES, TableDefinition};

/// Convert a trace log to what other tools open
///
/// perfetto: one file for ui.perfetto.dev and trace_processor: the scheduling of CPUs and threads,
/// process and thread names, wake-ups as flows, what has a beginning and an end as a slice (system
/// calls, interrupts, idle CPUs, spans, pairs of user events such as `x-start` and `x-done`), and
/// every other event as an instant on its thread's track, with what it carries. Of threads that are
/// not traced only the moments are known at which they gave a CPU to a traced thread or got one
/// from it.
///
/// chrome: one file of the JSON trace event format: a slice for each time that a thread was on a
/// CPU, slices for what else has a beginning and an end, every other event as an instant. Perfetto
/// files are smaller and show more.
///
/// ctf: a folder in the Common Trace Format 1.8 for babeltrace2 and Trace Compass. Times are exact;
/// lost events are shown as discarded. Its dates go on from the log's first moment: where the date
/// was set meanwhile, `read` follows that and this format cannot.
///
/// ctf2: the same in the Common Trace Format 2, whose description is JSON, for readers of that
/// (babeltrace2 from 2.1 on).
///
/// parquet: one file with a table, for DuckDB, Spark, ClickHouse. Without --table it has a row an
/// event: time, ns, type, class, pid, tid, comm, cpu, prog_address, thread_id, truncated, data
/// (JSON as text), raw (bytes), duration_ns (of a system call that ends, where its beginning was
/// recorded), stack and stack_ends; docs/tables.md has all tables.
#[derive(Debug, clap::Args)]
pub struct ExportArgs {
    /// The log
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// What to convert it to: perfetto, chrome, ctf, ctf2 or parquet
    // A time is taken too, as it was before there was --until.
    #[arg(
        long,
        value_name = "FORMAT",
        required = true,
        allow_negative_numbers = true
    )]
    to: Vec<String>,
    /// The file to write, or `-` for the standard output; for ctf and ctf2, the folder. Without it,
    /// the log's name with .pftrace, .json, .ctf, .ctf2, .parquet or .TABLE.parquet. It is there
    /// when all of it is written; until then a folder (and a file, where the file system knows no
    /// files without a name) is called OUT.RANDOM.partial. What a killed export left of that, the
    /// next one to OUT removes
    #[arg(short, long, value_name = "OUT")]
    output: Option<PathBuf>,
    /// Replace what is there already
    #[arg(long)]
    force: bool,
    /// Of parquet, which table: events (the default), threads, states, calls, spans, path, stacks,
    /// waits, losses. The options that choose events choose what it is made of
    #[arg(long, value_name = "NAME")]
    table: Option<String>,
    /// Of parquet, the host that rows name as theirs
    #[arg(long, value_name = "NAME")]
    host: Option<String>,
    /// Of parquet, the boot that rows name as theirs (/proc/sys/kernel/random/boot_id)
    #[arg(long, value_name = "ID")]
    boot_id: Option<String>,
    #[command(flatten)]
    filter: LogFilterArgs,
    /// Only events up to this moment, given as for --from
    #[arg(
        long,
        value_name = "TIME",
        allow_negative_numbers = true,
        help_heading = FILTER_HEADING
    )]
    until: Option<String>,
}

/// Checked configuration of `export`.
#[derive(Clone, Debug)]
pub struct ExportConfig {
    setup: ExportSetup,
}

impl TryFrom<ExportArgs> for ExportConfig {
    type Error = anyhow::Error;

    fn try_from(args: ExportArgs) -> anyhow::Result<Self> {
        let (format, to) = split_to(&args.to)?;
        ensure!(
            to.is_none() || args.until.is_none(),
            "--to {} and --until are two times; give --until alone",
            to.unwrap_or_default()
        );
        let until = args.until.as_deref().or(to);
        let has_rows = args.table.is_some() || args.host.is_some() || args.boot_id.is_some();
        ensure!(
            !has_rows || format.name == "parquet",
            "--table, --host and --boot-id are of tables; give --to parquet"
        );
        let table = table(args.table.as_deref())?;
        let extension = match table.name {
            "events" => format.extension.to_owned(),
            // Several tables of a log lie beside each other.
            name => format!("{name}.{}", format.extension),
        };
        Ok(Self {
            setup: ExportSetup {
                output: output_beside(args.output, &args.file, &extension),
                file: args.file,
                wanted: args.filter.wanted(until)?,
                format,
                force: args.force,
                table: TableChoice {
                    table,
                    host: args.host,
                    boot_id: args.boot_id,
                },
            },
        })
    }
}

/// Returns the table of this name.
fn table(name: Option<&str>) -> anyhow::Result<&'static TableDefinition> {
    let Some(name) = name else {
        return Ok(TableDefinition::events());
    };
    TableDefinition::named(name).with_context(|| {
        let known: Vec<_> = TABLES.iter().map(|table| table.name).collect();
        format!("--table {name} is none; known are {}", known.join(", "))
    })
}

/// Separates the format from the time.
fn split_to(typed: &[String]) -> anyhow::Result<(&'static ExportFormat, Option<&str>)> {
    let (mut format, mut time) = (None, None);
    for word in typed {
        let is_second = match ExportFormat::named(word) {
            Some(known) => format.replace(known).is_some(),
            // A word that is neither is refused as a format: that is what is asked for first.
            None if format.is_none() && typed.len() == 1 => break,
            None => time.replace(word.as_str()).is_some(),
        };
        ensure!(
            !is_second,
            "--to {word:?} is given beside another of its kind; give one format, and a time by --until"
        );
    }
    let format = format.with_context(|| {
        let known: Vec<_> = FORMATS.iter().map(|format| format.name).collect();
        format!(
            "--to {} names no format; known are {}",
            typed.join(" "),
            known.join(", ")
        )
    })?;
    Ok((format, time))
}

/// Converts the log.
///
/// # Errors
///
/// The log cannot be read, or the output is there already or cannot be written.
pub fn run(config: &ExportConfig) -> anyhow::Result<ExitCode> {
    export(&config.setup).map(exit::from_outcome)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(words: &[&str]) -> anyhow::Result<(&'static str, Option<String>)> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        split_to(&words).map(|(format, time)| (format.name, time.map(str::to_owned)))
    }

    #[test]
    fn a_format_and_a_time_go_by_the_same_option() {
        assert_eq!(split(&["ctf"]).unwrap(), ("ctf", None));
        let both = ("parquet", Some("2s".to_owned()));
        assert_eq!(split(&["parquet", "2s"]).unwrap(), both);
        assert_eq!(split(&["2s", "parquet"]).unwrap(), both);
    }

    #[test]
    fn one_of_each_and_a_format_always() {
        for words in [
            &["2s"][..],
            &["ctf", "chrome"],
            &["ctf", "1s", "2s"],
            &["pdf"],
        ] {
            let refusal = split(words).unwrap_err().to_string();
            assert!(refusal.starts_with("--to "), "{refusal}");
        }
        assert!(
            split(&["pdf"])
                .unwrap_err()
                .to_string()
                .contains("perfetto, chrome")
        );
    }
}
