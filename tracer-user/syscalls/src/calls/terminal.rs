//! The settings of a terminal.

use super::bytes::Bytes;
use super::flags;

const INPUT: &[(&str, u64)] = &[
    ("IGNBRK", 0o1),
    ("BRKINT", 0o2),
    ("IGNPAR", 0o4),
    ("PARMRK", 0o10),
    ("INPCK", 0o20),
    ("ISTRIP", 0o40),
    ("INLCR", 0o100),
    ("IGNCR", 0o200),
    ("ICRNL", 0o400),
    ("IUCLC", 0o1000),
    ("IXON", 0o2000),
    ("IXANY", 0o4000),
    ("IXOFF", 0o10000),
    ("IMAXBEL", 0o20000),
    ("IUTF8", 0o40000),
];

const OUTPUT: &[(&str, u64)] = &[
    ("OPOST", 0o1),
    ("OLCUC", 0o2),
    ("ONLCR", 0o4),
    ("OCRNL", 0o10),
    ("ONOCR", 0o20),
    ("ONLRET", 0o40),
    ("OFILL", 0o100),
    ("OFDEL", 0o200),
];

const CONTROL: &[(&str, u64)] = &[
    ("CSTOPB", 0o100),
    ("CREAD", 0o200),
    ("PARENB", 0o400),
    ("PARODD", 0o1000),
    ("HUPCL", 0o2000),
    ("CLOCAL", 0o4000),
    ("CMSPAR", 0o10_000_000_000),
    ("CRTSCTS", 0o20_000_000_000),
];

const LOCAL: &[(&str, u64)] = &[
    ("ISIG", 0o1),
    ("ICANON", 0o2),
    ("XCASE", 0o4),
    ("ECHO", 0o10),
    ("ECHOE", 0o20),
    ("ECHOK", 0o40),
    ("ECHONL", 0o100),
    ("NOFLSH", 0o200),
    ("IEXTEN", 0o100_000),
    ("ECHOCTL", 0o1000),
    ("ECHOPRT", 0o2000),
    ("ECHOKE", 0o4000),
    ("FLUSHO", 0o10000),
    ("PENDIN", 0o40000),
    ("TOSTOP", 0o400),
    ("EXTPROC", 0o200_000),
];

/// Delays of output: bits, their names, and their shift.
const DELAYS: [(u32, &str, u32); 6] = [
    (0o400, "NL", 8),
    (0o3000, "CR", 9),
    (0o14000, "TAB", 11),
    (0o20000, "BS", 13),
    (0o40000, "VT", 14),
    (0o100_000, "FF", 15),
];

const SPEED: u32 = 0o10017;
const SPEEDS: [&str; 16] = [
    "B0", "B50", "B75", "B110", "B134", "B150", "B200", "B300", "B600", "B1200", "B1800", "B2400",
    "B4800", "B9600", "B19200", "B38400",
];
const FASTER: [&str; 16] = [
    "BOTHER", "B57600", "B115200", "B230400", "B460800", "B500000", "B576000", "B921600",
    "B1000000", "B1152000", "B1500000", "B2000000", "B2500000", "B3000000", "B3500000", "B4000000",
];
const FAST: u32 = 0o10000;

/// Appends the settings, without their characters.
pub fn push_settings(out: &mut Vec<u8>, bytes: Bytes<'_>) -> Option<()> {
    let (input, output, control, local) =
        (bytes.u32(0)?, bytes.u32(4)?, bytes.u32(8)?, bytes.u32(12)?);
    let mut of_output: Vec<_> = DELAYS
        .iter()
        .map(|(mask, name, shift)| format!("{name}{}", (output & mask) >> shift))
        .collect();
    let delays = DELAYS.iter().fold(0, |all, (mask, ..)| all | mask);
    of_output.push(flags((output & !delays).into(), OUTPUT, ""));
    let speeds = if control & FAST == 0 {
        &SPEEDS
    } else {
        &FASTER
    };
    let speed = speeds.get(usize::try_from(control & 0xf).ok()?)?;
    let size = 5 + (control >> 4 & 3);
    let rest = u64::from(control & !SPEED & !0o60);
    let of_control = [
        (*speed).to_owned(),
        format!("CS{size}"),
        flags(rest, CONTROL, ""),
    ];
    let joined = |parts: &[String]| {
        let parts = parts.iter().filter(|part| !part.is_empty());
        parts.cloned().collect::<Vec<_>>().join("|")
    };
    let shown = format!(
        "{{c_iflag={}, c_oflag={}, c_cflag={}, c_lflag={}, ...}}",
        flags(input.into(), INPUT, ""),
        joined(&of_output),
        joined(&of_control),
        flags(local.into(), LOCAL, "")
    );
    out.extend_from_slice(shown.as_bytes());
    Some(())
}
