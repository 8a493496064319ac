//! The path of a file: its name, that of the folder that it is in, and so on, up to the root of its
//! mount namespace. So it is the path that `/proc/PID/fd` shows to a process in that namespace.

use tracer_common::kernel::descriptors::{DELETED, PATH};

use crate::offsets::{
    DENTRY_HASHED, DENTRY_NAME, DENTRY_PARENT, DENTRY_SEQUENCE, MOUNT_MOUNT, MOUNT_PARENT,
    MOUNT_POINT, MOUNT_ROOT,
};

use super::space::{add_kernel_text, half_at, word_at};

/// Folders and mounts on the way to the root at most: of what is deeper nothing is said.
const DEEPEST: u32 = 128;

/// Adds the names of a path: of which kind it is, or 0 where it cannot be said.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn add_path(of: u64, of_mount: u64) -> i32 {
    let (mut dentry, mut mount) = (of, of_mount);
    if dentry == 0 || mount == 0 {
        return 0;
    }
    let is_root = word_at(dentry, DENTRY_PARENT.load()) == dentry;
    let is_deleted = !is_root && word_at(dentry, DENTRY_HASHED.load()) == 0;
    let mut root = word_at(mount, MOUNT_ROOT.load());
    let mut depth = 0;
    while depth < DEEPEST {
        depth += 1;
        if dentry == root {
            // From what is mounted to where it is mounted.
            let outer = mount - u64::from(MOUNT_MOUNT.load());
            let parent = word_at(outer, MOUNT_PARENT.load());
            if parent == outer || parent == 0 {
                return i32::from(if is_deleted { DELETED } else { PATH });
            }
            dentry = word_at(outer, MOUNT_POINT.load());
            mount = parent + u64::from(MOUNT_MOUNT.load());
            root = word_at(mount, MOUNT_ROOT.load());
            continue;
        }
        let parent = add_name(dentry);
        if parent == 0 {
            return 0;
        }
        if parent == dentry {
            // Of what is mounted nowhere.
            return i32::from(if is_deleted { DELETED } else { PATH });
        }
        dentry = parent;
    }
    0
}

/// Adds a path as [`add_path`] does.
#[inline(always)]
pub fn add(dentry: u64, mount: u64) -> i32 {
    add_path(dentry, mount)
}

/// Adds the name of a file or folder: what it is in, itself where it is in nothing, or 0 where that
/// cannot be said.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn add_name(dentry: u64) -> u64 {
    let sequence = half_at(dentry, DENTRY_SEQUENCE.load());
    let parent = word_at(dentry, DENTRY_PARENT.load());
    if parent == dentry {
        return parent;
    }
    if add_kernel_text(word_at(dentry, DENTRY_NAME.load())) == 0 {
        return 0;
    }
    // It is odd while the name is changed, and another one after that.
    let is_same = half_at(dentry, DENTRY_SEQUENCE.load()) == sequence;
    if sequence & 1 == 0 && is_same {
        parent
    } else {
        0
    }
}
