//! The shared libraries that programs need.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context as _;

use crate::process;

/// Everything that `program` is linked with, the dynamic linker included; nothing for a static
/// program.
pub fn of(program: &Path) -> anyhow::Result<BTreeSet<PathBuf>> {
    let output = Command::new("ldd")
        .arg(program)
        .env("LC_ALL", "C")
        .output()
        .context("cannot run ldd")?;
    let said = String::from_utf8_lossy(&output.stdout);
    let complaint = String::from_utf8_lossy(&output.stderr);
    if complaint.contains("not a dynamic executable") || said.contains("statically linked") {
        return Ok(BTreeSet::new());
    }
    anyhow::ensure!(
        output.status.success() && !said.contains("not found"),
        "{} cannot be run here: {said}{complaint}",
        program.display()
    );
    Ok(said.lines().filter_map(path).collect())
}

/// The path in a line of `ldd`; the kernel's own library has none.
fn path(line: &str) -> Option<PathBuf> {
    let place = line.split_once(" => ").map_or(line, |(_, place)| place);
    let path = place.trim().split(" (").next()?;
    path.starts_with('/').then(|| path.into())
}

/// The program `name` of this machine.
pub fn program(name: &str) -> anyhow::Result<PathBuf> {
    process::find(name).with_context(|| format!("{name} is not on the path"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_ldd_name_libraries_and_the_linker_but_not_the_kernels() {
        let of = |line: &str| path(line).map(|path| path.display().to_string());
        assert_eq!(of("\tlinux-vdso.so.1 (0x00007f2)"), None);
        assert_eq!(
            of("\tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f)").as_deref(),
            Some("/lib/x86_64-linux-gnu/libc.so.6")
        );
        assert_eq!(
            of("\t/lib64/ld-linux-x86-64.so.2 (0x00007f)").as_deref(),
            Some("/lib64/ld-linux-x86-64.so.2")
        );
    }
}
