//! Arguments of `ioctl` by command: one table of commands.

use std::borrow::Cow;

use super::bytes::{Bytes, int, quoted};
use super::netlink::INTERFACE_FLAGS;
use super::pointed::Data;
use super::render::flags;
use super::terminal::push_settings;
use super::{network, packet};
use crate::arguments::Call;
use crate::flags::{IO_COMMANDS, named};
use crate::shape::Shape;

/// A command, and the data at the address that it is given.
#[derive(Clone, Copy, Debug)]
pub struct IoctlCommand {
    /// Its value.
    code: u32,
    /// Name of the command.
    pub name: &'static str,
    what: What,
    way: Way,
}

/// Kind of argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    /// `struct ifreq`: a name, and one of its other members.
    Interface(Member),
    /// `struct ifreq`, where the name is asked for.
    InterfaceName,
    /// `struct termios`, as the kernel has it.
    Settings,
    /// `struct winsize`.
    Sizes,
    /// An integer.
    Int,
    /// An integer of 64 bits.
    Long,
    /// A character.
    Character,
    /// Flags of a file.
    FileFlags,
    /// `struct fiemap`.
    Extents,
    /// Value in place of an address: one of these.
    Value(&'static [(&'static str, u64)]),
}

/// A member of `struct ifreq`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Member {
    Address(&'static str),
    Device,
    Flags,
    Int(&'static str),
}

/// Direction of the argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// The program.
    Given,
    /// The call.
    Filled,
    /// First one, then the other.
    Both,
}

const fn row(name: &'static str, code: u32, what: What, way: Way) -> IoctlCommand {
    IoctlCommand {
        code,
        name,
        what,
        way,
    }
}

use Member::{Address, Device, Flags};
use Way::{Both, Filled, Given};
use What::{Character, Extents, FileFlags, Int, Interface, InterfaceName, Long, Settings, Sizes};

const QUEUES: What = What::Value(&[("TCIFLUSH", 0), ("TCOFLUSH", 1), ("TCIOFLUSH", 2)]);
const FLOW: What = What::Value(&[("TCOOFF", 0), ("TCOON", 1), ("TCIOFF", 2), ("TCION", 3)]);

/// The commands that are known. Those of networks are the same on all machines, and those of
/// terminals and files on the two for which this is built.
const COMMANDS: &[IoctlCommand] = &[
    row("TCGETS", 0x5401, Settings, Filled),
    row("TCSETS", 0x5402, Settings, Given),
    row("TCSETSW", 0x5403, Settings, Given),
    row("TCSETSF", 0x5404, Settings, Given),
    row("TCXONC", 0x540a, FLOW, Given),
    row("TCFLSH", 0x540b, QUEUES, Given),
    row("TIOCGPGRP", 0x540f, Int, Filled),
    row("TIOCSPGRP", 0x5410, Int, Given),
    row("TIOCOUTQ", 0x5411, Int, Filled),
    row("TIOCSTI", 0x5412, Character, Given),
    row("TIOCGWINSZ", 0x5413, Sizes, Filled),
    row("TIOCSWINSZ", 0x5414, Sizes, Given),
    row("FIONREAD", 0x541b, Int, Filled),
    row("TIOCPKT", 0x5420, Int, Given),
    row("FIONBIO", 0x5421, Int, Given),
    row("TIOCGSID", 0x5429, Int, Filled),
    row("TIOCGPTN", 0x8004_5430, Int, Filled),
    row("TIOCSPTLCK", 0x4004_5431, Int, Given),
    row("TIOCGPTPEER", 0x5441, What::Value(&[]), Given),
    row("FIOASYNC", 0x5452, Int, Given),
    row("SIOCGIFNAME", 0x8910, InterfaceName, Both),
    row("SIOCGIFFLAGS", 0x8913, Interface(Flags), Both),
    row("SIOCSIFFLAGS", 0x8914, Interface(Flags), Given),
    row("SIOCGIFADDR", 0x8915, Interface(Address("ifr_addr")), Both),
    row("SIOCSIFADDR", 0x8916, Interface(Address("ifr_addr")), Given),
    row(
        "SIOCGIFDSTADDR",
        0x8917,
        Interface(Address("ifr_dstaddr")),
        Both,
    ),
    row(
        "SIOCSIFDSTADDR",
        0x8918,
        Interface(Address("ifr_dstaddr")),
        Given,
    ),
    row(
        "SIOCGIFBRDADDR",
        0x8919,
        Interface(Address("ifr_broadaddr")),
        Both,
    ),
    row(
        "SIOCSIFBRDADDR",
        0x891a,
        Interface(Address("ifr_broadaddr")),
        Given,
    ),
    row(
        "SIOCGIFNETMASK",
        0x891b,
        Interface(Address("ifr_netmask")),
        Both,
    ),
    row(
        "SIOCSIFNETMASK",
        0x891c,
        Interface(Address("ifr_netmask")),
        Given,
    ),
    row(
        "SIOCGIFMETRIC",
        0x891d,
        Interface(Member::Int("ifr_metric")),
        Both,
    ),
    row(
        "SIOCSIFMETRIC",
        0x891e,
        Interface(Member::Int("ifr_metric")),
        Given,
    ),
    row(
        "SIOCGIFMTU",
        0x8921,
        Interface(Member::Int("ifr_mtu")),
        Both,
    ),
    row(
        "SIOCSIFMTU",
        0x8922,
        Interface(Member::Int("ifr_mtu")),
        Given,
    ),
    row("SIOCSIFHWADDR", 0x8924, Interface(Device), Given),
    row("SIOCGIFHWADDR", 0x8927, Interface(Device), Both),
    row(
        "SIOCGIFINDEX",
        0x8933,
        Interface(Member::Int("ifr_ifindex")),
        Both,
    ),
    row(
        "SIOCGIFTXQLEN",
        0x8942,
        Interface(Member::Int("ifr_qlen")),
        Both,
    ),
    row(
        "SIOCSIFTXQLEN",
        0x8943,
        Interface(Member::Int("ifr_qlen")),
        Given,
    ),
    row("FS_IOC_GETFLAGS", 0x8008_6601, FileFlags, Filled),
    row("FS_IOC_SETFLAGS", 0x4008_6602, FileFlags, Given),
    row("FS_IOC_FIEMAP", 0xc020_660b, Extents, Both),
    row("BLKGETSIZE64", 0x8008_1272, Long, Filled),
    row("BLKGETSIZE", 0x1260, Long, Filled),
    row("BLKROGET", 0x125e, Int, Filled),
    row("BLKSSZGET", 0x1268, Int, Filled),
    row("BLKIOMIN", 0x1278, Int, Filled),
    row("BLKIOOPT", 0x1279, Int, Filled),
    row("BLKALIGNOFF", 0x127a, Int, Filled),
    row("BLKPBSZGET", 0x127b, Int, Filled),
    row("BLKDISCARDZEROES", 0x127c, Int, Filled),
    row("FIGETBSZ", 0x2, What::Value(&[]), Given),
];

/// Returns the command of this value.
#[must_use]
pub fn command(register: u64) -> Option<&'static IoctlCommand> {
    let code = register & 0xffff_ffff;
    let mut all = COMMANDS.iter();
    all.find(|command| u64::from(command.code) == code)
}

impl IoctlCommand {
    /// Tells whether the data that it was given is shown, and the data that it gives back behind
    /// it.
    #[must_use]
    pub fn is_shown_twice(&self) -> bool {
        self.what == Extents
    }

    /// Returns a value in place of an address.
    #[must_use]
    pub fn value(&self, register: u64) -> Option<&'static str> {
        match self.what {
            What::Value(names) => {
                let mut names = names.iter();
                names
                    .find(|(_, value)| *value == register)
                    .map(|(name, _)| *name)
            }
            _ if register == 0 => Some("NULL"),
            _ => None,
        }
    }

    /// Appends the data at the address that it is given: as the call begins or, `is_filled`, ends.
    pub fn push(&self, out: &mut Vec<u8>, bytes: Bytes<'_>, is_filled: bool) -> Option<()> {
        let is_there = match self.way {
            Given => !is_filled,
            Filled => is_filled,
            Both => true,
        };
        if !is_there {
            return None;
        }
        let is_whole = is_filled || self.way == Given;
        match self.what {
            Interface(member) => push_interface(out, bytes, member, is_whole),
            InterfaceName => push_interface_name(out, bytes, is_filled),
            Settings => push_settings(out, bytes),
            Sizes => push_sizes(out, bytes),
            Int => push_in_brackets(out, &bytes.i32(0)?.to_string()),
            Long => push_in_brackets(out, &bytes.u64(0)?.to_string()),
            Character => push_text(out, &quoted(bytes.slice().get(..1)?)),
            FileFlags => push_in_brackets(out, &flags(bytes.u32(0)?.into(), FILE_FLAGS, "0")),
            Extents if is_filled => push_found_extents(out, bytes),
            Extents => push_extents(out, bytes),
            What::Value(_) => None,
        }
    }
}

fn push_text(out: &mut Vec<u8>, text: &str) -> Option<()> {
    out.extend_from_slice(text.as_bytes());
    Some(())
}

fn push_in_brackets(out: &mut Vec<u8>, text: &str) -> Option<()> {
    push_text(out, &format!("[{text}]"))
}

fn push_sizes(out: &mut Vec<u8>, bytes: Bytes<'_>) -> Option<()> {
    let shown = format!(
        "{{ws_row={}, ws_col={}, ws_xpixel={}, ws_ypixel={}}}",
        bytes.u16(0)?,
        bytes.u16(2)?,
        bytes.u16(4)?,
        bytes.u16(6)?
    );
    push_text(out, &shown)
}

/// Bytes of the name of an interface.
const NAME: usize = 16;

/// Returns the name of an interface, in quotes.
fn interface_name(bytes: Bytes<'_>) -> Option<String> {
    let name = bytes.slice().get(..NAME)?;
    Some(Bytes(name).quoted())
}

/// Appends a request: only the name of one that is not answered.
fn push_interface(
    out: &mut Vec<u8>,
    bytes: Bytes<'_>,
    member: Member,
    is_whole: bool,
) -> Option<()> {
    let name = interface_name(bytes)?;
    out.extend_from_slice(format!("{{ifr_name={name}").as_bytes());
    let rest = bytes.from(NAME)?;
    if is_whole {
        out.extend_from_slice(b", ");
        match member {
            Address(name) => {
                out.extend_from_slice(format!("{name}=").as_bytes());
                let address = rest.slice().get(..NAME)?;
                network::push_address(out, Bytes(address))?;
            }
            Device => {
                let kind = packet::device_kind(rest.u16(0)?);
                let address = rest.from(2)?.slice().get(..6)?.iter();
                let address: Vec<_> = address.map(|byte| format!("{byte:02x}")).collect();
                let address = address.join(":");
                let shown = format!("ifr_hwaddr={{sa_family={kind}, sa_data={address}}}");
                out.extend_from_slice(shown.as_bytes());
            }
            Flags => {
                let shown = flags(rest.u16(0)?.into(), INTERFACE_FLAGS, "0");
                out.extend_from_slice(format!("ifr_flags={shown}").as_bytes());
            }
            Member::Int(name) => {
                out.extend_from_slice(format!("{name}={}", rest.i32(0)?).as_bytes());
            }
        }
    }
    out.push(b'}');
    Some(())
}

fn push_interface_name(out: &mut Vec<u8>, bytes: Bytes<'_>, is_filled: bool) -> Option<()> {
    let index = bytes.from(NAME)?.i32(0)?;
    out.extend_from_slice(format!("{{ifr_ifindex={index}").as_bytes());
    if is_filled {
        let name = interface_name(bytes)?;
        out.extend_from_slice(format!(", ifr_name={name}").as_bytes());
    }
    out.push(b'}');
    Some(())
}

const FILE_FLAGS: &[(&str, u64)] = &[
    ("FS_SECRM_FL", 1),
    ("FS_UNRM_FL", 2),
    ("FS_COMPR_FL", 4),
    ("FS_SYNC_FL", 8),
    ("FS_IMMUTABLE_FL", 0x10),
    ("FS_APPEND_FL", 0x20),
    ("FS_NODUMP_FL", 0x40),
    ("FS_NOATIME_FL", 0x80),
    ("FS_DIRTY_FL", 0x100),
    ("FS_COMPRBLK_FL", 0x200),
    ("FS_NOCOMP_FL", 0x400),
    ("FS_ENCRYPT_FL", 0x800),
    ("FS_INDEX_FL", 0x1000),
    ("FS_IMAGIC_FL", 0x2000),
    ("FS_JOURNAL_DATA_FL", 0x4000),
    ("FS_NOTAIL_FL", 0x8000),
    ("FS_DIRSYNC_FL", 0x1_0000),
    ("FS_TOPDIR_FL", 0x2_0000),
    ("FS_HUGE_FILE_FL", 0x4_0000),
    ("FS_EXTENT_FL", 0x8_0000),
    ("FS_VERITY_FL", 0x10_0000),
    ("FS_EA_INODE_FL", 0x20_0000),
    ("FS_EOFBLOCKS_FL", 0x40_0000),
    ("FS_NOCOW_FL", 0x80_0000),
    ("FS_DAX_FL", 0x200_0000),
    ("FS_INLINE_DATA_FL", 0x1000_0000),
    ("FS_PROJINHERIT_FL", 0x2000_0000),
    ("FS_CASEFOLD_FL", 0x4000_0000),
];

const EXTENT_FLAGS: &[(&str, u64)] = &[
    ("FIEMAP_FLAG_SYNC", 1),
    ("FIEMAP_FLAG_XATTR", 2),
    ("FIEMAP_FLAG_CACHE", 4),
];

fn extent_flags(bytes: Bytes<'_>) -> Option<String> {
    Some(flags(bytes.u32(16)?.into(), EXTENT_FLAGS, "0"))
}

/// Appends the part of a file of which the extents are asked for.
fn push_extents(out: &mut Vec<u8>, bytes: Bytes<'_>) -> Option<()> {
    let shown = format!(
        "{{fm_start={}, fm_length={}, fm_flags={}, fm_extent_count={}}}",
        bytes.u64(0)?,
        bytes.u64(8)?,
        extent_flags(bytes)?,
        bytes.u32(24)?
    );
    push_text(out, &shown)
}

/// Appends how many there are; they themselves are not read.
fn push_found_extents(out: &mut Vec<u8>, bytes: Bytes<'_>) -> Option<()> {
    let (named, count) = (extent_flags(bytes)?, bytes.u32(20)?);
    push_text(
        out,
        &format!("{{fm_flags={named}, fm_mapped_extents={count}, ...}}"),
    )
}

/// Appends the argument of a command.
pub fn push_ioctl(out: &mut Vec<u8>, data: Data<'_>) -> Option<()> {
    let is_filled = data.returned.is_some();
    command(data.call.registers[1])?.push(out, data.bytes, is_filled)
}

/// Chooses the arguments of `ioctl`: some commands take none.
pub fn show_ioctl(call: &Call) -> Shape {
    if takes_no_argument(call.registers[1]) {
        Shape::unnamed(&[0, 1])
    } else {
        Shape::all(call)
    }
}

/// Tells whether a command of `ioctl` takes no argument.
fn takes_no_argument(command: u64) -> bool {
    [
        libc::FIOCLEX,
        libc::FIONCLEX,
        libc::TIOCEXCL,
        libc::TIOCNXCL,
        libc::TIOCNOTTY,
    ]
    .map(ioctl_command)
    .contains(&(command & 0xffff_ffff))
}

/// Returns a command of `ioctl` as the kernel takes it: the C libraries have different types for
/// it.
pub fn ioctl_command(known: libc::Ioctl) -> u64 {
    // An `int` in some, whose highest bit is its sign.
    u64::try_from(i128::from(known) & 0xffff_ffff).unwrap_or(u64::MAX)
}

/// Names a command.
pub fn name_ioctl_command(call: &Call, index: usize) -> Option<Cow<'static, str>> {
    let code = int(call, index)?;
    match code.cast_unsigned() {
        FICLONE => return Some("BTRFS_IOC_CLONE or FICLONE".into()),
        MTIOCTOP => return Some("MTIOCTOP".into()),
        _ => {}
    }
    if let Some(known) = command(*call.registers.get(index)?) {
        return Some(known.name.into());
    }
    named(IO_COMMANDS, code).or_else(|| Some(unknown_io_command(code).into()))
}

/// Names the value that a command takes in place of an address.
pub fn name_ioctl_value(call: &Call, index: usize) -> Option<Cow<'static, str>> {
    if TAKES_INT.contains(&int(call, 1)?.cast_unsigned()) {
        return Some(int(call, index)?.to_string().into());
    }
    let command = command(call.registers[1])?;
    command
        .value(*call.registers.get(index)?)
        .map(Cow::Borrowed)
}

/// Renders a command of `ioctl` that has no name here, by its bits.
fn unknown_io_command(command: i32) -> String {
    let bits = command.cast_unsigned();
    let direction = match bits >> 30 {
        0 => "_IOC_NONE",
        1 => "_IOC_WRITE",
        2 => "_IOC_READ",
        _ => "_IOC_READ|_IOC_WRITE",
    };
    let part = |value: u32| match value {
        0 => "0".to_owned(),
        value => format!("{value:#x}"),
    };
    let (kind, nr, size) = (bits >> 8 & 0xff, bits & 0xff, bits >> 16 & 0x3fff);
    let (kind, nr, size) = (part(kind), part(nr), part(size));
    format!("_IOC({direction}, {kind}, {nr}, {size})")
}

/// Commands of `ioctl` that take a descriptor.
const TAKES_INT: &[u32] = &[FICLONE];
const FICLONE: u32 = 0x4004_9409;

/// Operation that `tar` asks of a tape.
const MTIOCTOP: u32 = 0x4008_6d01;
