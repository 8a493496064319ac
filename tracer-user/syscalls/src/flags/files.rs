//! Files, their descriptors, and what watches them; mounts and swap.

use super::{Constant, NONE, Values, constants};

pub const OPEN: Values = Values {
    mask: libc::O_ACCMODE as u32,
    values: constants!(O_RDONLY O_WRONLY O_RDWR),
    flags: STATUS_FLAGS.flags,
    zero: "O_RDONLY",
    ..NONE
};

pub const PIPE: Values = Values {
    flags: constants!(O_NONBLOCK O_DIRECT O_CLOEXEC),
    ..NONE
};

pub const FILE_ADVICE: Values = Values {
    mask: u32::MAX,
    values: constants!(
        POSIX_FADV_NORMAL POSIX_FADV_RANDOM POSIX_FADV_SEQUENTIAL POSIX_FADV_WILLNEED
        POSIX_FADV_DONTNEED POSIX_FADV_NOREUSE
    ),
    zero: "POSIX_FADV_NORMAL",
    ..NONE
};

pub const WHENCE: Values = Values {
    mask: u32::MAX,
    values: constants!(SEEK_SET SEEK_CUR SEEK_END SEEK_DATA SEEK_HOLE),
    zero: "SEEK_SET",
    ..NONE
};

pub const ACCESS: Values = Values {
    flags: constants!(R_OK W_OK X_OK),
    zero: "F_OK",
    ..NONE
};

pub const AT: Values = Values {
    flags: constants!(AT_SYMLINK_NOFOLLOW AT_SYMLINK_FOLLOW AT_NO_AUTOMOUNT AT_EMPTY_PATH),
    ..NONE
};

pub const AT_ACCESS: Values = Values {
    flags: constants!(AT_SYMLINK_NOFOLLOW AT_EACCESS AT_EMPTY_PATH),
    ..NONE
};

pub const AT_UNLINK: Values = Values {
    flags: constants!(AT_REMOVEDIR),
    ..NONE
};

pub const STATX: Values = Values {
    mask: 0x6000,
    values: &[
        ("AT_STATX_SYNC_AS_STAT", 0),
        ("AT_STATX_FORCE_SYNC", 0x2000),
        ("AT_STATX_DONT_SYNC", 0x4000),
    ],
    flags: AT.flags,
    zero: "AT_STATX_SYNC_AS_STAT",
    ..NONE
};

pub const STATX_MASK: Values = Values {
    flags: constants!(
        STATX_ALL STATX_BASIC_STATS STATX_TYPE STATX_MODE STATX_NLINK STATX_UID STATX_GID
        STATX_ATIME STATX_MTIME STATX_CTIME STATX_INO STATX_SIZE STATX_BLOCKS STATX_BTIME
        STATX_MNT_ID
    ),
    ..NONE
};

pub const RENAME: Values = Values {
    flags: constants!(RENAME_NOREPLACE RENAME_EXCHANGE RENAME_WHITEOUT),
    ..NONE
};

pub const FILE_CONTROL: Values = Values {
    mask: u32::MAX,
    values: constants!(
        F_DUPFD F_GETFD F_SETFD F_GETFL F_SETFL F_GETLK F_SETLK F_SETLKW F_SETOWN F_GETOWN
        F_SETLEASE F_GETLEASE F_NOTIFY F_DUPFD_CLOEXEC F_SETPIPE_SZ F_GETPIPE_SZ F_ADD_SEALS
        F_GET_SEALS F_OFD_GETLK F_OFD_SETLK F_OFD_SETLKW
    ),
    zero: "F_DUPFD",
    ..NONE
};

/// Commands of `fcntl64` in 32-bit programs, which have more for long files.
pub const FILE_CONTROL_64: Values = Values {
    mask: u32::MAX,
    values: &{
        let mut values = [("", 0); FILE_CONTROL.values.len() + 3];
        let mut nth = 0;
        while nth < FILE_CONTROL.values.len() {
            #[expect(clippy::indexing_slicing, reason = "the compiler makes it")]
            {
                values[nth] = FILE_CONTROL.values[nth];
            }
            nth += 1;
        }
        #[expect(clippy::indexing_slicing, reason = "the compiler makes it")]
        {
            values[nth] = ("F_GETLK64", 12);
            values[nth + 1] = ("F_SETLK64", 13);
            values[nth + 2] = ("F_SETLKW64", 14);
        }
        values
    },
    zero: "F_DUPFD",
    ..NONE
};

pub const LOCK: Values = Values {
    flags: constants!(LOCK_SH LOCK_EX LOCK_NB LOCK_UN),
    ..NONE
};

pub const FALLOCATE: Values = Values {
    flags: constants!(
        FALLOC_FL_KEEP_SIZE FALLOC_FL_PUNCH_HOLE FALLOC_FL_COLLAPSE_RANGE FALLOC_FL_ZERO_RANGE
        FALLOC_FL_INSERT_RANGE FALLOC_FL_UNSHARE_RANGE
    ),
    ..NONE
};

pub const INOTIFY: Values = Values {
    flags: constants!(IN_CLOEXEC IN_NONBLOCK),
    ..NONE
};

pub const RANDOM: Values = Values {
    flags: constants!(GRND_NONBLOCK GRND_RANDOM GRND_INSECURE),
    ..NONE
};

pub const WATCH: Values = Values {
    flags: constants!(
        IN_ACCESS IN_MODIFY IN_ATTRIB IN_CLOSE_WRITE IN_CLOSE_NOWRITE IN_OPEN IN_MOVED_FROM
        IN_MOVED_TO IN_CREATE IN_DELETE IN_DELETE_SELF IN_MOVE_SELF IN_UNMOUNT IN_Q_OVERFLOW
        IN_IGNORED IN_ONLYDIR IN_DONT_FOLLOW IN_EXCL_UNLINK IN_MASK_CREATE IN_MASK_ADD IN_ISDIR
        IN_ONESHOT
    ),
    ..NONE
};

pub const SYNC_RANGE: Values = Values {
    flags: constants!(
        SYNC_FILE_RANGE_WAIT_BEFORE SYNC_FILE_RANGE_WRITE SYNC_FILE_RANGE_WAIT_AFTER
    ),
    ..NONE
};

pub const CLOSE_RANGE: Values = Values {
    flags: &[("CLOSE_RANGE_UNSHARE", 2), ("CLOSE_RANGE_CLOEXEC", 4)],
    ..NONE
};

pub const SPLICE: Values = Values {
    flags: constants!(SPLICE_F_MOVE SPLICE_F_NONBLOCK SPLICE_F_MORE SPLICE_F_GIFT),
    ..NONE
};

pub const ATTRIBUTE: Values = Values {
    flags: constants!(XATTR_CREATE XATTR_REPLACE),
    ..NONE
};

pub const FILE_NOTICES: Values = Values {
    mask: 0xc,
    values: &[
        ("FAN_CLASS_NOTIF", 0),
        ("FAN_CLASS_CONTENT", 4),
        ("FAN_CLASS_PRE_CONTENT", 8),
    ],
    flags: &[
        ("FAN_CLOEXEC", 1),
        ("FAN_NONBLOCK", 2),
        ("FAN_UNLIMITED_QUEUE", 0x10),
        ("FAN_UNLIMITED_MARKS", 0x20),
        ("FAN_ENABLE_AUDIT", 0x40),
        ("FAN_REPORT_PIDFD", 0x80),
        ("FAN_REPORT_TID", 0x100),
        ("FAN_REPORT_FID", 0x200),
        ("FAN_REPORT_DIR_FID", 0x400),
        ("FAN_REPORT_NAME", 0x800),
        ("FAN_REPORT_TARGET_FID", 0x1000),
    ],
    zero: "FAN_CLASS_NOTIF",
    ..NONE
};

pub const DESCRIPTOR_FLAGS: Values = Values {
    flags: constants!(FD_CLOEXEC),
    ..NONE
};

pub const STATUS_FLAGS: Values = Values {
    mask: libc::O_ACCMODE as u32,
    values: constants!(O_RDONLY O_WRONLY O_RDWR),
    // The kernel's own value: the C library has 0 where all files may be large.
    flags: &[
        ("O_CREAT", libc::O_CREAT as u32),
        ("O_EXCL", libc::O_EXCL as u32),
        ("O_NOCTTY", libc::O_NOCTTY as u32),
        ("O_TRUNC", libc::O_TRUNC as u32),
        ("O_APPEND", libc::O_APPEND as u32),
        ("O_NONBLOCK", libc::O_NONBLOCK as u32),
        ("O_SYNC", libc::O_SYNC as u32),
        ("O_DSYNC", libc::O_DSYNC as u32),
        ("O_DIRECT", libc::O_DIRECT as u32),
        ("O_LARGEFILE", O_LARGEFILE),
        ("O_NOFOLLOW", libc::O_NOFOLLOW as u32),
        ("O_NOATIME", libc::O_NOATIME as u32),
        ("O_CLOEXEC", libc::O_CLOEXEC as u32),
        ("O_PATH", libc::O_PATH as u32),
        ("O_TMPFILE", libc::O_TMPFILE as u32),
        ("O_DIRECTORY", libc::O_DIRECTORY as u32),
        ("FASYNC", libc::O_ASYNC as u32),
    ],
    zero: "O_RDONLY",
    ..NONE
};

pub const O_LARGEFILE: u32 = if cfg!(target_arch = "aarch64") {
    0o400_000
} else {
    0o100_000
};

pub const SEALS: Values = Values {
    flags: constants!(F_SEAL_SEAL F_SEAL_SHRINK F_SEAL_GROW F_SEAL_WRITE F_SEAL_FUTURE_WRITE),
    ..NONE
};

pub const IO_COMMANDS: &[Constant] = constants!(
    TCSBRK TIOCEXCL TIOCNXCL TIOCSCTTY TIOCMGET TIOCNOTTY FIOCLEX FIONCLEX FICLONERANGE SIOCGIFCONF
);

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
