//! Tools that only makers of the eBPF object have: programs of the same names that fail.

use std::ffi::OsString;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::{env, iter};

use anyhow::Context as _;

use crate::workspace;

const NAMES: &[&str] = &["bpf-linker", "clang", "llvm-config", "llc", "opt"];

/// Returns a `PATH` on which a call of one of these tools fails, and the build with it.
pub fn path() -> anyhow::Result<OsString> {
    let folder = workspace::target("package/absent");
    fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    for name in NAMES {
        let file = folder.join(name);
        let says =
            format!("#!/bin/sh\necho '{name} is not for those who get a crate' >&2\nexit 1\n");
        fs::write(&file, says).with_context(|| file.display().to_string())?;
        fs::set_permissions(&file, Permissions::from_mode(0o755))?;
    }
    let present = env::var_os("PATH").unwrap_or_default();
    let folders = iter::once(folder).chain(env::split_paths(&present));
    Ok(env::join_paths(folders)?)
}
