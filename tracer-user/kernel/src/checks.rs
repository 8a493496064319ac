//! Checks that `tracer-user doctor` prints about the kernel's events.

use std::path::Path;

use tracer_common::event_type::EventTypeId;

use super::btf::offsets;
use super::btf::reader::Btf;
use super::loading::object;
use super::namespace::{self, Nested};
use super::programs::{tracepoint_names, tracepoints_of};
use super::requirements;
use super::types::{self, Types};
use super::unmet::Unmet;

/// One line of `tracer-user doctor`.
#[derive(Clone, Debug)]
pub struct Check {
    /// Subject of the check, in a few words.
    pub what: &'static str,
    /// Result: everything is as needed.
    pub holds: bool,
    /// Finding, in words.
    pub found: String,
    /// Remedy, where it does not hold.
    pub remedy: Option<String>,
}

impl Check {
    /// Returns a check that holds.
    pub(super) fn held(what: &'static str, found: impl Into<String>) -> Self {
        Self {
            what,
            holds: true,
            found: found.into(),
            remedy: None,
        }
    }

    /// Returns a check that holds, or that fails with the requirement that is not met.
    pub(super) fn from_result(what: &'static str, result: Result<String, Unmet>) -> Self {
        match result {
            Ok(found) => Self::held(what, found),
            Err(unmet) => Self {
                what,
                holds: false,
                found: with_causes(&unmet),
                remedy: Some(unmet.remedy().to_owned()),
            },
        }
    }
}

/// Describes an error with all its causes.
fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

/// Looks at everything the kernel's events need: kernel version, BTF, ring buffers, BTF
/// tracepoints, lockdown, capabilities, pid namespace, the eBPF object, task-struct fields. `given`
/// is the file with the kernel's types, where the user names one.
#[must_use]
pub fn checks(given: Option<&Path>) -> Vec<Check> {
    let mut checks = vec![
        Check::held("kernel", requirements::release()),
        Check::held("eBPF object", format!("built in, {} bytes", object().len())),
        Check::from_result(
            "capabilities",
            requirements::capabilities().map(str::to_owned),
        ),
        Check::from_result("pid namespace", requirements::pid_namespace().map(in_words)),
        proc_check(),
        Check::from_result("lockdown", requirements::lockdown()),
        Check::from_result(
            "ring buffers",
            // Without the capabilities the kernel does not even let us ask.
            requirements::capabilities()
                .and_then(|_| requirements::ring_buffers())
                .map(|()| "there".to_owned()),
        ),
        Check::from_result(
            "locked memory",
            requirements::locked_memory().map(|counts| {
                if counts {
                    "limit raised"
                } else {
                    "no limit applies"
                }
                .to_owned()
            }),
        ),
    ];
    checks.extend(type_checks(given));
    checks
}

/// Describes the processes that can be traced.
fn in_words(namespace: Option<Nested>) -> String {
    match namespace {
        None => "the first one: every process".to_owned(),
        Some(Nested(inode)) => format!(
            "{inode}, as of a container: its processes, by their pids here (those of the host: \
             a container with --pid=host)"
        ),
    }
}

/// Checks whether `/proc` shows processes by their pids here.
fn proc_check() -> Check {
    const PROC: &str = "/proc";
    if namespace::is_proc_own() {
        return Check::held(PROC, "of this pid namespace");
    }
    Check {
        what: PROC,
        holds: false,
        found: PROC_OF_ANOTHER.to_owned(),
        remedy: Some(MOUNT_PROC.to_owned()),
    }
}

/// Problem where `/proc` shows other pids.
pub const PROC_OF_ANOTHER: &str = "/proc is not there, or is that of another pid namespace";
/// Remedy where `/proc` shows other pids.
pub const MOUNT_PROC: &str = "mount it: mount -t proc proc /proc (or: unshare --mount-proc)";

const TYPES: &str = "kernel types (BTF)";

/// Checks everything that depends on the kernel's BTF.
fn type_checks(given: Option<&Path>) -> Vec<Check> {
    let types = match types::read(given) {
        Ok(types) => types,
        Err(unmet) => return vec![Check::from_result(TYPES, Err(unmet))],
    };
    let btf = match types.parse() {
        Ok(btf) => btf,
        Err(unmet) => return vec![Check::from_result(TYPES, Err(unmet))],
    };
    let fields = offsets::globals(&btf)
        .map_err(|source| Unmet::Field { source })
        .map(|_| match offsets::missing(&btf) {
            missing if missing.is_empty() => "all there".to_owned(),
            missing => format!("recorded as 0: {}", missing.join(", ")),
        });
    let missing: Vec<_> = tracepoint_names()
        .filter(|name| btf.tracepoint_arguments(name).is_none())
        .collect();
    let tracepoints = if missing.is_empty() {
        "all there".to_owned()
    } else {
        format!(
            "missing: {} (`tracer-user events` says what that means)",
            missing.join(", ")
        )
    };
    let addresses = if types.file.is_some() {
        "by walking the stack, for want of the kernel's own types: slower"
    } else if btf.has_helper("bpf_task_pt_regs") {
        "by the registers of the thread"
    } else {
        "by walking the stack, for want of bpf_task_pt_regs (5.15): slower"
    };
    let mut checks = vec![
        Check::from_result(TYPES, whose(&types, &btf, given)),
        Check::from_result("task fields", fields),
        Check::held("tracepoints", tracepoints),
        Check::held("addresses of calls", addresses),
    ];
    if types.file.is_some() {
        checks.push(Check::held("not recorded", types::LEFT_OUT));
    }
    checks
}

/// Describes the origin of the types, and whether they are right.
fn whose(types: &Types, btf: &Btf<'_>, given: Option<&Path>) -> Result<String, Unmet> {
    let bytes = types.bytes.len();
    match (&types.file, given) {
        (None, None) => Ok(format!("{bytes} bytes")),
        (None, Some(given)) => Ok(format!(
            "{bytes} bytes; {} has the same offsets, and is not needed",
            given.display()
        )),
        (Some(path), _) => {
            requirements::capabilities()?;
            if requirements::pid_namespace()?.is_some() {
                return Err(Unmet::NestedWithFile);
            }
            let globals = offsets::globals(btf).map_err(|source| Unmet::Field { source })?;
            let (_, right) = types::compared(path, btf, globals)?;
            Ok(format!(
                "{bytes} bytes of {}, of this kernel: {right} members compared",
                path.display()
            ))
        }
    }
}

/// Availability of a type of event in the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Availability {
    /// Type that the kernel has.
    There,
    /// Type that the kernel lacks, for want of this tracepoint.
    Lacks(&'static str),
    /// Unknown: the kernel does not say what it has.
    Unknown,
}

/// Returns a function that tells of each type of the kernel's events whether this kernel has it. It
/// judges by the kernel's own types, or by those in the file that is `given`.
///
/// # Errors
///
/// The file that is `given` cannot be used.
pub fn availability(given: Option<&Path>) -> Result<impl Fn(EventTypeId) -> Availability, Unmet> {
    let known = match types::read(given) {
        Ok(types) => types.parse().ok().map(|btf| {
            let there = |name: &&str| btf.tracepoint_arguments(name).is_some();
            tracepoint_names().filter(there).collect::<Vec<_>>()
        }),
        Err(unmet) if given.is_some() => return Err(unmet),
        Err(_) => None,
    };
    Ok(move |id| match &known {
        None => Availability::Unknown,
        Some(known) => tracepoints_of(id)
            .find(|name| !known.contains(name))
            .map_or(Availability::There, Availability::Lacks),
    })
}
