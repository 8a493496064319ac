//! System calls of a machine: numbers and names, as the crate `syscalls` has them.

use std::env;

use syscalls::{aarch64, arm, x86, x86_64};

/// Calls that 32-bit programs of x86-64 ask `socketcall` for, and that have no number of their own.
/// The crate compares them with those of the eBPF side.
pub const INNER: [(u32, &str); 3] = [(509, "accept"), (510, "send"), (511, "recv")];

/// Numbers are less than this.
const MOST: usize = 1024;

/// Number and name of a call.
pub type Call = (u32, &'static str);

/// The calls of a machine, and the marks of the lines that are for its programs alone.
#[derive(Debug, Default)]
pub struct Machine {
    /// Calls of its own programs.
    pub native: Vec<Call>,
    /// Mark of lines for these.
    pub native_mark: &'static str,
    /// Calls of its 32-bit programs.
    pub compat: Vec<Call>,
    /// Mark of lines for these.
    pub compat_mark: &'static str,
}

macro_rules! calls {
    ($machine:ident) => {
        (0..MOST)
            .filter_map($machine::Sysno::new)
            .map(|call| (call as u32, kernel_name(call.name())))
            .collect()
    };
}

impl Machine {
    /// Returns that for which the crate is built. Others than these two have no table.
    pub fn of_target() -> Self {
        let target = env::var("CARGO_CFG_TARGET_ARCH").unwrap_or_default();
        match target.as_str() {
            "x86_64" => Self {
                native: calls!(x86_64),
                native_mark: "@x86_64",
                compat: {
                    let mut compat: Vec<Call> = calls!(x86);
                    compat.extend(INNER);
                    compat
                },
                compat_mark: "@i386",
            },
            "aarch64" => Self {
                native: calls!(aarch64),
                native_mark: "@arm64",
                compat: calls!(arm),
                compat_mark: "@arm",
            },
            _ => Self::default(),
        }
    }
}

/// Tells whether a machine has a call of this name.
pub fn is_known(name: &str) -> bool {
    let has = |calls: Vec<Call>| calls.iter().any(|(_, known)| *known == name);
    // So arm64 calls the one that others call `newfstatat`.
    name == "fstatat"
        || has(calls!(x86_64))
        || has(calls!(x86))
        || has(calls!(aarch64))
        || has(calls!(arm))
}

/// Returns the kernel's name of a call: one has another name in the table of arm64, and one is a
/// word of Rust (`break`), which its table marks.
fn kernel_name(name: &'static str) -> &'static str {
    match name {
        "fstatat" => "newfstatat",
        name => name.strip_prefix("r#").unwrap_or(name),
    }
}
