//! `tracer-user probes`: points of a process, or of a file, that can be probed.

use std::collections::HashMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::rc::Rc;

use serde::Serialize;

use super::output_options::FormatArgs;
use super::pid;
use tracer_binary::probes::{
    Binary, BinaryError, Function, StaticProbe, Used, argument_counts, find_in_process, here,
};
use tracer_event::document::object_line;
use tracer_text::escape::harmless_line as printable;
use tracer_text::say;

/// List what could be probed in a process, or in a file: static probes and functions
///
/// A line is what `--usdt` or `--probe` (or `--retprobe`) takes. A program and its libraries may
/// have some ten thousand functions: give a part of what is searched for.
#[derive(Debug, clap::Args)]
pub struct ProbesArgs {
    /// Process to look at, or program or library: what is not made of digits is a path. A file
    /// whose name is, such as 7, is given as ./7
    #[arg(value_name = "PID|FILE")]
    subject: String,
    /// Show only those in whose FILE:FUNCTION or FILE:PROVIDER:NAME this occurs
    #[arg(value_name = "TEXT")]
    filter: Option<String>,
    #[command(flatten)]
    format: FormatArgs,
}

/// Checked configuration of `probes`.
#[derive(Clone, Debug)]
pub struct ProbesConfig {
    subject: Subject,
    filter: String,
    is_json: bool,
}

/// Process or file that is searched for points.
#[derive(Clone, Debug)]
enum Subject {
    Process(i32),
    File(PathBuf),
}

impl Subject {
    fn typed(typed: &str) -> anyhow::Result<Self> {
        let is_integer = |typed: &str| typed.parse::<i128>().is_ok();
        if is_integer(typed) || typed.is_empty() {
            return Ok(Self::Process(pid(typed)?));
        }
        Ok(Self::File(typed.into()))
    }

    /// Returns the files that are searched.
    fn files(&self) -> anyhow::Result<Vec<Used>> {
        let pid = match self {
            Self::File(path) => return Ok(vec![here(path.clone())]),
            Self::Process(pid) => *pid,
        };
        let mut warnings = Vec::new();
        let used = find_in_process(pid, &mut warnings).map_err(|source| {
            let what = if source.kind() == io::ErrorKind::NotFound {
                format!("no process has the pid {pid}")
            } else {
                format!("the files of process {pid} cannot be looked at (another user's need root)")
            };
            anyhow::Error::new(source).context(what)
        })?;
        warnings.iter().for_each(|warning| say(warning));
        Ok(used)
    }
}

impl std::fmt::Display for Subject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Process(pid) => write!(f, "process {pid}"),
            Self::File(path) => write!(f, "{}", path.display()),
        }
    }
}

impl TryFrom<ProbesArgs> for ProbesConfig {
    type Error = anyhow::Error;

    fn try_from(args: ProbesArgs) -> anyhow::Result<Self> {
        Ok(Self {
            subject: Subject::typed(&args.subject)?,
            filter: args.filter.unwrap_or_default(),
            is_json: args.format.is_json(),
        })
    }
}

/// Prints the list.
///
/// # Errors
///
/// The process or the file cannot be read, or the list cannot be printed.
pub fn run(config: &ProbesConfig) -> anyhow::Result<ExitCode> {
    let used = config.subject.files()?;
    let is_file = matches!(config.subject, Subject::File(_));
    let (mut listed, mut stripped) = (Vec::new(), Vec::new());
    for used in used {
        let binary = match used.open() {
            Ok(binary) => binary,
            // It is the one that was asked for.
            Err(error) if is_file => return Err(error.into()),
            // What is mapped and no program has no probes.
            Err(BinaryError::NotOne { .. } | BinaryError::OtherMachine { .. }) => continue,
            Err(error) => {
                say(&format!("{:#}", anyhow::Error::new(error)));
                continue;
            }
        };
        let points = match points(&binary) {
            Ok(points) => points,
            Err(error) if is_file => return Err(error),
            // The others may be as they should.
            Err(error) => {
                say(&format!("{error:#}"));
                continue;
            }
        };
        let is_stripped = binary.is_stripped()?;
        let points = points.into_iter();
        let fitting = points.filter_map(|(point, is_exported)| {
            let fits = point.fits(&config.filter)?;
            Some((fits.before(is_exported), point, is_stripped))
        });
        listed.extend(fitting);
        if is_stripped {
            stripped.push(binary.path().to_string_lossy().into_owned());
        }
    }
    if !config.filter.is_empty() {
        listed.sort_by_key(|(order, ..)| *order);
    }
    let mut out = io::BufWriter::new(io::stdout().lock());
    for (_, point, stripped) in &listed {
        if config.is_json {
            let line = Line {
                point,
                stripped: *stripped,
            };
            out.write_all(object_line(&line).as_bytes())?;
        } else {
            writeln!(out, "{point}")?;
        }
    }
    out.flush()?;
    if listed.is_empty() {
        say(&found_nothing(&config.subject, &config.filter));
    }
    if !stripped.is_empty() && !config.is_json {
        say(&are_stripped(&stripped));
    }
    Ok(ExitCode::SUCCESS)
}

fn found_nothing(subject: &Subject, filter: &str) -> String {
    let subject_text = subject.to_string();
    let subject_text = printable(&subject_text);
    if filter.is_empty() {
        return format!("{subject_text} has nothing that could be probed");
    }
    format!(
        "nothing of {subject_text} that could be probed has {:?} in its name; without it all is listed",
        printable(filter)
    )
}

/// Names the files of which not all functions are listed.
fn are_stripped(files: &[String]) -> String {
    let are = match files {
        [file] => {
            format!("{file} is stripped: of its functions, only those that it exports are listed")
        }
        [first, ..] => format!(
            "{} files are stripped, such as {first}: of their functions, only those that they export are listed",
            files.len()
        ),
        [] => String::new(),
    };
    format!("{are} (packages with symbols, in Debian -dbgsym, have the others)")
}

/// Point that can be probed.
#[derive(Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum Point {
    Usdt {
        provider: String,
        name: String,
        #[serde(serialize_with = "as_text")]
        file: Rc<Path>,
        /// Number of sites of this probe in the file.
        #[serde(rename = "places")]
        sites: usize,
        /// Locations of the arguments, at the first site.
        arguments: String,
        /// Whether the program checks if a tracer listens.
        semaphore: bool,
    },
    Function {
        symbol: String,
        #[serde(serialize_with = "as_text")]
        file: Rc<Path>,
        bytes: u64,
    },
}

/// Point as a JSON object.
#[derive(Serialize)]
struct Line<'a> {
    #[serde(flatten)]
    point: &'a Point,
    /// Whether the file is stripped: of its functions, only the exported ones are listed.
    stripped: bool,
}

/// Returns the points of a file, each with whether the file has it for others.
fn points(binary: &Binary) -> anyhow::Result<Vec<(Point, bool)>> {
    let file: Rc<Path> = binary.path().into();
    let points = static_points(&file, binary.static_probes()?).into_iter();
    let mut points: Vec<_> = points.map(|point| (point, true)).collect();
    let functions = binary.functions()?.into_iter();
    let functions = functions.filter(|function| !function.is_indirect);
    points.extend(functions.map(|function| {
        let Function {
            name: symbol,
            size: bytes,
            is_exported,
            ..
        } = function;
        let file = Rc::clone(&file);
        let point = Point::Function {
            symbol,
            file,
            bytes,
        };
        (point, is_exported)
    }));
    Ok(points)
}

/// Merges the sites of one probe into one point.
fn static_points(file: &Rc<Path>, probes: Vec<StaticProbe>) -> Vec<Point> {
    let mut points: Vec<Point> = Vec::new();
    let mut known: HashMap<(String, String), usize> = HashMap::new();
    for probe in probes {
        let name = (probe.provider.clone(), probe.name.clone());
        match known.get(&name).and_then(|index| points.get_mut(*index)) {
            Some(Point::Usdt { sites, .. }) => *sites += 1,
            _ => {
                known.insert(name, points.len());
                points.push(Point::Usdt {
                    provider: probe.provider,
                    name: probe.name,
                    file: Rc::clone(file),
                    sites: 1,
                    arguments: probe.arguments,
                    semaphore: probe.semaphore.is_some(),
                });
            }
        }
    }
    points
}

/// How a point's file and name have the text that is searched for.
#[derive(Clone, Copy, Debug)]
struct Fits {
    is_whole_name: bool,
    /// Bytes of the name.
    length: usize,
}

impl Fits {
    /// Returns the place of the point among those that fit: those of that name first, then those
    /// that files have for others, and the shorter first.
    fn before(self, is_exported: bool) -> (bool, bool, usize) {
        (!self.is_whole_name, !is_exported, self.length)
    }
}

impl Point {
    /// Returns how `text` occurs in its file and name; `None` where it does not.
    fn fits(&self, text: &str) -> Option<Fits> {
        let (name, file) = match self {
            Self::Usdt {
                provider,
                name,
                file,
                ..
            } => (&format!("{provider}:{name}"), file),
            Self::Function { symbol, file, .. } => (symbol, file),
        };
        let whole = format!("{}:{name}", file.display());
        let before = whole.strip_suffix(text);
        let is_whole_name =
            before.is_some_and(|before| before.is_empty() || before.ends_with([':', '/']));
        whole.contains(text).then_some(Fits {
            is_whole_name,
            length: name.len(),
        })
    }
}

impl std::fmt::Display for Point {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Usdt {
                provider,
                name,
                file,
                sites,
                arguments,
                ..
            } => {
                let (all, readable) = argument_counts(arguments);
                let probe = format!("{provider}:{name}");
                let probe = printable(&probe);
                write!(f, "--usdt {probe:<40} # {all} arguments")?;
                if readable < all {
                    write!(f, ", {} of them unreadable", all - readable)?;
                }
                if *sites > 1 {
                    write!(f, ", at {sites} sites")?;
                }
                write!(f, ", in {}", printable(&file.to_string_lossy()))
            }
            Self::Function { symbol, file, .. } => {
                let file = file.to_string_lossy();
                write!(f, "--probe {}:{}", printable(&file), printable(symbol))
            }
        }
    }
}

/// Serialises a path, which may have any bytes; those that are not UTF-8 become U+FFFD.
fn as_text<S: serde::Serializer>(path: &Rc<Path>, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&path.to_string_lossy())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_listed_is_reported_once() {
        let one = ["/bin/a".to_owned()];
        assert!(are_stripped(&one).starts_with("/bin/a is stripped: of its functions"));
        let two = ["/bin/a".to_owned(), "/bin/b".to_owned()];
        let reported = are_stripped(&two);
        assert!(
            reported.starts_with("2 files are stripped, such as /bin/a: of their"),
            "{reported}"
        );
        assert!(found_nothing(&Subject::Process(7), "mallok").contains("\"mallok\""));
    }

    #[test]
    fn what_is_no_integer_is_a_file() {
        assert!(matches!(Subject::typed("7").unwrap(), Subject::Process(7)));
        assert!(Subject::typed("-1").is_err() && Subject::typed("").is_err());
        assert!(Subject::typed("99999999999999999999").is_err());
        for path in ["./7", "libc.so.6", "/bin/7"] {
            assert!(
                matches!(Subject::typed(path).unwrap(), Subject::File(_)),
                "{path}"
            );
        }
    }

    fn app() -> Rc<Path> {
        Path::new("/bin/app").into()
    }

    #[test]
    fn what_has_the_name_that_is_searched_for_comes_first() {
        let function = |symbol: &str| Point::Function {
            symbol: symbol.into(),
            file: app(),
            bytes: 7,
        };
        let order = |name: &str, is_exported, text| {
            let fits = function(name).fits(text)?;
            Some(fits.before(is_exported))
        };
        for text in ["malloc", "app:malloc", "/bin/app:malloc"] {
            let found = [
                ("malloc", false),
                ("__libc_malloc", true),
                ("malloc_usable_size", true),
                ("malloc_mmap", false),
                ("malloc_consolidate", false),
            ];
            let found = found.map(|(name, is_exported)| order(name, is_exported, text));
            let found: Vec<_> = found.into_iter().flatten().collect();
            assert!(found.is_sorted(), "{text}: {found:?}");
            assert!(!found.is_empty() && !found[0].0, "{text}");
        }
        assert!(order("lloc_a", false, "malloc").is_none());
        assert!(order("xmalloc", false, "malloc").unwrap().0);
    }

    fn probe(name: &str, arguments: &str) -> StaticProbe {
        StaticProbe {
            provider: "app".into(),
            name: name.into(),
            arguments: arguments.into(),
            offset: 0,
            semaphore: None,
        }
    }

    #[test]
    fn the_sites_of_a_probe_are_one_line() {
        let probes = vec![
            probe("start", "8@%rax 8f@%xmm0"),
            probe("end", ""),
            probe("start", "8@%rbx 8f@%xmm0"),
        ];
        let points = static_points(&app(), probes);
        let lines: Vec<_> = points.iter().map(ToString::to_string).collect();

        assert_eq!(lines.len(), 2);
        assert!(lines[0].starts_with("--usdt app:start "), "{}", lines[0]);
        assert!(
            lines[0].ends_with("# 2 arguments, 1 of them unreadable, at 2 sites, in /bin/app"),
            "{}",
            lines[0]
        );
    }

    #[test]
    fn names_that_command_a_terminal_are_made_harmless() {
        let points = static_points(
            &Path::new("/bin/a\nb").into(),
            vec![probe("x\x1b[2J\u{9b}\u{202e}", "")],
        );
        let is_harmful = |c: char| c.is_control() || c == '\u{202e}';
        assert!(!points[0].to_string().contains(is_harmful));
        let line = object_line(&points[0]);
        assert!(!line.trim_end().contains(is_harmful));
    }

    #[test]
    fn json_has_the_kind_of_each_point() {
        let point = Point::Function {
            symbol: "main".into(),
            file: app(),
            bytes: 7,
        };
        let json = serde_json::to_value(&point).unwrap();
        let expected = serde_json::json!({"kind": "function", "symbol": "main", "file": "/bin/app", "bytes": 7});
        assert_eq!(json, expected);
    }
}
