//! Mounts and swap.

use super::{NONE, Values, constants};

pub const MOUNT: Values = Values {
    mask: MAGIC_MASK,
    values: &[("MS_MGC_VAL", MAGIC)],
    flags: constants!(
        MS_RDONLY MS_NOSUID MS_NODEV MS_NOEXEC MS_SYNCHRONOUS MS_REMOUNT MS_MANDLOCK MS_DIRSYNC
        MS_NOATIME MS_NODIRATIME MS_BIND MS_MOVE MS_REC MS_SILENT MS_POSIXACL MS_UNBINDABLE
        MS_PRIVATE MS_SLAVE MS_SHARED MS_RELATIME MS_KERNMOUNT MS_I_VERSION MS_STRICTATIME
        MS_LAZYTIME
    ),
    ..NONE
};

/// Magic number of old programs in the upper half of the flags of `mount`.
pub const MAGIC: u32 = 0xc0ed_0000;

pub const MAGIC_MASK: u32 = 0xffff_0000;

pub const SWAP: Values = Values {
    flags: &[
        ("SWAP_FLAG_PREFER", 0x8000),
        ("SWAP_FLAG_DISCARD", 0x10000),
        ("SWAP_FLAG_DISCARD_ONCE", 0x20000),
        ("SWAP_FLAG_DISCARD_PAGES", 0x40000),
    ],
    ..NONE
};

pub const UMOUNT: Values = Values {
    flags: constants!(MNT_FORCE MNT_DETACH MNT_EXPIRE UMOUNT_NOFOLLOW),
    ..NONE
};

/// Bits of the flags of `swapon` that are no flags.
pub const PRIORITY: u32 = 0x7fff;
