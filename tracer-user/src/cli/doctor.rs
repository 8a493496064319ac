//! `tracer-user doctor`: facts of this machine, missing prerequisites, and remedies.

use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};

use serde::Serialize;

use super::exit;
use super::output_options::FormatArgs;
use tracer_event::document::document;
use tracer_kernel::Check;
use tracer_live::{ServiceScope, has_capability, service_scope};
use tracer_output::terminal::output::ColorChoice;

/// `CAP_SYS_PTRACE` of `<linux/capability.h>`.
const CAP_SYS_PTRACE: u32 = 19;

/// Check what tracing needs on this machine, and say what to do where it is missing
#[derive(Debug, clap::Args)]
pub struct DoctorArgs {
    /// Look whether this file serves as the kernel's types, as the other commands take it
    #[arg(long, value_name = "FILE")]
    btf: Option<PathBuf>,
    #[command(flatten)]
    format: FormatArgs,
}

/// Checked configuration of `doctor`.
#[derive(Clone, Debug)]
pub struct DoctorConfig {
    btf: Option<PathBuf>,
    is_coloured: bool,
    is_json: bool,
}

impl From<DoctorArgs> for DoctorConfig {
    fn from(args: DoctorArgs) -> Self {
        Self {
            btf: args.btf,
            is_coloured: ColorChoice::Auto.is_coloured(&io::stdout()),
            is_json: args.format.is_json(),
        }
    }
}

/// Line of the table.
#[derive(Clone, Debug)]
struct Finding {
    check: Check,
    /// Whether tracing works without it, with fewer features.
    is_optional: bool,
}

/// Prints the findings.
///
/// # Errors
///
/// The findings cannot be printed.
pub fn run(config: &DoctorConfig) -> anyhow::Result<ExitCode> {
    let of_kernel = tracer_kernel::checks(config.btf.as_deref())
        .into_iter()
        .map(|check| Finding {
            check,
            is_optional: false,
        });
    let probes = Finding {
        check: tracer_kernel::probe_check(),
        is_optional: true,
    };
    let others = [probes, service(), ptrace(), clock(), library()];
    let findings: Vec<Finding> = of_kernel.chain(others).collect();
    let missing = findings
        .iter()
        .filter(|finding| finding.status() == Status::Missing)
        .count();
    let shown = if config.is_json {
        document(&Findings {
            missing,
            checks: findings.iter().map(Object::from).collect(),
        })
    } else {
        text(&findings, missing, config.is_coloured)
    };
    io::stdout().lock().write_all(shown.as_bytes())?;
    Ok(if missing == 0 {
        ExitCode::SUCCESS
    } else {
        exit::FAILED.into()
    })
}

/// Result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Status {
    /// As needed.
    Ok,
    /// Not as needed, but tracing works without it, with fewer features.
    Note,
    /// Not as needed, and tracing needs it.
    Missing,
}

impl Finding {
    fn status(&self) -> Status {
        match (self.check.holds, self.is_optional) {
            (true, _) => Status::Ok,
            (false, true) => Status::Note,
            (false, false) => Status::Missing,
        }
    }

    /// Returns the remedy, when the check failed and there is one.
    fn remedy(&self) -> Option<&str> {
        let remedy = self.check.remedy.as_deref();
        remedy.filter(|_| !self.check.holds)
    }
}

/// All findings, as a JSON object.
#[derive(Serialize)]
struct Findings<'a> {
    missing: usize,
    checks: Vec<Object<'a>>,
}

/// Finding as a JSON object.
#[derive(Serialize)]
struct Object<'a> {
    name: &'a str,
    status: Status,
    found: &'a str,
    remedy: Option<&'a str>,
}

impl<'a> From<&'a Finding> for Object<'a> {
    fn from(finding: &'a Finding) -> Self {
        Self {
            name: finding.check.what,
            status: finding.status(),
            found: &finding.check.found,
            remedy: finding.remedy(),
        }
    }
}

/// Formats the table and its summary.
fn text(findings: &[Finding], missing: usize, is_coloured: bool) -> String {
    let lines = findings.iter().map(|finding| line(finding, is_coloured));
    let mut text: String = lines.collect();
    if missing == 0 {
        text.push_str("everything that tracing needs is there\n");
    } else {
        text.push_str(&format!("{missing} of {} missing\n", findings.len()));
    }
    text
}

/// Formats a finding: result, subject, the fact found; on the line below, the remedy.
fn line(finding: &Finding, is_coloured: bool) -> String {
    let Finding { check, .. } = finding;
    let (word, colour) = match finding.status() {
        Status::Ok => ("ok", "\x1b[32m"),
        Status::Note => ("note", "\x1b[33m"),
        Status::Missing => ("MISSING", "\x1b[31m"),
    };
    let (colour, plain) = if is_coloured {
        (colour, "\x1b[0m")
    } else {
        ("", "")
    };
    let mut line = format!(
        "{colour}{word:<7}{plain}  {:<28}  {}\n",
        check.what, check.found
    );
    if let Some(remedy) = finding.remedy() {
        line.push_str(&format!("{:<7}  {:<28}  → {remedy}\n", "", ""));
    }
    line
}

/// Checks whether programs of this user are given the kernel's events: asks as they would.
fn service() -> Finding {
    let given = |of: &str| format!("this user's programs get those of {of}");
    let (holds, found, remedy) = match service_scope() {
        Ok(Some(ServiceScope::Own)) => (true, given("their own processes"), None),
        Ok(Some(ServiceScope::Every)) => (true, given("every process"), None),
        Ok(None) => (
            false,
            "not there: root and `tracer-user run` alone have them".to_owned(),
            Some("systemctl enable --now tracer-user.socket".to_owned()),
        ),
        Err(error) => (false, format!("{error:#}"), None),
    };
    Finding {
        check: Check {
            what: "kernel events: service",
            holds,
            found,
            remedy,
        },
        is_optional: true,
    }
}

/// Checks whether the trace areas of other processes can be read.
fn ptrace() -> Finding {
    let has_right = has_capability(CAP_SYS_PTRACE);
    let scope = fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope");
    let scope: u32 = scope
        .ok()
        .and_then(|scope| scope.trim().parse().ok())
        .unwrap_or(0);
    let holds = has_right || scope == 0;
    let found = if has_right {
        "CAP_SYS_PTRACE: every process".to_owned()
    } else if scope == 0 {
        "the processes of this user".to_owned()
    } else {
        format!("Yama restricts it (kernel.yama.ptrace_scope = {scope}) to children of the tracer")
    };
    Finding {
        check: Check {
            what: "user events: right to attach",
            holds,
            found,
            remedy: Some(
                "run with sudo, start the program by `tracer-user run --no-system`, \
                 or: sysctl kernel.yama.ptrace_scope=0"
                    .to_owned(),
            ),
        },
        is_optional: false,
    }
}

/// Checks whether emitting an event may read the cycle counter.
fn clock() -> Finding {
    const SOURCE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    let source = fs::read_to_string(SOURCE).unwrap_or_default();
    let source = source.trim();
    let holds = matches!(source, "tsc" | "arch_sys_counter");
    let found = match (source, holds) {
        ("", _) => "unknown".to_owned(),
        (source, true) => format!("{source}: the cycle counter"),
        (source, false) => {
            format!("{source}: user events read clock_gettime(), which takes longer")
        }
    };
    Finding {
        check: Check {
            what: "user events: clock",
            holds,
            found,
            remedy: Some(
                "where the machine's cycle counter is stable: boot with clocksource=tsc".to_owned(),
            ),
        },
        is_optional: true,
    }
}

/// Checks whether programs can be linked with the library.
fn library() -> Finding {
    let version = said(Command::new("pkg-config").args(["--modversion", "posixtrace"]));
    let loadable = said(Command::new("ldconfig").arg("-p"))
        .or_else(|| said(Command::new("/sbin/ldconfig").arg("-p")))
        .is_some_and(|list| list.contains("libposixtrace.so"));
    let found = match (&version, loadable) {
        (Some(version), true) => format!(
            "libposixtrace {}; LINUX_TRACE_DEBUG=1 has it say why a stream cannot be made",
            version.trim()
        ),
        (Some(version), false) => {
            format!(
                "libposixtrace {}, not in the loader's cache",
                version.trim()
            )
        }
        (None, true) => "the library is installed, and pkg-config does not know it".to_owned(),
        (None, false) => "not installed: programs cannot be instrumented".to_owned(),
    };
    Finding {
        check: Check {
            what: "user events: libposixtrace",
            holds: version.is_some() && loadable,
            found,
            remedy: Some(
                "cargo xtask install, then ldconfig; or set PKG_CONFIG_PATH and LD_LIBRARY_PATH"
                    .to_owned(),
            ),
        },
        is_optional: true,
    }
}

/// Returns the output of a command that succeeds.
fn said(command: &mut Command) -> Option<String> {
    let output = command.stdin(Stdio::null()).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    output.status.success().then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(holds: bool, is_optional: bool) -> Finding {
        Finding {
            check: Check {
                what: "BTF",
                holds,
                found: "none".to_owned(),
                remedy: Some("another kernel".to_owned()),
            },
            is_optional,
        }
    }

    #[test]
    fn what_is_missing_says_what_to_do() {
        let shown = line(&finding(false, false), false);
        assert!(shown.starts_with("MISSING  BTF "), "{shown}");
        assert!(shown.contains("→ another kernel\n"), "{shown}");
        assert_eq!(finding(false, false).status(), Status::Missing);
    }

    #[test]
    fn in_json_a_remedy_is_there_where_it_is_needed() {
        let of = |holds| serde_json::to_value(Object::from(&finding(holds, false))).unwrap();
        assert_eq!(of(true)["status"], "ok");
        assert_eq!(of(true)["remedy"], serde_json::Value::Null);
        assert_eq!(
            of(false),
            serde_json::json!({"name": "BTF", "status": "missing", "found": "none", "remedy": "another kernel"})
        );
    }

    #[test]
    fn what_is_there_needs_no_remedy_and_what_is_optional_is_no_failure() {
        assert!(!line(&finding(true, false), false).contains("another kernel"));
        assert!(line(&finding(false, true), false).starts_with("note"));
        assert_eq!(finding(false, true).status(), Status::Note);
    }
}
