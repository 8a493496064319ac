//! Memory.

use super::{Constant, NONE, Values, constants};

pub const PROTECTION: Values = Values {
    flags: constants!(PROT_READ PROT_WRITE PROT_EXEC PROT_GROWSDOWN PROT_GROWSUP),
    zero: "PROT_NONE",
    ..NONE
};

pub const MAPPING: Values = Values {
    mask: libc::MAP_TYPE as u32,
    values: constants!(MAP_SHARED MAP_PRIVATE MAP_SHARED_VALIDATE),
    flags: constants!(
        MAP_FIXED MAP_ANONYMOUS MAP_32BIT MAP_GROWSDOWN MAP_DENYWRITE MAP_EXECUTABLE MAP_LOCKED
        MAP_NORESERVE MAP_POPULATE MAP_NONBLOCK MAP_STACK MAP_HUGETLB MAP_SYNC MAP_FIXED_NOREPLACE
    ),
    ..NONE
};

pub const REMAPPING: Values = Values {
    flags: constants!(MREMAP_MAYMOVE MREMAP_FIXED MREMAP_DONTUNMAP),
    ..NONE
};

pub const ADVICE: Values = Values {
    mask: u32::MAX,
    values: constants!(
        MADV_NORMAL MADV_RANDOM MADV_SEQUENTIAL MADV_WILLNEED MADV_DONTNEED MADV_FREE MADV_REMOVE
        MADV_DONTFORK MADV_DOFORK MADV_MERGEABLE MADV_UNMERGEABLE MADV_HUGEPAGE MADV_NOHUGEPAGE
        MADV_DONTDUMP MADV_DODUMP MADV_WIPEONFORK MADV_KEEPONFORK MADV_COLD MADV_PAGEOUT
        MADV_POPULATE_READ MADV_POPULATE_WRITE
    ),
    zero: "MADV_NORMAL",
    ..NONE
};

pub const MEMORY_SYNC: Values = Values {
    flags: constants!(MS_ASYNC MS_INVALIDATE MS_SYNC),
    ..NONE
};

pub const MEMORY_FILE: Values = Values {
    flags: constants!(MFD_CLOEXEC MFD_ALLOW_SEALING MFD_HUGETLB),
    ..NONE
};

pub const KEY_RIGHTS: Values = Values {
    flags: &[("PKEY_DISABLE_ACCESS", 1), ("PKEY_DISABLE_WRITE", 2)],
    ..NONE
};

pub const LOCKED: Values = Values {
    flags: constants!(MCL_CURRENT MCL_FUTURE MCL_ONFAULT),
    ..NONE
};

pub const MEMORY_POLICY: Values = Values {
    mask: 0x1fff,
    values: &[
        ("MPOL_DEFAULT", 0),
        ("MPOL_PREFERRED", 1),
        ("MPOL_BIND", 2),
        ("MPOL_INTERLEAVE", 3),
        ("MPOL_LOCAL", 4),
        ("MPOL_PREFERRED_MANY", 5),
    ],
    flags: &[
        ("MPOL_F_STATIC_NODES", 1 << 15),
        ("MPOL_F_RELATIVE_NODES", 1 << 14),
        ("MPOL_F_NUMA_BALANCING", 1 << 13),
    ],
    zero: "MPOL_DEFAULT",
    ..NONE
};

pub const BARRIER: Values = Values {
    mask: u32::MAX,
    values: BARRIERS,
    zero: "MEMBARRIER_CMD_QUERY",
    ..NONE
};

pub const BARRIERS: &[Constant] = &[
    ("MEMBARRIER_CMD_GLOBAL", 1),
    ("MEMBARRIER_CMD_GLOBAL_EXPEDITED", 1 << 1),
    ("MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED", 1 << 2),
    ("MEMBARRIER_CMD_PRIVATE_EXPEDITED", 1 << 3),
    ("MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED", 1 << 4),
    ("MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE", 1 << 5),
    (
        "MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_SYNC_CORE",
        1 << 6,
    ),
    ("MEMBARRIER_CMD_PRIVATE_EXPEDITED_RSEQ", 1 << 7),
    ("MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_RSEQ", 1 << 8),
];

pub const ATTACH: Values = Values {
    flags: constants!(SHM_RDONLY SHM_RND SHM_REMAP SHM_EXEC),
    ..NONE
};

pub const SHARED_CONTROL: Values = Values {
    mask: u32::MAX,
    values: constants!(IPC_RMID IPC_SET IPC_STAT IPC_INFO),
    zero: "IPC_RMID",
    ..NONE
};

/// The commands as bits, as `membarrier` returns them.
pub const BARRIER_SET: Values = Values {
    flags: BARRIERS,
    ..NONE
};
