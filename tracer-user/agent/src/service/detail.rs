//! Detail in which a client wants events recorded, and which clients are given it.

use std::fs;
use std::time::Duration;

use tracer_binary::stacks::StackOptions;
use tracer_common::event_type::EventTypeId;
use tracer_common::kernel::{MOST_FRAMES, MOST_PYTHON_FRAMES, stacks, wanted};
use tracer_posix::agent::protocol::Detail;
use tracer_syscalls::descriptors::DescriptorOptions;

/// Most bytes that are read of what an argument of a system call points to; of a command line that
/// is executed, so many are asked for where all of it is wanted.
const MOST_STRING_BYTES: u32 = 64 << 10;

/// Most bytes of a program's stack that are copied.
const MOST_COPIED_BYTES: u32 = 32 << 10;

/// Most samples per second: each interrupts a CPU, whichever user's program it runs.
const MOST_SAMPLES: u32 = 1000;

/// Reason for which detail is not given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotGiven {
    /// `EINVAL`: the client does not keep to the protocol.
    #[error("this detail is none that is known; install one version of everything")]
    Unknown,
    /// `EPERM`.
    #[error(
        "addresses of the kernel are for users who may read them in /proc/kallsyms: \
         kernel.kptr_restrict is 0, and kernel.perf_event_paranoid at most 1; ask for the stacks of \
         programs alone"
    )]
    Kernel,
    /// `EPERM`.
    #[error(
        "stacks of those that wake others are given to users who may see every process; leave \
         wakeup out"
    )]
    Wakers,
    /// `EINVAL`.
    #[error("at most {MOST_SAMPLES} samples a second are taken for users")]
    Samples,
}

impl NotGiven {
    /// Returns the standard's error number.
    pub fn error_number(self) -> i32 {
        match self {
            Self::Unknown | Self::Samples => libc::EINVAL,
            Self::Kernel | Self::Wakers => libc::EPERM,
        }
    }
}

/// Makes sure that a client may have this detail, which may be one that sees every process.
///
/// # Errors
///
/// It may not.
pub fn check(detail: &Detail, sees_every_process: bool) -> Result<(), NotGiven> {
    let frames = u32::try_from(MOST_FRAMES).unwrap_or(u32::MAX);
    let known = stacks::TYPES | stacks::SAMPLES;
    let is_known = detail.string_bytes <= MOST_STRING_BYTES
        && detail.descriptors <= 2
        && detail.stack_types & !known == 0
        && detail.kernel_frames <= frames
        && detail.user_frames <= frames
        && detail.python_frames <= u32::try_from(MOST_PYTHON_FRAMES).unwrap_or(0)
        && detail.copied_bytes <= MOST_COPIED_BYTES
        && (!detail.calls_at_exit || is_possible_at_exit(detail));
    if !is_known {
        return Err(NotGiven::Unknown);
    }
    if detail.samples_per_second > MOST_SAMPLES {
        return Err(NotGiven::Samples);
    }
    if !sees_every_process && detail.stack_types & wanted::bit(EventTypeId::WAKEUP) != 0 {
        return Err(NotGiven::Wakers);
    }
    if detail.kernel_frames > 0 && !are_addresses_public() {
        return Err(NotGiven::Kernel);
    }
    Ok(())
}

/// Tells whether this detail goes with calls that are recorded as they end: what descriptors are is
/// asked as a call begins.
const fn is_possible_at_exit(detail: &Detail) -> bool {
    detail.descriptors == 0 && detail.types & wanted::bit(EventTypeId::SYSCALL_ENTER) == 0
}

/// Tells whether every user may read the kernel's addresses in `/proc/kallsyms`: by the settings
/// that decide it for those without capabilities (`kallsyms_show_value`). A capability by which one
/// client might read them all the same is not looked for.
#[must_use]
pub fn are_addresses_public() -> bool {
    let setting = |name: &str| {
        let text = fs::read_to_string(format!("/proc/sys/kernel/{name}")).ok()?;
        text.trim().parse::<i32>().ok()
    };
    setting("kptr_restrict") == Some(0) && setting("perf_event_paranoid").is_some_and(|it| it <= 1)
}

/// Returns the stacks that are recorded.
pub fn stacks_of(detail: &Detail) -> StackOptions {
    StackOptions {
        types: detail.stack_types,
        user_events: false,
        kernel_frames: detail.kernel_frames,
        user_frames: detail.user_frames,
        python_frames: detail.python_frames,
        copied_bytes: detail.copied_bytes,
        off_cpu: detail.off_cpu_ns.map(Duration::from_nanos),
        off_cpu_in_kernel: true,
        samples_per_second: detail.samples_per_second,
    }
}

/// Returns how descriptors are recorded.
pub fn descriptors_of(detail: &Detail) -> DescriptorOptions {
    match detail.descriptors {
        0 => DescriptorOptions::None,
        1 => DescriptorOptions::Plain,
        _ => DescriptorOptions::Full,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_is_given_than_a_user_may_have() {
        let asked = Detail {
            string_bytes: 4096,
            descriptors: 2,
            stack_types: stacks::USUAL,
            user_frames: 127,
            copied_bytes: 8192,
            samples_per_second: 99,
            ..Detail::default()
        };
        let refused = |change: fn(&mut Detail)| {
            let mut changed = asked;
            change(&mut changed);
            check(&changed, false).err()
        };
        assert_eq!(refused(|_| {}), None);
        let unknown = Some(NotGiven::Unknown);
        assert_eq!(refused(|it| it.string_bytes = 65_537), unknown);
        assert_eq!(refused(|it| it.descriptors = 3), unknown);
        assert_eq!(refused(|it| it.user_frames = 128), unknown);
        assert_eq!(refused(|it| it.python_frames = 64), None);
        assert_eq!(refused(|it| it.python_frames = 65), unknown);
        assert_eq!(refused(|it| it.copied_bytes = 32_769), unknown);
        assert_eq!(refused(|it| it.stack_types = stacks::PROBES), unknown);
        let at_exit = |it: &mut Detail| it.calls_at_exit = true;
        assert_eq!(refused(at_exit), unknown);
        let mut at_exit = Detail {
            calls_at_exit: true,
            descriptors: 0,
            ..asked
        };
        assert_eq!(check(&at_exit, false), Ok(()));
        at_exit.types = wanted::bit(EventTypeId::SYSCALL_ENTER);
        assert_eq!(check(&at_exit, false), Err(NotGiven::Unknown));
        let many = Some(NotGiven::Samples);
        assert_eq!(refused(|it| it.samples_per_second = 1001), many);
        let wakers = |it: &mut Detail| it.stack_types |= wanted::bit(EventTypeId::WAKEUP);
        assert_eq!(refused(wakers), Some(NotGiven::Wakers));
        let mut of_wakers = asked;
        wakers(&mut of_wakers);
        assert_eq!(check(&of_wakers, true), Ok(()));
    }

    #[test]
    fn addresses_of_the_kernel_are_given_where_every_user_may_read_them() {
        let asked = Detail {
            kernel_frames: 1,
            ..Detail::default()
        };
        // Of a process without capabilities, which this may not be, the kernel shows zeros.
        let shown = std::process::Command::new("setpriv")
            .args(["--reuid=65534", "--clear-groups", "--bounding-set=-all"])
            .args(["--inh-caps=-all", "head", "-n1", "/proc/kallsyms"])
            .output();
        let Some(shown) = shown.ok().filter(|shown| shown.status.success()) else {
            // No right to become another user: then this is none of root's either.
            let shown = fs::read_to_string("/proc/kallsyms").unwrap();
            let are_shown = !shown.starts_with("0000000000000000 ");
            assert_eq!(check(&asked, false).is_ok(), are_shown);
            return;
        };
        let are_shown = !shown.stdout.starts_with(b"0000000000000000 ");
        assert_eq!(check(&asked, false).is_ok(), are_shown);
    }
}
