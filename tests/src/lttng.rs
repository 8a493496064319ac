//! LTTng-UST, and a `libtracetools.so` that records with it.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};

use crate::tools;

/// Command that installs a missing prerequisite.
const REMEDY: &str = "run: cargo xtask test --ros";

/// Library by which LTTng goes on tracing a program that forks. It is preloaded before the library
/// with the trace points.
pub const FORK: &str = "liblttng-ust-fork.so.1";

/// Events and fields as the original declares them.
const UPSTREAM: &str = include_str!("../../tracer-posix/tracetools/upstream.txt");

/// Events whose first argument the original does not record.
const UNRECORDED: [&str; 1] = ["rclcpp_publish"];

/// Returns the C functions of an event, with the names that the original gives them. They record
/// the event with LTTng. Where the environment names a second library in `BESIDE`, they call that
/// library's function first.
fn functions(name: &str, fields: &str) -> anyhow::Result<String> {
    // The original adds the version by itself.
    let arguments = fields
        .split_whitespace()
        .filter(|field| *field != "version:string");
    let types = arguments.map(|field| {
        Ok(match field.split_once(':').map_or("", |(_, kind)| kind) {
            "address" => "const void *",
            "string" => "const char *",
            "size_t" => "size_t",
            "int64_t" => "int64_t",
            "uint64_t" => "uint64_t",
            "int" => "bool",
            "uint8_t[16]" => "const uint8_t *",
            other => bail!("{name} has a field of an unknown type, {other}"),
        })
    });
    let mut types = types.collect::<anyhow::Result<Vec<&str>>>()?;
    if UNRECORDED.contains(&name) {
        types.insert(0, "const void *");
    }
    let declared: Vec<String> = types
        .iter()
        .enumerate()
        .map(|(at, of)| format!("{of} a{at}"))
        .collect();
    let mut passed: Vec<String> = (0..types.len()).map(|at| format!("a{at}")).collect();
    let (declared, all) = (declared.join(", "), passed.join(", "));
    if UNRECORDED.contains(&name) {
        passed.remove(0);
    }
    let traced = format!("ros2, {name}, {}", passed.join(", "));
    let traced = traced.trim_end_matches(", ");
    Ok(format!(
        "static void (*beside_{name})({types});
static bool (*beside_enabled_{name})(void);
void ros_trace_{name}({declared}) {{
    if (beside_{name}) beside_{name}({all});
    tracepoint({traced});
}}
bool ros_trace_enabled_{name}(void) {{
    return tracepoint_enabled(ros2, {name}) || (beside_{name} && beside_enabled_{name}());
}}
void ros_trace_do_{name}({declared}) {{
    ros_trace_{name}({all});
}}
",
        types = types.join(", ")
    ))
}

/// Compiles a `libtracetools.so` with the original's trace points, as the header of its package
/// declares them. That header is below `headers`. Where `BESIDE` names a second such library, each
/// call goes to that library first.
///
/// # Errors
///
/// LTTng-UST or the header is missing.
pub fn compile_tracetools(headers: &Path, folder: &Path) -> anyhow::Result<PathBuf> {
    let mut c = String::from(
        r#"#define TRACEPOINT_CREATE_PROBES
#define TRACEPOINT_DEFINE
#include "tracetools/tp_call.h"
#include "tracetools/tracetools.h"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
bool ros_trace_compile_status(void) { return true; }
"#,
    );
    let mut found = String::new();
    for line in UPSTREAM.lines() {
        let (name, fields) = line.split_once(' ').unwrap_or((line, ""));
        c += &functions(name, fields)?;
        writeln!(
            found,
            "    beside_{name} = find(library, \"ros_trace_{name}\");
    beside_enabled_{name} = find(library, \"ros_trace_enabled_{name}\");"
        )?;
    }
    write!(
        c,
        r#"static void *find(void *library, const char *name) {{
    void *function = dlsym(library, name);
    if (!function) {{
        fprintf(stderr, "%s\n", dlerror());
        abort();
    }}
    return function;
}}
__attribute__((constructor)) static void find_all(void) {{
    const char *path = getenv("BESIDE");
    if (!path) return;
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) {{
        fprintf(stderr, "%s\n", dlerror());
        abort();
    }}
{found}}}
"#
    )?;
    let source = folder.join("lttng_tracetools.c");
    fs::write(&source, c)?;
    // In a folder of its own: the library has the name of the one that it replaces.
    let into = folder.join("lttng");
    fs::create_dir_all(&into)?;
    let library = into.join("libtracetools.so");
    let compiled = Command::new("cc")
        .args(["-O2", "-shared", "-fPIC", "-Wl,-soname,libtracetools.so"])
        .arg("-I")
        .arg(headers)
        .arg(&source)
        .arg("-o")
        .arg(&library)
        .args(["-llttng-ust", "-ldl"])
        .output()?;
    ensure!(
        compiled.status.success(),
        "{}: {}; {REMEDY}",
        source.display(),
        String::from_utf8_lossy(&compiled.stderr)
    );
    Ok(library)
}

/// Returns the result of a command of LTTng.
fn lttng(arguments: &[&str]) -> anyhow::Result<String> {
    let output = Command::new("lttng")
        .arg("--no-sessiond")
        .args(arguments)
        .output()
        .with_context(|| format!("cannot run lttng; {REMEDY}"))?;
    ensure!(
        output.status.success(),
        "lttng {arguments:?}: {}",
        String::from_utf8_lossy(&[output.stdout, output.stderr].concat())
    );
    Ok(String::from_utf8(output.stdout)?)
}

/// LTTng's daemon: the one that runs on this machine already, or else a new one, which ends when
/// this value is dropped.
pub struct Daemon {
    own: Option<Child>,
}

impl Daemon {
    /// Starts a daemon where none runs.
    ///
    /// # Errors
    ///
    /// The daemon is not installed, or does not answer.
    pub fn start() -> anyhow::Result<Self> {
        if lttng(&["list"]).is_ok() {
            return Ok(Self { own: None });
        }
        let daemon = Command::new("lttng-sessiond")
            .arg("--no-kernel")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| format!("cannot run lttng-sessiond; {REMEDY}"))?;
        let started = Self { own: Some(daemon) };
        for _ in 0..100 {
            if lttng(&["list"]).is_ok() {
                return Ok(started);
            }
            thread::sleep(Duration::from_millis(100));
        }
        bail!("lttng-sessiond does not answer")
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let Some(daemon) = &mut self.own else {
            return;
        };
        if let Ok(pid) = libc::pid_t::try_from(daemon.id()) {
            // SAFETY: the daemon is a child that is not reaped yet. At this signal it ends its own
            // children too.
            unsafe { libc::kill(pid, libc::SIGTERM) };
        }
        let _ = daemon.wait();
    }
}

/// Session with the buffers, events and contexts that `ros2 trace` asks for. It ends when it is
/// dropped.
pub struct Session {
    name: String,
    folder: PathBuf,
}

impl Session {
    /// Begins to trace what starts from now on.
    ///
    /// # Errors
    ///
    /// The daemon refuses.
    pub fn start(folder: &Path) -> anyhow::Result<Self> {
        let name = format!("tracetools-{}", std::process::id());
        let output = format!("--output={}", folder.display());
        lttng(&["create", &name, &output])?;
        let session = Self {
            name: name.clone(),
            folder: folder.to_owned(),
        };
        let of = ["--userspace", "--session", &name];
        let in_channel = [&of[..], &["--channel=ros2"]].concat();
        let channel = ["--discard", "--subbuf-size=32768", "--num-subbuf=2", "ros2"];
        lttng(&[&["enable-channel"], &of[..], &channel].concat())?;
        lttng(&[&["enable-event"], &in_channel[..], &["ros2:*"]].concat())?;
        let contexts = ["--type=vpid", "--type=vtid", "--type=procname"];
        lttng(&[&["add-context"], &in_channel[..], &contexts].concat())?;
        lttng(&["start", &name])?;
        Ok(session)
    }

    /// Ends the session, and returns how many events LTTng says it has discarded.
    ///
    /// # Errors
    ///
    /// The daemon refuses, or does not say.
    pub fn finish(self) -> anyhow::Result<u64> {
        lttng(&["stop", &self.name])?;
        let listed = lttng(&["list", &self.name])?;
        let counts = listed
            .lines()
            .filter_map(|line| line.trim().strip_prefix("Discarded events:"));
        let counts: Vec<u64> = counts
            .map(|count| count.trim().parse())
            .collect::<Result<_, _>>()?;
        ensure!(!counts.is_empty(), "no discarded events in {listed}");
        // After this, the files have all of the session's buffers.
        lttng(&["destroy", &self.name])?;
        ensure!(
            self.folder.exists(),
            "no trace in {}",
            self.folder.display()
        );
        Ok(counts.iter().sum())
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let _ended_already = lttng(&["destroy", &self.name]);
    }
}

/// Event of ROS, as a trace in the Common Trace Format has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RosEvent {
    /// Nanoseconds since 1970.
    pub at_ns: i64,
    /// Name of its type, without `ros2:`.
    pub name: String,
    /// Context: process, thread, name of the thread.
    pub context: [String; 3],
    /// Names and values of its fields, as babeltrace2 shows them.
    pub fields: String,
}

/// Returns the events of ROS in a trace, in the order in which babeltrace2 shows them.
///
/// # Errors
///
/// babeltrace2 cannot read the trace.
pub fn ros_events(trace: &Path) -> anyhow::Result<Vec<RosEvent>> {
    let (printed, _) = tools::babeltrace2(&["--clock-seconds", "--no-delta"], trace)?;
    let lines = printed.lines().filter(|line| line.contains(" ros2:"));
    lines
        .map(|line| parse(line).with_context(|| line.to_owned()))
        .collect()
}

/// Parses `[1764230400.123456789] HOST ros2:NAME: { … }, { CONTEXT }, { FIELDS }`.
fn parse(line: &str) -> Option<RosEvent> {
    let (head, data) = line.split_once(": { ")?;
    let (time, head) = head.strip_prefix('[')?.split_once(']')?;
    let (_, name) = head.rsplit_once(" ros2:")?;
    let mut parts = data.split(" }, {");
    let (_, context) = (parts.next()?, parts.next()?);
    let fields = parts.next().unwrap_or_default();
    let context = context.trim().trim_end_matches('}').trim();
    let of = |wanted: &str| {
        let mut values = context
            .split(", ")
            .filter_map(|part| part.split_once(" = "));
        let (_, value) = values.find(|(name, _)| name.trim() == wanted)?;
        Some(value.trim().to_owned())
    };
    Some(RosEvent {
        at_ns: time.replace('.', "").parse().ok()?,
        name: name.to_owned(),
        context: [of("vpid")?, of("vtid")?, of("procname")?],
        fields: fields.trim().trim_end_matches('}').trim().to_owned(),
    })
}
