//! Description of an open file.

use tracer_common::kernel::descriptors::{ANONYMOUS, MEMORY, NAMESPACE, PIPE, PROCESS};

use crate::maps;
use crate::offsets::{
    DENTRY_NAME, DENTRY_OPERATIONS, DENTRY_PARENT, FILE_INODE, FILE_PRIVATE, INODE_NUMBER,
    INODE_PRIVATE, INODE_SUPER, MOUNT_ROOT, NAMESPACE as OWN_NAMESPACE, NS_NAME, NS_OPERATIONS,
    OPERATIONS_NAME, PID_UPIDS, SUPER_MAGIC,
};
use crate::pid::Pid;

use super::path;
use super::socket::add_socket;
use super::space::{Space, add_kernel_text, half_at, word_at};

/// The file systems whose files are in no folder, by their magics.
mod magic {
    pub const PIPE: u64 = 0x5049_5045;
    pub const SOCKET: u64 = 0x534f_434b;
    pub const ANONYMOUS: u64 = 0x0904_1934;
    pub const NAMESPACE: u64 = 0x6e73_6673;
    pub const PROCESS: u64 = 0x5049_4446;
    pub const MEMORY: u64 = 0x0102_1994;
    pub const HUGE_PAGES: u64 = 0x9584_58f6;
    pub const SECRET: u64 = 0x5345_434d;
}

/// Adds what a file is: of which kind, or 0 where that cannot be said.
#[inline(always)]
pub fn add(file: u64, dentry: u64, mount: u64) -> i32 {
    if has_name_of_its_own(dentry, mount) {
        add_nameless(file, dentry)
    } else {
        path::add(dentry, mount)
    }
}

/// Tells whether the kernel makes up its name: it is in no folder.
#[inline(always)]
fn has_name_of_its_own(dentry: u64, mount: u64) -> bool {
    let operations = word_at(dentry, DENTRY_OPERATIONS.load());
    if operations == 0 || word_at(operations, OPERATIONS_NAME.load()) == 0 {
        return false;
    }
    // Unless it is mounted somewhere.
    word_at(dentry, DENTRY_PARENT.load()) != dentry || word_at(mount, MOUNT_ROOT.load()) != dentry
}

/// Adds what a file is that is in no folder.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn add_nameless(file: u64, dentry: u64) -> i32 {
    let Some(space) = Space::current() else {
        return 0;
    };
    let inode = word_at(file, FILE_INODE.load());
    let inode_id = word_at(inode, INODE_NUMBER.load());
    let name = word_at(dentry, DENTRY_NAME.load());
    let super_block = word_at(inode, INODE_SUPER.load());
    match word_at(super_block, SUPER_MAGIC.load()) {
        magic::PIPE => kind(PIPE, space.add_word(inode_id)),
        magic::SOCKET => add_socket(file, inode_id, name),
        magic::ANONYMOUS if is_process(name) => {
            let process = word_at(file, FILE_PRIVATE.load());
            kind(PROCESS, space.add_word(pid_of(process)))
        }
        magic::ANONYMOUS => kind(ANONYMOUS, add_kernel_text(name) != 0),
        magic::PROCESS => {
            let process = word_at(inode, INODE_PRIVATE.load());
            kind(PROCESS, space.add_word(pid_of(process)))
        }
        magic::NAMESPACE => {
            let namespace = word_at(inode, INODE_PRIVATE.load());
            let operations = word_at(namespace, NS_OPERATIONS.load());
            let name = word_at(operations, NS_NAME.load());
            kind(
                NAMESPACE,
                space.add_word(inode_id) && add_kernel_text(name) != 0,
            )
        }
        magic::MEMORY | magic::HUGE_PAGES | magic::SECRET => {
            kind(MEMORY, add_kernel_text(name) != 0)
        }
        _ => 0,
    }
}

#[inline(always)]
fn kind(kind: u8, is_added: bool) -> i32 {
    if is_added { i32::from(kind) } else { 0 }
}

/// Tells whether the object with this name is a process, as names show before 6.9.
#[inline(always)]
fn is_process(name: u64) -> bool {
    super::space::read::<u64>(name) == u64::from_ne_bytes(*b"[pidfd]\0")
}

/// Returns the pid, in the agent's pid namespace, of what a `struct pid` is for; 0 where it has
/// none.
#[inline(always)]
fn pid_of(process: u64) -> u64 {
    let first = half_at(process, PID_UPIDS.load());
    if OWN_NAMESPACE.load() == 0 {
        u64::from(first)
    } else {
        u64::from(maps::own(Pid(first)))
    }
}
