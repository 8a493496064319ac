//! Structs of calls on files.

use std::borrow::Cow;
use std::mem::offset_of;

use super::bytes::{int, lower_half};
use super::pointed::Data;
use super::render::{flags, push_int64};
use crate::arguments::Call;
use crate::flags::{DESCRIPTOR_FLAGS, OPEN, SEALS, STATUS_FLAGS, words};
use crate::shape::Shape;

/// Appends the type of a file and its permissions: `S_IFREG|0644`.
pub fn mode(mode: u32) -> String {
    let kind = match mode & libc::S_IFMT {
        libc::S_IFREG => "S_IFREG",
        libc::S_IFDIR => "S_IFDIR",
        libc::S_IFLNK => "S_IFLNK",
        libc::S_IFCHR => "S_IFCHR",
        libc::S_IFBLK => "S_IFBLK",
        libc::S_IFIFO => "S_IFIFO",
        libc::S_IFSOCK => "S_IFSOCK",
        _ => "",
    };
    let special = flags(
        u64::from(mode & 0o7000),
        &[
            ("S_ISUID", 0o4000),
            ("S_ISGID", 0o2000),
            ("S_ISVTX", 0o1000),
        ],
        "",
    );
    let permissions = permissions(mode & 0o777);
    let parts = [kind, &special, &permissions];
    let parts: Vec<_> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    parts.join("|")
}

/// Appends a device number: `makedev(0x1, 0x3)`.
pub fn device(device: u64) -> String {
    let (major, minor) = (libc::major(device), libc::minor(device));
    let number = |number: u32| match number {
        0 => "0".to_owned(),
        _ => format!("{number:#x}"),
    };
    format!("makedev({}, {})", number(major), number(minor))
}

fn is_device(mode: u32) -> bool {
    matches!(mode & libc::S_IFMT, libc::S_IFCHR | libc::S_IFBLK)
}

pub fn push_stat(out: &mut Vec<u8>, Data { bytes, .. }: Data<'_>) -> Option<()> {
    let bits = bytes.u32(offset_of!(libc::stat, st_mode))?;
    let size = bytes.i64(offset_of!(libc::stat, st_size))?;
    let rdev = bytes.u64(offset_of!(libc::stat, st_rdev))?;
    let second = if is_device(bits) {
        format!("st_rdev={}", device(rdev))
    } else {
        format!("st_size={size}")
    };
    let shown = format!("{{st_mode={}, {second}, ...}}", mode(bits));
    out.extend_from_slice(shown.as_bytes());
    Some(())
}

pub fn push_statx(out: &mut Vec<u8>, Data { bytes, .. }: Data<'_>) -> Option<()> {
    const MASK: &[(&str, u64)] = &[
        ("STATX_ALL", 0xfff),
        ("STATX_BASIC_STATS", 0x7ff),
        ("STATX_TYPE", 1),
        ("STATX_MODE", 2),
        ("STATX_NLINK", 4),
        ("STATX_UID", 8),
        ("STATX_GID", 0x10),
        ("STATX_ATIME", 0x20),
        ("STATX_MTIME", 0x40),
        ("STATX_CTIME", 0x80),
        ("STATX_INO", 0x100),
        ("STATX_SIZE", 0x200),
        ("STATX_BLOCKS", 0x400),
        ("STATX_BTIME", 0x800),
        ("STATX_MNT_ID", 0x1000),
    ];
    const ATTRIBUTES: &[(&str, u64)] = &[
        ("STATX_ATTR_COMPRESSED", 4),
        ("STATX_ATTR_IMMUTABLE", 0x10),
        ("STATX_ATTR_APPEND", 0x20),
        ("STATX_ATTR_NODUMP", 0x40),
        ("STATX_ATTR_ENCRYPTED", 0x800),
        ("STATX_ATTR_AUTOMOUNT", 0x1000),
        ("STATX_ATTR_MOUNT_ROOT", 0x2000),
        ("STATX_ATTR_VERITY", 0x10_0000),
        ("STATX_ATTR_DAX", 0x20_0000),
    ];
    let mask = bytes.u32(offset_of!(libc::statx, stx_mask))?;
    let attributes = bytes.u64(offset_of!(libc::statx, stx_attributes))?;
    let bits = bytes.u16(offset_of!(libc::statx, stx_mode))?;
    let size = bytes.u64(offset_of!(libc::statx, stx_size))?;
    let shown = format!(
        "{{stx_mask={}, stx_attributes={}, stx_mode={}, stx_size={size}, ...}}",
        flags(mask.into(), MASK, "0"),
        flags(attributes, ATTRIBUTES, "0"),
        mode(bits.into()),
    );
    out.extend_from_slice(shown.as_bytes());
    Some(())
}

/// File systems by their numbers, as `linux/magic.h` has them.
const FILE_SYSTEMS: &[(&str, u64)] = &[
    ("ADFS_SUPER_MAGIC", 0xadf5),
    ("AFFS_SUPER_MAGIC", 0xadff),
    ("AFS_SUPER_MAGIC", 0x5346_414f),
    ("AUTOFS_SUPER_MAGIC", 0x187),
    ("CEPH_SUPER_MAGIC", 0x00c3_6400),
    ("CODA_SUPER_MAGIC", 0x7375_7245),
    ("CRAMFS_MAGIC", 0x28cd_3d45),
    ("CRAMFS_MAGIC_WEND", 0x453d_cd28),
    ("DEBUGFS_MAGIC", 0x6462_6720),
    ("SECURITYFS_MAGIC", 0x7363_6673),
    ("SELINUX_MAGIC", 0xf97c_ff8c),
    ("SMACK_MAGIC", 0x4341_5d53),
    ("RAMFS_MAGIC", 0x8584_58f6),
    ("TMPFS_MAGIC", 0x0102_1994),
    ("HUGETLBFS_MAGIC", 0x9584_58f6),
    ("SQUASHFS_MAGIC", 0x7371_7368),
    ("ECRYPTFS_SUPER_MAGIC", 0xf15f),
    ("EFS_SUPER_MAGIC", 0x0041_4a53),
    ("EROFS_SUPER_MAGIC_V1", 0xe0f5_e1e2),
    ("EXT2_SUPER_MAGIC", 0xef53),
    ("XENFS_SUPER_MAGIC", 0xabba_1974),
    ("BTRFS_SUPER_MAGIC", 0x9123_683e),
    ("NILFS_SUPER_MAGIC", 0x3434),
    ("F2FS_SUPER_MAGIC", 0xf2f5_2010),
    ("HPFS_SUPER_MAGIC", 0xf995_e849),
    ("ISOFS_SUPER_MAGIC", 0x9660),
    ("JFFS2_SUPER_MAGIC", 0x72b6),
    ("XFS_SUPER_MAGIC", 0x5846_5342),
    ("PSTOREFS_MAGIC", 0x6165_676c),
    ("EFIVARFS_MAGIC", 0xde5e_81e4),
    ("HOSTFS_SUPER_MAGIC", 0x00c0_ffee),
    ("OVERLAYFS_SUPER_MAGIC", 0x794c_7630),
    ("FUSE_SUPER_MAGIC", 0x6573_5546),
    ("MINIX_SUPER_MAGIC", 0x137f),
    ("MINIX_SUPER_MAGIC2", 0x138f),
    ("MINIX2_SUPER_MAGIC", 0x2468),
    ("MINIX2_SUPER_MAGIC2", 0x2478),
    ("MINIX3_SUPER_MAGIC", 0x4d5a),
    ("MSDOS_SUPER_MAGIC", 0x4d44),
    ("EXFAT_SUPER_MAGIC", 0x2011_bab0),
    ("NCP_SUPER_MAGIC", 0x564c),
    ("NFS_SUPER_MAGIC", 0x6969),
    ("OCFS2_SUPER_MAGIC", 0x7461_636f),
    ("OPENPROM_SUPER_MAGIC", 0x9fa1),
    ("QNX4_SUPER_MAGIC", 0x2f),
    ("QNX6_SUPER_MAGIC", 0x6819_1122),
    ("AFS_FS_MAGIC", 0x6b41_4653),
    ("REISERFS_SUPER_MAGIC", 0x5265_4973),
    ("SMB_SUPER_MAGIC", 0x517b),
    ("CIFS_SUPER_MAGIC", 0xff53_4d42),
    ("CGROUP_SUPER_MAGIC", 0x0027_e0eb),
    ("CGROUP2_SUPER_MAGIC", 0x6367_7270),
    ("RDTGROUP_SUPER_MAGIC", 0x0765_5821),
    ("TRACEFS_MAGIC", 0x7472_6163),
    ("V9FS_MAGIC", 0x0102_1997),
    ("BDEVFS_MAGIC", 0x6264_6576),
    ("DAXFS_MAGIC", 0x6464_6178),
    ("BINFMTFS_MAGIC", 0x4249_4e4d),
    ("DEVPTS_SUPER_MAGIC", 0x1cd1),
    ("BINDERFS_SUPER_MAGIC", 0x6c6f_6f70),
    ("FUTEXFS_SUPER_MAGIC", 0x0bad_1dea),
    ("PIPEFS_MAGIC", 0x5049_5045),
    ("PROC_SUPER_MAGIC", 0x9fa0),
    ("SOCKFS_MAGIC", 0x534f_434b),
    ("SYSFS_MAGIC", 0x6265_6572),
    ("USBDEVICE_SUPER_MAGIC", 0x9fa2),
    ("MTD_INODE_FS_MAGIC", 0x1130_7854),
    ("ANON_INODE_FS_MAGIC", 0x0904_1934),
    ("NSFS_MAGIC", 0x6e73_6673),
    ("BPF_FS_MAGIC", 0xcafe_4a11),
    ("AAFS_MAGIC", 0x5a3c_69f0),
    ("ZONEFS_MAGIC", 0x5a4f_4653),
    ("UDF_SUPER_MAGIC", 0x1501_3346),
    ("DMA_BUF_MAGIC", 0x444d_4142),
    ("DEVMEM_MAGIC", 0x454d_444d),
    ("SECRETMEM_MAGIC", 0x5345_434d),
];

pub fn push_statfs(out: &mut Vec<u8>, Data { bytes, .. }: Data<'_>) -> Option<()> {
    const FLAGS: &[(&str, u64)] = &[
        ("ST_VALID", 0x20),
        ("ST_RDONLY", 1),
        ("ST_NOSUID", 2),
        ("ST_NODEV", 4),
        ("ST_NOEXEC", 8),
        ("ST_SYNCHRONOUS", 0x10),
        ("ST_MANDLOCK", 0x40),
        ("ST_NOATIME", 0x400),
        ("ST_NODIRATIME", 0x800),
        ("ST_RELATIME", 0x1000),
        ("ST_NOSYMFOLLOW", 0x2000),
    ];
    let word = |nth: usize| bytes.u64(nth * 8);
    let kind = word(0)?;
    let kind = match FILE_SYSTEMS.iter().find(|(_, known)| *known == kind) {
        Some((name, _)) => (*name).to_owned(),
        None => format!("{kind:#x}"),
    };
    let id = [bytes.u32(56)?, bytes.u32(60)?];
    let shown = format!(
        "{{f_type={kind}, f_bsize={}, f_blocks={}, f_bfree={}, f_bavail={}, f_files={}, f_ffree={}, \
         f_fsid={{val=[{}, {}]}}, f_namelen={}, f_frsize={}, f_flags={}}}",
        word(1)?,
        word(2)?,
        word(3)?,
        word(4)?,
        word(5)?,
        word(6)?,
        hex_or_zero(id[0].into()),
        hex_or_zero(id[1].into()),
        word(8)?,
        word(9)?,
        flags(word(10)?, FLAGS, "0"),
    );
    out.extend_from_slice(shown.as_bytes());
    Some(())
}

fn hex_or_zero(value: u64) -> String {
    if value == 0 {
        "0".to_owned()
    } else {
        format!("{value:#x}")
    }
}

/// Appends the lock that `fcntl` takes, and gives back where it is asked for one.
pub fn push_flock(out: &mut Vec<u8>, data: Data<'_>) -> Option<()> {
    /// Commands for long files that 32-bit programs have beside those.
    const F_GETLK64: i32 = 12;
    const F_SETLK64: i32 = 13;
    const F_SETLKW64: i32 = 14;
    let (call, bytes, is_filled) = (data.call, data.bytes, data.returned.is_some());
    let command = i32::try_from(call.registers[1]).ok()?;
    let is_asked = matches!(command, libc::F_GETLK | libc::F_OFD_GETLK | F_GETLK64);
    let is_set = matches!(
        command,
        libc::F_SETLK
            | libc::F_SETLKW
            | libc::F_OFD_SETLK
            | libc::F_OFD_SETLKW
            | F_SETLK64
            | F_SETLKW64
    );
    if !is_asked && !is_set || is_asked != is_filled {
        return None;
    }
    let kind = match i32::from(bytes.i16(offset_of!(libc::flock, l_type))?) {
        libc::F_RDLCK => "F_RDLCK",
        libc::F_WRLCK => "F_WRLCK",
        libc::F_UNLCK => "F_UNLCK",
        _ => return None,
    };
    let whence = match i32::from(bytes.i16(offset_of!(libc::flock, l_whence))?) {
        libc::SEEK_SET => "SEEK_SET",
        libc::SEEK_CUR => "SEEK_CUR",
        libc::SEEK_END => "SEEK_END",
        _ => return None,
    };
    let start = bytes.i64(offset_of!(libc::flock, l_start))?;
    let length = bytes.i64(offset_of!(libc::flock, l_len))?;
    let mut shown = format!("{{l_type={kind}, l_whence={whence}, l_start={start}, l_len={length}");
    if is_filled {
        let pid = bytes.i32(offset_of!(libc::flock, l_pid))?;
        shown += &format!(", l_pid={pid}");
    }
    out.extend_from_slice(shown.as_bytes());
    out.push(b'}');
    Some(())
}

/// Appends a position in a file.
pub fn push_offset(out: &mut Vec<u8>, data: Data<'_>) -> Option<()> {
    push_int64(out, data)
}

/// Appends nothing: how many entries there are is said behind the address.
pub fn push_entries(_: &mut Vec<u8>, _: Data<'_>) -> Option<()> {
    None
}

/// Renders the permissions of a file: at least three digits, of which the first is a zero.
#[must_use]
pub fn permissions(bits: u32) -> String {
    let octal = format!("0{bits:o}");
    format!("{octal:0>3}")
}

/// Names the type and the permissions of a file that is made.
pub fn name_file_mode(call: &Call, index: usize) -> Option<Cow<'static, str>> {
    Some(mode(int(call, index)?.cast_unsigned() & 0xffff).into())
}

/// Names the device that a file is made for.
pub fn name_file_device(call: &Call, index: usize) -> Option<Cow<'static, str>> {
    Some(device(u64::from(int(call, index)?.cast_unsigned())).into())
}

/// Chooses the arguments of `mknod`: only a device has numbers.
pub fn show_mknod(call: &Call) -> Shape {
    without_device(call, 1)
}

/// Chooses the arguments of `mknodat`.
pub fn show_mknod_at(call: &Call) -> Shape {
    without_device(call, 2)
}

fn without_device(call: &Call, mode: usize) -> Shape {
    let bits = int(call, mode).map_or(0, i32::cast_unsigned);
    match is_device(bits) {
        true => Shape::all(call),
        false => Shape::unnamed([0, 1, 2].get(..=mode).unwrap_or_default()),
    }
}

/// Chooses the arguments of `fcntl`: some commands take none.
pub fn show_fcntl(call: &Call) -> Shape {
    if takes_nothing(call.registers[1]) {
        Shape::unnamed(&[0, 1])
    } else {
        Shape::all(call)
    }
}

/// Tells whether a command of `fcntl` takes no argument.
fn takes_nothing(command: u64) -> bool {
    let command = i32::try_from(command).unwrap_or(-1);
    matches!(
        command,
        libc::F_GETFD
            | libc::F_GETFL
            | libc::F_GETOWN
            | libc::F_GETLEASE
            | libc::F_GETPIPE_SZ
            | libc::F_GET_SEALS
    )
}

/// Names the argument of a command of `fcntl`.
pub fn name_fcntl_argument(call: &Call, index: usize) -> Option<Cow<'static, str>> {
    let register = *call.registers.get(index)?;
    match int(call, 1)? {
        libc::F_SETFD => Some(words(&DESCRIPTOR_FLAGS, register)),
        libc::F_SETFL => Some(words(&STATUS_FLAGS, register)),
        libc::F_DUPFD | libc::F_DUPFD_CLOEXEC | libc::F_SETPIPE_SZ | libc::F_SETOWN => {
            Some(lower_half(register).to_string().into())
        }
        libc::F_ADD_SEALS => Some(words(&SEALS, register)),
        _ => None,
    }
}

/// Names the flags that `fcntl` returns: `0x8002 (flags O_RDWR|O_LARGEFILE)`.
pub fn result_fcntl_flags(call: &Call, value: i64) -> Option<String> {
    let bits = u64::try_from(value).ok()?;
    let values = match lower_half(call.registers[1]) {
        libc::F_GETFD if bits != 0 => &DESCRIPTOR_FLAGS,
        libc::F_GETFL => &STATUS_FLAGS,
        _ => return None,
    };
    Some(format!(
        "{} (flags {})",
        hex_or_zero(bits),
        words(values, bits)
    ))
}

/// Chooses the arguments of `_llseek`, whose offset is in two of them.
pub fn show_long_seek(_: &Call) -> Shape {
    Shape::unnamed(&[0, 2, 3, 4])
}

/// Chooses the arguments of `preadv` and `pwritev`, whose position has a second half that is zero.
pub fn show_vector_at(_: &Call) -> Shape {
    Shape::unnamed(&[0, 1, 2, 3])
}

/// Chooses the arguments of `preadv2` and `pwritev2`: flags behind them.
pub fn show_vector_with_flags(_: &Call) -> Shape {
    Shape::unnamed(&[0, 1, 2, 3, 5])
}

/// Bytes of a `struct open_how` that are known.
const OPEN_HOW_KNOWN: usize = 24;

const RESOLVE: &[(&str, u64)] = &[
    ("RESOLVE_NO_XDEV", 1),
    ("RESOLVE_NO_MAGICLINKS", 2),
    ("RESOLVE_NO_SYMLINKS", 4),
    ("RESOLVE_BENEATH", 8),
    ("RESOLVE_IN_ROOT", 0x10),
    ("RESOLVE_CACHED", 0x20),
];

/// Appends a `struct open_how`: the mode where it counts, and bytes beyond those that are known
/// where they are not all zero.
pub fn push_open_how(out: &mut Vec<u8>, Data { bytes, .. }: Data<'_>) -> Option<()> {
    let (bits, mode, resolve) = (bytes.u64(0)?, bytes.u64(8)?, bytes.u64(16)?);
    out.extend_from_slice(b"{flags=");
    match u32::try_from(bits) {
        Ok(bits) => OPEN.push(out, bits),
        Err(_) => out.extend_from_slice(format!("{bits:#x}").as_bytes()),
    }
    let makes_file = (libc::O_CREAT | libc::O_TMPFILE & !libc::O_DIRECTORY).cast_unsigned();
    if bits & u64::from(makes_file) != 0 || mode != 0 {
        let shown = u32::try_from(mode).map_or_else(|_| format!("0{mode:o}"), permissions);
        out.extend_from_slice(format!(", mode={shown}").as_bytes());
    }
    let resolve = flags(resolve, RESOLVE, "0");
    out.extend_from_slice(format!(", resolve={resolve}").as_bytes());
    let more = bytes.from(OPEN_HOW_KNOWN)?.slice();
    if more.iter().any(|byte| *byte != 0) {
        let last = OPEN_HOW_KNOWN + more.len() - 1;
        out.extend_from_slice(format!(", /* bytes {OPEN_HOW_KNOWN}..{last} */ \"").as_bytes());
        for byte in more {
            out.extend_from_slice(format!("\\x{byte:02x}").as_bytes());
        }
        out.push(b'"');
    }
    out.push(b'}');
    Some(())
}
