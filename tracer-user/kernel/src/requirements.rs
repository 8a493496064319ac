//! Requirements on the kernel and this process, checked before anything is loaded: the verifier's
//! own messages would not name them.

use std::path::Path;
use std::{fs, io};

use aya::Btf;
use aya::maps::MapType;
use aya::sys::is_map_supported;

use tracer_common::kernel::globals::NO_OFFSET;

use super::btf::offsets::{self, FieldMissing, Global};
use super::btf::reader;
use super::btf::variables::{self, Variable};
use super::namespace::{self, Nested};
use super::programs::tracepoint_names;
use super::types;
use super::unmet::Unmet;

const LOCKDOWN_PATH: &str = "/sys/kernel/security/lockdown";

/// Facts about the kernel that loading needs.
pub struct Kernel {
    /// Its own types; `None` where they are from a file.
    pub btf: Option<Btf>,
    pub globals: Vec<Global>,
    /// The tracepoints of the kernel, of those that programs are for.
    pub tracepoints: Vec<&'static str>,
    /// The pid namespace of this process, where it is not the first one.
    pub namespace: Option<Nested>,
    /// The variables of the kernel that programs read.
    pub variables: Vec<Variable>,
    /// Place of the state of a request to a block device.
    pub request_state: Option<u32>,
}

impl Kernel {
    /// Tells whether programs can read how deep the kernel is in interrupts.
    pub fn counts_interrupts(&self) -> bool {
        let counts = ["PREEMPT_COUNT", "TASK_PREEMPT_COUNT"];
        let mut globals = self.globals.iter();
        globals.any(|global| counts.contains(&global.name) && global.value != NO_OFFSET)
    }

    /// Tells whether the kernel gives programs the registers of the thread that runs.
    pub fn gives_registers(&self) -> bool {
        let mut globals = self.globals.iter();
        globals.any(|global| global.name == "HAS_TASK_PT_REGS" && global.value != 0)
    }
}

/// Checks everything that can be checked before loading. `given` is the file with the kernel's
/// types, where there is one.
pub fn examine(given: Option<&Path>) -> Result<Kernel, Unmet> {
    capabilities()?;
    lockdown()?;
    let types = types::read(given)?;
    let btf = types.parse()?;
    let mut globals = offsets::globals(&btf).map_err(|source| Unmet::Field { source })?;
    globals.push(user_worker());
    let namespace = pid_namespace()?;
    if namespace.is_some() {
        has_upids(&globals)?;
    }
    let tracepoints = tracepoint_names()
        .filter(|name| btf.tracepoint_arguments(name).is_some())
        .collect();
    locked_memory()?;
    ring_buffers()?;
    let (globals, variables) = match &types.file {
        None => with_variables(&btf, globals),
        Some(_) if namespace.is_some() => return Err(Unmet::NestedWithFile),
        Some(path) => (types::compared(path, &btf, globals)?.0, Vec::new()),
    };
    Ok(Kernel {
        btf: types.for_loader()?,
        globals,
        tracepoints,
        namespace,
        variables,
        request_state: btf.member_offset("request", &["state"]),
    })
}

/// Returns the flags of tasks that are workers, which the kernel's types do not give.
fn user_worker() -> Global {
    // `PF_IO_WORKER`, and since 6.4 `PF_USER_WORKER`. Before that, the second bit is unused; or it
    // is `PF_USED_ASYNC` (in the first releases of 5.15, and before), which all programs may have
    // from the first process.
    let value = if is_at_least(6, 4) { 0x4010 } else { 0x10 };
    Global {
        name: "USER_WORKER",
        value,
    }
}

/// Adds the variables that programs can name, since the types are the kernel's own, and their
/// globals.
fn with_variables(btf: &reader::Btf<'_>, mut globals: Vec<Global>) -> (Vec<Global>, Vec<Variable>) {
    let (variables, offsets) = variables::find(btf);
    globals.extend(offsets);
    (globals, variables)
}

/// Returns the pid namespace of this process; `None` for the first one.
pub fn pid_namespace() -> Result<Option<Nested>, Unmet> {
    namespace::own().map_err(|source| Unmet::PidNamespace { source })
}

/// Checks whether the kernel's types give the pids of processes in a pid namespace.
fn has_upids(globals: &[Global]) -> Result<(), Unmet> {
    let lacks = |name: &str| {
        globals
            .iter()
            .any(|global| global.name == name && global.value == NO_OFFSET)
    };
    match namespace::FIELDS.iter().find(|(name, ..)| lacks(name)) {
        None => Ok(()),
        Some((_, of, field)) => Err(Unmet::Field {
            source: FieldMissing { of, field },
        }),
    }
}

const CAP_SYS_ADMIN: u32 = 21;
const CAP_PERFMON: u32 = 38;
const CAP_BPF: u32 = 39;

/// Checks whether this process may load tracing programs. Returns the right that allows it.
///
/// # Errors
///
/// The process may not: the error says what it lacks.
pub fn capabilities() -> Result<&'static str, Unmet> {
    if namespace::is_in_user_namespace() {
        return Err(Unmet::UserNamespace);
    }
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    match effective_capabilities(&status) {
        Some(held) => judge_capabilities(held),
        // Without /proc this is unknown; the kernel refuses what is not allowed.
        None => Ok("unknown"),
    }
}

fn effective_capabilities(status: &str) -> Option<u64> {
    let held = status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))?;
    u64::from_str_radix(held.trim(), 16).ok()
}

fn judge_capabilities(held: u64) -> Result<&'static str, Unmet> {
    let has = |capability: u32| held >> capability & 1 != 0;
    match (has(CAP_SYS_ADMIN), has(CAP_BPF), has(CAP_PERFMON)) {
        (true, _, _) => Ok("CAP_SYS_ADMIN"),
        (false, true, true) => Ok("CAP_BPF and CAP_PERFMON"),
        (false, true, false) => Err(Unmet::Capabilities {
            missing: "CAP_PERFMON",
        }),
        (false, false, true) => Err(Unmet::Capabilities { missing: "CAP_BPF" }),
        (false, false, false) => Err(Unmet::Capabilities {
            missing: "CAP_BPF and CAP_PERFMON",
        }),
    }
}

/// Checks whether eBPF programs may read the kernel's memory. Returns the mode.
pub fn lockdown() -> Result<String, Unmet> {
    // The file is not there where securityfs is not mounted or the kernel knows no lockdown.
    let modes = fs::read_to_string(LOCKDOWN_PATH).unwrap_or_default();
    match chosen_mode(&modes) {
        Some("confidentiality") => Err(Unmet::Lockdown),
        Some(mode) => Ok(mode.to_owned()),
        None => Ok("none known".to_owned()),
    }
}

/// Returns the mode in brackets, as in `none [integrity] confidentiality`.
fn chosen_mode(modes: &str) -> Option<&str> {
    modes
        .split_whitespace()
        .find_map(|mode| mode.strip_prefix('[')?.strip_suffix(']'))
}

/// Checks whether the kernel has ring buffers. It makes one, and does not judge by the version:
/// distributions bring features to older kernels.
pub fn ring_buffers() -> Result<(), Unmet> {
    match is_map_supported(MapType::RingBuf) {
        Ok(true) => Ok(()),
        Ok(false) => Err(Unmet::RingBuffer { release: release() }),
        Err(error) => Err(Unmet::Refused {
            source: error.io_error,
        }),
    }
}

/// Raises the limit of locked memory, where the kernel counts maps as such. Returns whether it
/// does.
pub fn locked_memory() -> Result<bool, Unmet> {
    let release = release();
    // From 5.11 on, the kernel counts maps as memory of their control group.
    if version(&release).is_none_or(|version| version >= (5, 11)) {
        return Ok(false);
    }
    let unlimited = libc::rlimit {
        rlim_cur: libc::RLIM_INFINITY,
        rlim_max: libc::RLIM_INFINITY,
    };
    // SAFETY: `unlimited` is a whole `rlimit`, which the call only reads.
    if unsafe { libc::setrlimit(libc::RLIMIT_MEMLOCK, &raw const unlimited) } == 0 {
        return Ok(true);
    }
    Err(Unmet::LockedMemory {
        release,
        source: io::Error::last_os_error(),
    })
}

/// Tells whether a link to many sites of programs can be limited to one process. Before 6.10, some
/// kernels then pass over all of its threads but one.
pub fn scopes_links_by_process() -> bool {
    is_at_least(6, 10)
}

/// Tells whether the kernel is of this version or a later one.
pub fn is_at_least(major: u32, minor: u32) -> bool {
    version(&release()).is_some_and(|version| version >= (major, minor))
}

/// Returns the kernel's release, as `uname -r` prints it.
pub fn release() -> String {
    fs::read_to_string("/proc/sys/kernel/osrelease").map_or_else(
        |_| "unknown".to_owned(),
        |release| release.trim().to_owned(),
    )
}

fn version(release: &str) -> Option<(u32, u32)> {
    let mut parts = release.split(|c: char| !c.is_ascii_digit());
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

/// Returns the number of CPUs that the machine may have: their indices are below this.
pub fn cpus() -> u32 {
    let possible = aya::util::nr_cpus().ok();
    let possible = possible.and_then(|cpus| u32::try_from(cpus).ok());
    // The most that any kernel is built for.
    possible.unwrap_or(8192).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::btf::file::FileError;

    fn missing(held: &[u32]) -> Option<&'static str> {
        let held = held
            .iter()
            .fold(0, |held, capability| held | 1 << capability);
        match judge_capabilities(held) {
            Ok(_) => None,
            Err(Unmet::Capabilities { missing }) => Some(missing),
            Err(other) => panic!("{other}"),
        }
    }

    #[test]
    fn the_missing_capability_is_named() {
        assert_eq!(missing(&[CAP_SYS_ADMIN]), None);
        assert_eq!(missing(&[CAP_BPF, CAP_PERFMON]), None);
        assert_eq!(missing(&[CAP_BPF]), Some("CAP_PERFMON"));
        assert_eq!(missing(&[CAP_PERFMON]), Some("CAP_BPF"));
        assert_eq!(missing(&[]), Some("CAP_BPF and CAP_PERFMON"));
    }

    #[test]
    fn effective_capabilities_are_read_from_the_kernels_text() {
        let status = "Name:\tx\nCapPrm:\t0000000000000001\nCapEff:\t000001ffffffffff\n";

        assert_eq!(effective_capabilities(status), Some(0x1ff_ffff_ffff));
        assert_eq!(effective_capabilities("Name:\tx\n"), None);
    }

    #[test]
    fn the_lockdown_mode_is_the_one_in_brackets() {
        assert_eq!(
            chosen_mode("none integrity [confidentiality]\n"),
            Some("confidentiality")
        );
        assert_eq!(
            chosen_mode("[none] integrity confidentiality\n"),
            Some("none")
        );
        assert_eq!(chosen_mode(""), None);
    }

    #[test]
    fn versions_are_the_first_two_parts_of_a_release() {
        assert_eq!(version("5.10.0-28-amd64"), Some((5, 10)));
        assert_eq!(version("6.18.44"), Some((6, 18)));
        assert_eq!(version("6.1-rc1"), Some((6, 1)));
        assert_eq!(version("unknown"), None);
    }

    #[test]
    fn messages_are_lower_case_without_full_stop() {
        let source = || io::Error::other("x");
        let release = || "5.4".to_owned();
        for unmet in [
            Unmet::Capabilities { missing: "CAP_BPF" },
            Unmet::Lockdown,
            Unmet::UserNamespace,
            Unmet::PidNamespace { source: source() },
            Unmet::Btf { source: source() },
            Unmet::BtfMissing,
            Unmet::NestedWithFile,
            Unmet::TypesFile {
                path: "/x".into(),
                why: FileError::NoSection,
            },
            Unmet::OtherKernel {
                path: "/x".into(),
                why: "y".to_owned(),
            },
            Unmet::RingBuffer { release: release() },
            Unmet::Refused { source: source() },
            Unmet::LockedMemory {
                release: release(),
                source: source(),
            },
        ] {
            let message = super::super::LoadError::from(unmet).to_string();
            let first = message.split(' ').next().unwrap_or_default();
            let is_name = first.starts_with("CAP_") || first.starts_with('/');

            assert!(!message.ends_with('.'), "{message}");
            assert!(
                is_name || first.chars().all(char::is_lowercase),
                "{message}"
            );
            assert!(message.contains("; "), "{message}");
        }
    }
}
