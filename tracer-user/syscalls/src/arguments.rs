//! System calls with their arguments, and how people know their values.

use tracer_common::kernel::SyscallEnterData;
use zerocopy::FromBytes;

use crate::calls::Struct;
use crate::flags::Values;
use crate::names::{self, LAST_ERROR, Table};
use crate::table::{self, Argument, CallInfo, Kind, Returns};
use tracer_text::signal_name;

/// Most arguments of a call: there are this many registers for them.
pub const MOST: usize = 6;

/// Data behind an argument that is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pointed {
    /// No pointer, or one behind which nothing is read.
    Unread,
    /// Text that a null ends.
    Text,
    /// Bytes, as many as the next argument says.
    Bytes,
    /// Bytes that the call fills in: as many as it returns.
    Filled,
    /// Text that the call fills in, and that a null ends.
    FilledText,
    /// A struct or list.
    Struct(Given),
}

/// A struct or list that an argument points to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Given {
    /// Kind of the struct.
    pub kind: &'static Struct,
    /// Whether the call is given it.
    pub is_given: bool,
    /// Whether the call fills it in.
    pub is_filled: bool,
    /// Whether its members are those of 32-bit programs.
    pub is_narrow: bool,
}

/// A system call with the registers of its arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// The table that its system call number is from.
    pub table: Table,
    /// Its system call number.
    pub nr: i32,
    /// The registers: those beyond its arguments hold anything.
    pub registers: [u64; MOST],
}

/// Value that a system call returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Returned {
    /// The table that its system call number is from.
    pub table: Table,
    /// Its system call number.
    pub nr: i32,
    /// Value that it returned; small negative values are errors.
    pub value: i64,
}

/// A value, as people know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {
    /// Decimal number with a sign.
    Signed(i64),
    /// Decimal number.
    Unsigned(u64),
    /// Hexadecimal number.
    Hex(u64),
    /// A signal without a name of its own: by how far it is behind the first of them.
    RealTimeSignal(u32),
    /// Octal number.
    Octal(u64),
    /// Name, and the value that has it.
    Named(&'static str, i64),
    /// Names of bits.
    Bits(&'static Values, u32),
}

impl Shown {
    /// Returns the value. Most are small or addresses, which every reader of signed integers holds
    /// exactly.
    #[must_use]
    pub fn value(self) -> i64 {
        match self {
            Self::Signed(value) | Self::Named(_, value) => value,
            Self::Bits(_, bits) => bits.into(),
            Self::RealTimeSignal(signal) => signal.into(),
            Self::Unsigned(value) | Self::Hex(value) | Self::Octal(value) => value.cast_signed(),
        }
    }
}

impl Call {
    /// Returns what the table says of it.
    pub(crate) fn info(&self) -> Option<&'static CallInfo> {
        table::info(self.table, self.nr)
    }

    fn argument(&self, index: usize) -> Option<&'static Argument> {
        self.info()?.argument(index)
    }

    /// Returns the name and the value of each of its arguments.
    pub fn arguments(&self) -> impl Iterator<Item = (&'static str, Shown)> + use<> {
        const NAMELESS: [&str; MOST] = ["arg0", "arg1", "arg2", "arg3", "arg4", "arg5"];
        let info = self.info();
        let count = self.count();
        let registers = self.registers.into_iter().take(count).enumerate();
        let all = self.registers;
        registers.map(move |(index, value)| {
            let argument = info.and_then(|info| info.argument(index));
            match argument {
                Some(argument) => {
                    let next = all.get(index + 1).copied().unwrap_or(0);
                    (argument.name, argument.shown(value, next))
                }
                None => (
                    NAMELESS.get(index).copied().unwrap_or(""),
                    Shown::Hex(value),
                ),
            }
        })
    }

    /// Tells whether the register is the second half of an argument, which is shown with the first.
    #[must_use]
    pub fn is_second_half(&self, index: usize) -> bool {
        let argument = self.argument(index);
        argument.is_some_and(|argument| argument.kind == Kind::Rest)
    }

    /// Returns the number of registers that count; all of them where the call is not known.
    #[must_use]
    pub fn count(&self) -> usize {
        let arguments = self.info().and_then(|info| info.arguments);
        let Some(arguments) = arguments else {
            return MOST;
        };
        if self.lacks_mode(arguments) {
            arguments.len() - 1
        } else {
            arguments.len()
        }
    }

    /// Returns its name, where it is known.
    #[must_use]
    pub fn name(&self) -> Option<&'static str> {
        names::name(self.table, self.nr)
    }

    /// Tells whether it does not return.
    #[must_use]
    pub fn never_returns(&self) -> bool {
        let info = self.info();
        info.is_some_and(|info| info.returns == Returns::Never)
    }

    /// Returns the struct or list that an argument points to, where it is known.
    #[must_use]
    pub fn given(&self, index: usize) -> Option<Given> {
        match self.argument(index)?.kind {
            Kind::Pointer(Pointed::Struct(given)) => Some(given),
            _ => None,
        }
    }

    /// Tells whether an argument is always an address: some are one depending on the operation that
    /// the call is asked for.
    #[must_use]
    pub fn is_address(&self, index: usize) -> bool {
        match self.argument(index).map(|argument| argument.kind) {
            Some(Kind::Pointer(Pointed::Struct(given))) => given.kind.is_in_any_case(),
            Some(Kind::Pointer(_)) => true,
            _ => false,
        }
    }

    /// Tells whether the call fills an argument in with as many bytes as it returns.
    #[must_use]
    pub fn fills_in_as_returned(&self, index: usize) -> bool {
        let argument = self.argument(index);
        argument.is_some_and(|argument| argument.kind == Kind::Pointer(Pointed::Filled))
    }

    /// Tells whether the call asks for the number of bytes that an argument would have, and takes
    /// none.
    pub(crate) fn asks_for_size(&self, index: usize) -> bool {
        let argument = self.argument(index);
        argument.is_some_and(|argument| argument.is_asked_for_size)
            && self.registers.get(index + 1) == Some(&0)
    }

    /// Returns the first argument that is shown as the call ends; as many as there are where none
    /// is.
    #[must_use]
    pub fn first_filled(&self) -> usize {
        let is_filled = |argument: &Argument| match argument.kind {
            Kind::Pointer(Pointed::Filled | Pointed::FilledText) => true,
            Kind::Pointer(Pointed::Struct(given)) => {
                given.is_filled && !(given.is_given && given.kind.is_shown_as_given())
                    || given.kind.is_completed()
            }
            _ => false,
        };
        let known = self.info().map_or(&[][..], CallInfo::known);
        let first = known.iter().position(is_filled);
        first.map_or(self.count(), |first| first.min(self.count()))
    }

    /// Tells whether it opens a file without making one: no mode is given then.
    fn lacks_mode(&self, arguments: &[Argument]) -> bool {
        const MAKES_FILE: u64 = (libc::O_CREAT | libc::O_TMPFILE & !libc::O_DIRECTORY) as u64;
        let has_mode = arguments
            .last()
            .is_some_and(|last| last.kind == Kind::NewMode);
        let flags = arguments.len().checked_sub(2).filter(|_| has_mode);
        let flags = flags.and_then(|flags| self.registers.get(flags));
        flags.is_some_and(|flags| flags & MAKES_FILE == 0)
    }
}

impl Argument {
    fn shown(&self, register: u64, next: u64) -> Shown {
        let shown = match self.kind {
            Kind::Split => Shown::Signed((register & 0xffff_ffff | next << 32).cast_signed()),
            kind => kind.shown(register),
        };
        // An address's lower half is no set of bits.
        let value = shown.value();
        let bits = u32::try_from(value).ok();
        let bits = bits.or_else(|| i32::try_from(value).ok().map(i32::cast_unsigned));
        match (self.values, bits) {
            (Some(values), Some(bits)) => Shown::Bits(values, bits),
            _ => shown,
        }
    }
}

impl Returned {
    /// Returns the value, as it is shown.
    #[must_use]
    pub fn shown(self) -> Shown {
        let info = table::info(self.table, self.nr);
        match (u64::try_from(self.value), info.map(|info| info.returns)) {
            (Ok(mode), Some(Returns::Mode)) => Shown::Octal(mode),
            (Ok(address), Some(Returns::Address)) => Shown::Hex(address),
            // Of a call that is not known it may be one.
            (Ok(address), None) if address > u64::from(u32::MAX) => Shown::Hex(address),
            // What is less than each error is none: `rt_sigreturn` gives a register back.
            (Err(_), _) if self.value < -LAST_ERROR && self.table == Table::Native => {
                Shown::Unsigned(self.value.cast_unsigned())
            }
            _ => Shown::Signed(self.value),
        }
    }
}

/// Blanks the registers that are no arguments of the call, in the data of a system call that
/// begins: their content means nothing, and equal calls become equal data.
pub fn blank_registers(data: &mut [u8]) {
    let Ok((entered, _)) = SyscallEnterData::mut_from_prefix(data) else {
        return;
    };
    let call = Call {
        table: if entered.compat == 0 {
            Table::Native
        } else {
            Table::Compat
        },
        nr: entered.number,
        registers: entered.args,
    };
    for register in entered.args.iter_mut().skip(call.count()) {
        *register = 0;
    }
}

impl Kind {
    fn shown(self, register: u64) -> Shown {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "the kernel takes the lower half"
        )]
        let half = register as u32;
        let signed = i64::from(half.cast_signed());
        match self {
            Self::Fd if signed == i64::from(libc::AT_FDCWD) => Shown::Named("AT_FDCWD", signed),
            Self::Fd | Self::Pid | Self::Int => Shown::Signed(signed),
            Self::Signal => match signal_name(half) {
                Some(name) => Shown::Named(name, signed),
                None if (32..=64).contains(&half) => Shown::RealTimeSignal(half),
                None => Shown::Signed(signed),
            },
            Self::Uint => Shown::Unsigned(half.into()),
            Self::Hex => Shown::Hex(half.into()),
            Self::Mode | Self::NewMode => Shown::Octal((half & 0xffff).into()),
            Self::ModeFlags => Shown::Octal(half.into()),
            Self::Long | Self::Split | Self::Rest => Shown::Signed(register.cast_signed()),
            Self::Pages if half == 0 => Shown::Signed(0),
            Self::Pages => Shown::Hex(u64::from(half) << 12),
            Self::Size | Self::SetSize => Shown::Unsigned(register),
            Self::Word | Self::Pointer(_) => Shown::Hex(register),
        }
    }
}

/// Returns the names of the arguments of the call of this name.
pub fn names(name: &str) -> impl Iterator<Item = &'static str> + use<> {
    names_of(Table::Native, name)
}

/// Returns the names of the arguments of the call of this name, where it may be one of 32-bit
/// programs alone.
#[cfg(test)]
pub fn names_in_any(name: &str) -> impl Iterator<Item = &'static str> + use<> {
    names_of(Table::Native, name).chain(names_of(Table::Compat, name))
}

fn names_of(table: Table, name: &str) -> impl Iterator<Item = &'static str> + use<> {
    let nr = names::syscall_number(table, name);
    let arguments = nr.map_or(&[][..], |nr| known(table, nr.cast_signed()));
    arguments.iter().map(|argument| argument.name)
}

/// Returns the data that the arguments of the call of this name point to.
pub fn pointed(name: &str) -> impl Iterator<Item = Pointed> + use<> {
    let nr = names::syscall_number(Table::Native, name);
    pointed_of(Table::Native, nr.map_or(-1, u32::cast_signed))
}

/// Returns the data that the arguments of a call point to.
pub fn pointed_of(table: Table, nr: i32) -> impl Iterator<Item = Pointed> + use<> {
    known(table, nr).iter().map(|argument| match argument.kind {
        Kind::Pointer(pointed) => pointed,
        _ => Pointed::Unread,
    })
}

/// Returns the indices of the arguments of a call that are descriptors.
pub fn descriptors(table: Table, nr: i32) -> impl Iterator<Item = usize> {
    let arguments = known(table, nr).iter().enumerate();
    arguments.filter_map(|(index, one)| (one.kind == Kind::Fd).then_some(index))
}

/// Returns the arguments of a call; none where they are not known.
fn known(table: Table, nr: i32) -> &'static [Argument] {
    table::info(table, nr).map_or(&[], CallInfo::known)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::{fs, io, ptr};

    use super::*;
    use crate::flags::OPEN;

    fn call(name: &str, registers: [u64; MOST]) -> Call {
        let nr = names::syscall_number(Table::Native, name).unwrap();
        Call {
            table: Table::Native,
            nr: nr.cast_signed(),
            registers,
        }
    }

    fn shown(name: &str, registers: [u64; MOST]) -> Vec<(&'static str, Shown)> {
        call(name, registers).arguments().collect()
    }

    #[test]
    fn what_is_not_known_may_have_them_all() {
        // The second one is `mmap` of 32-bit programs, which takes them in memory.
        for (table, nr) in [(Table::Native, -1), (Table::Compat, 90)] {
            let call = Call {
                table,
                nr,
                registers: [7; MOST],
            };
            let arguments: Vec<_> = call.arguments().collect();
            assert_eq!(arguments.len(), MOST);
            assert_eq!(arguments[5], ("arg5", Shown::Hex(7)));
        }
    }

    #[test]
    fn values_are_shown_as_people_know_them() {
        const MINUS_ONE: u64 = 0xffff_ffff;
        use Shown::{Bits, Hex, Named, Octal, Signed, Unsigned};
        assert_eq!(
            shown("openat", [0xffff_ff9c, 0x7ffd_0010, 0o101, 0o644, 9, 9]),
            [
                ("dfd", Named("AT_FDCWD", -100)),
                ("filename", Hex(0x7ffd_0010)),
                ("flags", Bits(&OPEN, 0o101)),
                ("mode", Octal(0o644))
            ]
        );
        assert_eq!(shown("openat", [3, 0x10, 0o2, 0o644, 9, 9]).len(), 3);
        assert_eq!(
            shown("kill", [MINUS_ONE, 15, 9, 9, 9, 9]),
            [("pid", Signed(-1)), ("sig", Named("SIGTERM", 15))]
        );
        assert_eq!(
            shown("mmap", [0, 4096, 3, 34, MINUS_ONE, 0])[4],
            ("fd", Signed(-1))
        );
        assert_eq!(
            shown("lseek", [3, u64::MAX, 1, 9, 9, 9])[1],
            ("offset", Signed(-1))
        );
        assert_eq!(
            shown("write", [1, 0x10, 5, 9, 9, 9])[2],
            ("count", Unsigned(5))
        );
        assert_eq!(shown("getpid", [9; MOST]), []);
        assert_eq!(shown("umask", [0o22; MOST]), [("mask", Octal(0o22))]);
        assert_eq!(
            shown("shmget", [0, 4096, 0o1600, 9, 9, 9])[2],
            ("shmflg", Octal(0o1600))
        );
    }

    #[test]
    fn what_is_returned_is_shown_as_people_know_it() {
        let returned = |name, value| {
            let Call { table, nr, .. } = call(name, [0; MOST]);
            let returned = Returned { table, nr, value };
            returned.shown()
        };
        assert_eq!(returned("umask", 0o22), Shown::Octal(0o22));
        assert_eq!(returned("openat", 18), Shown::Signed(18));
        assert_eq!(returned("openat", -2), Shown::Signed(-2));
        assert_eq!(
            returned("mmap", 0x7ffd_0000_0000),
            Shown::Hex(0x7ffd_0000_0000)
        );
    }

    #[test]
    fn no_call_has_two_arguments_of_one_name() {
        for name in names::names() {
            let arguments = call(name, [0; MOST]).arguments();
            let mut names: Vec<_> = arguments.map(|(name, _)| name).collect();
            let count = names.len();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), count, "{name}");
        }
    }

    #[test]
    fn registers_that_are_no_arguments_are_blanked() {
        use zerocopy::IntoBytes;
        let Call { nr, registers, .. } = call("close", [3, 9, 9, 9, 9, 9]);
        let mut entered = SyscallEnterData {
            number: nr,
            compat: 0,
            args: registers,
        };
        blank_registers(entered.as_mut_bytes());
        assert_eq!(entered.args, [3, 0, 0, 0, 0, 0]);

        entered.args = registers;
        entered.number = -1;
        blank_registers(entered.as_mut_bytes());
        assert_eq!(entered.args, registers);
        blank_registers(&mut entered.as_mut_bytes()[..20]);
    }

    /// Checks calls that not every kernel is built with, by the declarations in the kernel's
    /// sources.
    #[test]
    #[cfg(target_arch = "x86_64")]
    fn calls_that_this_kernel_may_lack_are_known_too() {
        let count = |call: libc::c_long| {
            let call = Call {
                table: Table::Native,
                nr: i32::try_from(call).unwrap(),
                registers: [0; MOST],
            };
            call.count()
        };
        assert_eq!(count(libc::SYS_init_module), 3);
        assert_eq!(count(libc::SYS_finit_module), 3);
        assert_eq!(count(libc::SYS_delete_module), 2);
        assert_eq!(count(libc::SYS_kexec_load), 4);
        assert_eq!(count(libc::SYS_lookup_dcookie), 3);
    }

    /// Mounts the kernel's tracing files for this thread alone: they are not everywhere, and
    /// nothing is left of the mount.
    fn own_tracefs() -> PathBuf {
        let (nothing, root, mount_point) = (ptr::null(), c"/".as_ptr(), c"/sys/kernel/tracing");
        // SAFETY: takes integers only.
        let unshared = unsafe { libc::unshare(libc::CLONE_NEWNS) };
        assert_eq!(unshared, 0, "{}", io::Error::last_os_error());
        // In a chroot the root may be no mount point; what is mounted below is.
        let is_private = [(root, libc::MS_REC), (c"/sys".as_ptr(), 0)]
            .into_iter()
            .any(|(at, flags)| {
                let private = flags | libc::MS_PRIVATE;
                // SAFETY: the path is a C string; with these flags the kernel looks at no other
                // argument.
                unsafe { libc::mount(nothing, at, nothing, private, ptr::null()) == 0 }
            });
        assert!(is_private, "{}", io::Error::last_os_error());
        let kind = c"tracefs".as_ptr();
        // SAFETY: names and path are C strings; this file system takes no options.
        let mounted = unsafe { libc::mount(kind, mount_point.as_ptr(), kind, 0, ptr::null()) };
        let error = io::Error::last_os_error();
        // It may be there already.
        assert!(
            mounted == 0 || error.raw_os_error() == Some(libc::EBUSY),
            "{error}"
        );
        PathBuf::from(mount_point.to_str().unwrap())
    }

    /// Compares with the kernel's own word, in the fields of its tracepoints.
    #[test]
    #[ignore = "mounts tracefs"]
    fn every_call_has_as_many_as_the_kernel_says() {
        let tracefs = own_tracefs();
        let events = tracefs.join("events/syscalls");
        let mut compared = 0;
        for name in names::names() {
            // The tracepoint has the name of the kernel's function.
            let function = match name {
                "stat" | "fstat" | "lstat" | "uname" => &format!("new{name}"),
                "sendfile" => "sendfile64",
                "umount2" => "umount",
                _ => name,
            };
            let format = events.join(format!("sys_enter_{function}/format"));
            let Ok(format) = fs::read_to_string(format) else {
                continue;
            };
            let name_of = |line: &'_ str| {
                let declared = line.split_once(';')?.0;
                let name = declared.rsplit(|byte: char| !byte.is_alphanumeric() && byte != '_');
                Some(name.into_iter().next()?.trim_start_matches('_').to_owned())
            };
            // After the system call number, which is at offset 8, each argument has a word.
            let is_argument = |line: &&str| {
                let offset = line
                    .split_once("offset:")
                    .and_then(|(_, rest)| rest.split(';').next());
                offset
                    .and_then(|offset| offset.parse().ok())
                    .is_some_and(|offset: u32| offset >= 16)
            };
            let nr = names::syscall_number(Table::Native, name).unwrap();
            let known = table::info(Table::Native, nr.cast_signed())
                .unwrap()
                .arguments;
            let names: Option<Vec<_>> =
                known.map(|known| known.iter().map(|known| known.name.to_owned()).collect());
            // Newer kernels have what is at the addresses behind them: `buf_val`.
            let mut declared: Vec<_> = format
                .lines()
                .filter(is_argument)
                .filter_map(name_of)
                .collect();
            let arguments = declared.clone();
            declared.retain(|name| {
                let of = name.strip_suffix("_val").map(str::to_owned);
                of.is_none_or(|of| !arguments.contains(&of))
            });
            // What 7.3 adds to it, programs do not pass yet.
            if name == "bpf" {
                declared.retain(|name| !name.ends_with("_common"));
            }
            // So they are called before 6.0.
            if name == "getrandom" && declared.first().is_some_and(|first| first == "buf") {
                declared.splice(..2, ["ubuf", "len"].map(str::to_owned));
            }
            assert_eq!(names, Some(declared), "{name}");
            compared += 1;
        }
        assert!(
            compared > 250,
            "only {compared} calls have tracepoints: has the kernel CONFIG_FTRACE_SYSCALLS?"
        );
    }
}
