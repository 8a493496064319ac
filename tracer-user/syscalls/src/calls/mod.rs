//! Structs and lists that system calls are given and fill in, as strace shows them. Texts are
//! elsewhere.
//!
//! Layouts are those of 64-bit programs; structs of 32-bit programs are widened first.

mod bytes;
mod capabilities;
mod control;
mod files;
mod gathered;
mod ioctl;
mod narrow;
mod netlink;
mod network;
mod opening;
mod packet;
mod process;
mod scheduling;
mod signal_info;
mod signals;
mod terminal;
mod time;
mod waiting;

use std::mem::size_of;

use bytes::Bytes;
pub use files::{device, ioctl_command, mode as file_mode};
pub use gathered::{entries, push_new_name_length, strings, variables};
pub use ioctl::command as io_command;
pub use narrow::Narrow;
pub use network::push_datagram;
pub use packet::protocol;
pub use process::push_clone3_result;
pub use signals::push_blocked;
use tracer_common::kernel::gathered as shape;
pub use waiting::{push_found, push_ready};

use crate::arguments::Call;
use crate::descriptors::Named;

/// Data that an argument points to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Struct {
    /// `struct stat`.
    Stat,
    /// `struct statx`.
    Statx,
    /// `struct statfs`.
    Statfs,
    /// `struct flock`, where the command of `fcntl` takes one.
    Flock,
    /// Argument of a command of `ioctl`.
    Ioctl,
    /// A set of signals.
    SignalSet,
    /// `struct sigaction`, as the kernel has it.
    SignalAction,
    /// `stack_t`.
    SignalStack,
    /// `struct timespec`.
    Timespec,
    /// `struct timespec`: how long a thread still had to sleep.
    TimeLeft,
    /// Two of `struct timespec`: times of a file.
    FileTimes,
    /// `struct timeval`.
    Timeval,
    /// `struct itimerspec`.
    TimerSpec,
    /// `struct itimerval`.
    TimerVal,
    /// `struct tms`.
    ProcessTimes,
    /// `struct rlimit`.
    Limit,
    /// `struct rusage`.
    Usage,
    /// `struct sysinfo`.
    SystemInfo,
    /// `struct utsname`.
    SystemName,
    /// The status of a child.
    WaitStatus,
    /// Two descriptors.
    Pair,
    /// Integers.
    Ints,
    /// A set of CPUs.
    CpuSet,
    /// The address of a socket.
    SocketAddress,
    /// The length of the address of a socket.
    Length,
    /// An option of a socket.
    SocketOption,
    /// `struct epoll_event`.
    EpollEvent,
    /// Several `struct epoll_event`.
    EpollEvents,
    /// `struct pollfd`, several.
    PollSet,
    /// `struct clone_args`.
    CloneArguments,
    /// Random bytes.
    Random,
    /// The name of a thread, where the option of `prctl` takes one.
    ThreadName,
    /// Addresses of texts, up to a null.
    Strings,
    /// `struct iovec`, several.
    Parts,
    /// `struct msghdr`.
    Message,
    /// `struct msghdr`, which the call fills in: of what it is given, the first two members.
    ReceivedMessage,
    /// `struct mmsghdr`, several.
    Messages,
    /// Several `struct mmsghdr`, filled in by the call.
    ReceivedMessages,
    /// A set of descriptors, of as many as the first argument says.
    DescriptorSet,
    /// The address and size of a set of signals, and that set.
    SizedSignals,
    /// An integer.
    Int,
    /// An integer of 64 bits.
    Long,
    /// A position in a file.
    Offset,
    /// Entries of a folder: how many there are.
    Entries,
    /// `siginfo_t`.
    SignalInfo,
    /// `struct sigevent`.
    SignalEvent,
    /// Two of `struct timeval`: times of a file.
    FileTimevals,
    /// Version of `capget`, and the process that it is about.
    CapabilityHead,
    /// Sets of capabilities.
    Capabilities,
    /// `struct open_how`.
    OpenHow,
    /// `struct sched_attr`.
    Scheduling,
    /// The name of memory, where the option of `prctl` takes one.
    MemoryName,
    /// `struct sock_fprog`, where `seccomp` takes one.
    Filter,
}

/// Size of the data that is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// This count of bytes.
    Fixed(usize),
    /// Array of elements of this size, as many as the next argument says.
    Array(usize),
    /// Bytes, as many as the command of `ioctl` takes, which is the argument before.
    Command,
    /// Array of elements of this size, as many as the call returns.
    Returned(usize),
    /// Bytes, as many as are said where the next argument points to, at most this many.
    Counted(usize),
    /// Data that several addresses lead to: a shape of
    /// [`gathered`](tracer_common::kernel::gathered).
    Gathered(u32),
}

impl Struct {
    /// Returns the struct that the table calls so.
    #[must_use]
    pub fn of(word: &str) -> Option<Self> {
        Some(match word {
            "stat" => Self::Stat,
            "statx" => Self::Statx,
            "statfs" => Self::Statfs,
            "flock" => Self::Flock,
            "ioctl" => Self::Ioctl,
            "sigset" => Self::SignalSet,
            "sigaction" => Self::SignalAction,
            "sigstack" => Self::SignalStack,
            "timespec" => Self::Timespec,
            "left" => Self::TimeLeft,
            "utimes" => Self::FileTimes,
            "timeval" => Self::Timeval,
            "itimerspec" => Self::TimerSpec,
            "itimerval" => Self::TimerVal,
            "tms" => Self::ProcessTimes,
            "rlimit" => Self::Limit,
            "rusage" => Self::Usage,
            "sysinfo" => Self::SystemInfo,
            "utsname" => Self::SystemName,
            "status" => Self::WaitStatus,
            "pair" => Self::Pair,
            "ints" => Self::Ints,
            "cpus" => Self::CpuSet,
            "sockaddr" => Self::SocketAddress,
            "length" => Self::Length,
            "option" => Self::SocketOption,
            "epoll" => Self::EpollEvent,
            "epolls" => Self::EpollEvents,
            "polls" => Self::PollSet,
            "clone" => Self::CloneArguments,
            "random" => Self::Random,
            "name" => Self::ThreadName,
            "strings" => Self::Strings,
            "parts" => Self::Parts,
            "message" => Self::Message,
            "received" => Self::ReceivedMessage,
            "messages" => Self::Messages,
            "several" => Self::ReceivedMessages,
            "fdset" => Self::DescriptorSet,
            "signals" => Self::SizedSignals,
            "int" => Self::Int,
            "int64" => Self::Long,
            "offset" => Self::Offset,
            "entries" => Self::Entries,
            "siginfo" => Self::SignalInfo,
            "sigevent" => Self::SignalEvent,
            "timevals" => Self::FileTimevals,
            "caphead" => Self::CapabilityHead,
            "capdata" => Self::Capabilities,
            "how" => Self::OpenHow,
            "schedattr" => Self::Scheduling,
            "memoryname" => Self::MemoryName,
            "filter" => Self::Filter,
            _ => return None,
        })
    }

    /// Tells whether it is shown as the call was given it, and as the call has changed it behind
    /// the returned value: as with `poll` and `select`.
    #[must_use]
    pub fn is_shown_as_given(self) -> bool {
        matches!(
            self,
            Self::PollSet | Self::DescriptorSet | Self::Timespec | Self::Timeval
        )
    }

    /// Tells whether there is one, whatever the call is asked for.
    #[must_use]
    pub fn is_in_any_case(self) -> bool {
        !matches!(
            self,
            Self::Ioctl | Self::Flock | Self::ThreadName | Self::MemoryName
        )
    }

    /// Returns the layout in 32-bit programs.
    #[must_use]
    pub fn narrow(self) -> Narrow {
        narrow::of(self)
    }

    /// Returns the count of its bytes that are read; `is_filled`: as the call ends; `is_narrow`: of
    /// a 32-bit program.
    #[must_use]
    pub fn extent(self, is_narrow: bool, is_filled: bool) -> Extent {
        if let (true, Narrow::Layout(layout)) = (is_narrow, self.narrow()) {
            return Extent::Fixed(narrow::size(layout));
        }
        Extent::Fixed(match self {
            Self::Stat => size_of::<libc::stat>(),
            Self::Statx => size_of::<libc::statx>(),
            Self::Statfs => size_of::<libc::statfs>(),
            Self::Flock => size_of::<libc::flock>(),
            Self::Ioctl => return Extent::Command,
            Self::SignalSet => 8,
            Self::SignalAction => 32,
            Self::SignalStack => size_of::<libc::stack_t>(),
            Self::Timespec | Self::TimeLeft | Self::Timeval => 16,
            Self::FileTimes | Self::TimerSpec | Self::TimerVal | Self::ProcessTimes => 32,
            Self::Limit | Self::ThreadName => 16,
            // Of the kernel: some C libraries have more behind it.
            Self::Usage => 144,
            Self::SystemInfo => 112,
            // The first two of its names.
            Self::SystemName => 130,
            Self::WaitStatus | Self::Length | Self::Int => 4,
            Self::Long | Self::Offset | Self::CapabilityHead => 8,
            // Both of them are gathered with others.
            Self::DescriptorSet | Self::SizedSignals => 8,
            Self::Entries => return Extent::Gathered(shape::ENTRIES),
            Self::SignalInfo => 64,
            Self::SignalEvent => 24,
            Self::FileTimevals => 32,
            Self::Capabilities => 24,
            // So many bytes as the call says.
            Self::OpenHow => return Extent::Array(1),
            Self::Scheduling if is_filled => return Extent::Array(1),
            Self::Scheduling => 56,
            Self::MemoryName => 64,
            Self::Filter => 16,
            Self::Pair => 8,
            Self::Ints => return Extent::Returned(4),
            Self::CpuSet | Self::Random => return Extent::Returned(1),
            Self::SocketAddress if is_filled => return Extent::Counted(128),
            Self::SocketAddress => return Extent::Array(1),
            Self::SocketOption if is_filled => return Extent::Counted(256),
            Self::SocketOption => return Extent::Array(1),
            Self::EpollEvent => size_of::<libc::epoll_event>(),
            Self::EpollEvents => return Extent::Returned(size_of::<libc::epoll_event>()),
            Self::PollSet => return Extent::Array(size_of::<libc::pollfd>()),
            Self::CloneArguments => 88,
            Self::Strings => return Extent::Gathered(shape::STRINGS),
            Self::Parts if is_filled => return Extent::Gathered(shape::FILLED_PARTS),
            Self::Parts => return Extent::Gathered(shape::PARTS),
            Self::ReceivedMessage if is_filled => return Extent::Gathered(shape::FILLED_MESSAGE),
            Self::ReceivedMessage => gathered::BEFORE,
            Self::Message => return Extent::Gathered(shape::MESSAGE),
            Self::Messages => return Extent::Gathered(shape::MESSAGES),
            Self::ReceivedMessages => return Extent::Gathered(shape::FILLED_MESSAGES),
        })
    }

    /// Appends it; `None` where that cannot be, since there is too little of it.
    pub fn push(self, out: &mut Vec<u8>, data: Data<'_>) -> Option<()> {
        let wide = match (data.is_narrow, self.narrow()) {
            (true, Narrow::Layout(layout)) => Some(narrow::widen(layout, data.untrusted)?),
            _ => None,
        };
        let bytes = Bytes(wide.as_deref().unwrap_or(data.untrusted));
        let call = data.call;
        match self {
            Self::Stat => files::push_stat(out, bytes),
            Self::Statx => files::push_statx(out, bytes),
            Self::Statfs => files::push_statfs(out, bytes),
            Self::Flock => files::push_flock(out, call, bytes, data.returned.is_some()),
            Self::Ioctl => {
                let is_filled = data.returned.is_some();
                ioctl::command(call.registers[1])?.push(out, bytes, is_filled)
            }
            // The kernel has not looked at it.
            Self::SignalSet if !has_size_of_set(call) => None,
            Self::SignalSet => signals::push_set(out, bytes),
            Self::SignalAction => signals::push_action(out, bytes),
            Self::SignalStack => signals::push_stack(out, bytes),
            // Of one that slept as long as it was to, nothing is said.
            Self::TimeLeft if data.returned == Some(0) => None,
            Self::Timespec | Self::TimeLeft => time::push_timespec(out, bytes),
            Self::FileTimes => time::push_file_times(out, bytes),
            Self::Timeval => time::push_timeval(out, bytes),
            Self::TimerSpec => time::push_timer_spec(out, bytes),
            Self::TimerVal => time::push_timer_val(out, bytes),
            Self::ProcessTimes => time::push_process_times(out, bytes),
            Self::Limit => process::push_limit(out, call, bytes),
            // What is there where no child has changed is nobody's.
            Self::Usage if data.returned == Some(0) && call.name() == Some("wait4") => None,
            Self::Usage => process::push_usage(out, bytes),
            Self::SystemInfo => process::push_system_info(out, bytes),
            Self::SystemName => process::push_system_name(out, bytes),
            // What is there where no child has changed is nobody's.
            Self::WaitStatus if data.returned == Some(0) => None,
            Self::WaitStatus => process::push_status(out, bytes),
            Self::Pair => push_pair(out, bytes, data.named),
            Self::Ints => push_ints(out, bytes, data.has_more),
            Self::CpuSet => process::push_cpus(out, bytes),
            Self::SocketAddress => network::push_address(out, bytes),
            Self::Length => network::push_length(out, bytes),
            Self::SocketOption => network::push_option(out, call, bytes, data.has_more),
            // What is taken out is not looked at.
            Self::EpollEvent if call.registers[1] == 2 => None,
            Self::EpollEvent => waiting::push_epoll(out, bytes),
            Self::EpollEvents => waiting::push_epolls(out, bytes, data.has_more),
            Self::PollSet => waiting::push_polls(out, bytes, data.has_more, data.named),
            Self::CloneArguments => process::push_clone3(out, bytes),
            Self::Random => files::push_hex_bytes(out, bytes, data.has_more),
            Self::ThreadName => process::push_thread_name(out, call, bytes, data.returned),
            Self::Strings => gathered::push_strings(out, bytes, data.has_more),
            Self::Parts => gathered::push_parts(out, bytes, data.has_more),
            Self::Message => gathered::push_message(out, bytes, data),
            Self::ReceivedMessage if bytes.slice().len() == gathered::BEFORE => {
                gathered::push_name_length(out, call, bytes)
            }
            Self::ReceivedMessage => gathered::push_message(out, bytes, data),
            Self::Messages | Self::ReceivedMessages => gathered::push_messages(out, bytes, data),
            Self::DescriptorSet => waiting::push_descriptors(out, call, bytes, data.named),
            Self::SizedSignals => waiting::push_sized_signals(out, bytes),
            Self::Int => push_ints(out, bytes, false),
            Self::Long | Self::Offset => {
                out.extend_from_slice(format!("[{}]", bytes.i64(0)?).as_bytes());
                Some(())
            }
            // How many there are is said behind the address.
            Self::Entries => None,
            Self::SignalInfo => signal_info::push_info(out, bytes),
            Self::SignalEvent => signal_info::push_event(out, bytes),
            Self::FileTimevals => time::push_file_timevals(out, bytes),
            Self::CapabilityHead => capabilities::push_head(out, bytes),
            Self::Capabilities => capabilities::push_sets(out, bytes),
            Self::OpenHow => opening::push_how(out, bytes),
            Self::Scheduling => scheduling::push_attributes(out, bytes),
            Self::MemoryName => process::push_memory_name(out, call, bytes),
            Self::Filter => process::push_filter(out, call, bytes),
        }
    }
}

/// Tells whether the size that a call states for a set of signals is that of the kernel's, where it
/// states one.
fn has_size_of_set(call: &Call) -> bool {
    const SIZE: i64 = 8;
    let mut sizes = call.arguments().filter(|(name, _)| {
        // So it is called by each call that has one.
        matches!(*name, "sigsetsize" | "sizemask")
    });
    sizes.all(|(_, size)| size.value() == SIZE)
}

/// Data that was read, and its call.
#[derive(Clone, Copy, Debug)]
pub struct Data<'a> {
    /// Bytes that were read: any bytes.
    pub untrusted: &'a [u8],
    /// Whether there is more of it.
    pub has_more: bool,
    /// Whether it is that of a 32-bit program.
    pub is_narrow: bool,
    /// The call.
    pub call: &'a Call,
    /// Value that it returned, where this was read as it ended.
    pub returned: Option<i64>,
    /// Descriptions of the descriptors in it.
    pub named: Named<'a>,
}

fn push_pair(out: &mut Vec<u8>, bytes: Bytes<'_>, named: Named<'_>) -> Option<()> {
    let one = |nth: usize| {
        let descriptor = bytes.i32(4 * nth)?;
        let what = named.shown_listed(nth, descriptor);
        Some(format!("{descriptor}{what}"))
    };
    push_list(out, [one(0)?, one(1)?].into_iter(), false);
    Some(())
}

fn push_ints(out: &mut Vec<u8>, bytes: Bytes<'_>, has_more: bool) -> Option<()> {
    let (ints, rest) = bytes.0.as_chunks::<4>();
    if !rest.is_empty() && !has_more {
        return None;
    }
    push_list(
        out,
        ints.iter().map(|int| i32::from_ne_bytes(*int).to_string()),
        has_more,
    );
    Some(())
}

/// Appends members in brackets: those that strace shows at most, and dots for more.
fn push_list(out: &mut Vec<u8>, members: impl Iterator<Item = String>, has_more: bool) {
    const MOST: usize = 32;
    out.push(b'[');
    let mut members = members.peekable();
    let mut count = 0;
    while let Some(member) = members.next_if(|_| count < MOST) {
        if count > 0 {
            out.extend_from_slice(b", ");
        }
        out.extend_from_slice(member.as_bytes());
        count += 1;
    }
    if has_more || members.peek().is_some() {
        out.extend_from_slice(b", ...");
    }
    out.push(b']');
}

/// Returns the names of bits, with `|` between them; `zero` for none. Those without a name are one
/// more, in hexadecimal.
#[must_use]
pub fn flags(bits: u64, names: &[(&str, u64)], zero: &str) -> String {
    let mut rest = bits;
    let mut words = Vec::new();
    for (name, flag) in names {
        if *flag != 0 && rest & flag == *flag {
            rest &= !flag;
            words.push((*name).to_owned());
        }
    }
    if rest != 0 {
        words.push(format!("{rest:#x}"));
    }
    if words.is_empty() {
        zero.to_owned()
    } else {
        words.join("|")
    }
}

/// Renders an address: `NULL` for none.
fn pointer(address: u64) -> String {
    if address == 0 {
        "NULL".to_owned()
    } else {
        format!("{address:#x}")
    }
}

#[cfg(test)]
mod tests;
