//! Kernel's tracing files, for tools that look for them at the usual path.
//!
//! Where they are not mounted, they are mounted in a mount namespace of our own, which programs
//! started from here inherit: other processes do not see the mount, and nothing of it is left,
//! however this process ends.

use std::ffi::CStr;
use std::io;
use std::path::Path;
use std::ptr;

use anyhow::Context as _;

/// Path at which tools look for them.
pub const TRACEFS: &str = "/sys/kernel/tracing";

/// Mounts the files if necessary. It must be called before there are other threads, which would not
/// see them.
pub fn mount() -> anyhow::Result<()> {
    if Path::new(TRACEFS).join("instances").exists() {
        return Ok(());
    }
    let why = || format!("tracefs is not mounted at {TRACEFS}, and cannot be");
    own_namespace().with_context(why)?;
    let (kind, path) = (c"tracefs".as_ptr(), c"/sys/kernel/tracing".as_ptr());
    // SAFETY: the texts are C strings, and this file system needs no data.
    let mounted = unsafe { libc::mount(kind, path, kind, 0, ptr::null()) };
    succeeded(mounted).with_context(why)
}

fn own_namespace() -> io::Result<()> {
    // SAFETY: takes no pointers.
    succeeded(unsafe { libc::unshare(libc::CLONE_NEWNS) })?;
    // What is mounted here would be seen outside as well. In a chroot the root may be a folder of a
    // mount that has no name there: then it is the mount in which tracefs will be.
    make_private(c"/", libc::MS_REC).or_else(|_| make_private(c"/sys", 0))
}

fn make_private(path: &CStr, recursive: libc::c_ulong) -> io::Result<()> {
    let (flags, nothing) = (recursive | libc::MS_PRIVATE, ptr::null());
    // SAFETY: the path is a C string; with these flags the kernel looks at no other argument.
    succeeded(unsafe { libc::mount(nothing, path.as_ptr(), nothing, flags, ptr::null()) })
}

fn succeeded(result: libc::c_int) -> io::Result<()> {
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}
