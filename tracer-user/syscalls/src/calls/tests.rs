use super::*;
use crate::arguments::Call;
use crate::descriptors::Named;
use crate::names::{Table, syscall_number};
use crate::table::{structure, structures};

#[test]
fn commands_of_ioctl_take_bytes_of_any_length() {
    let bytes = [0x9b; 64];
    for command in (0x5400..0x5460)
        .chain(0x8900..0x8950)
        .chain([0xc020_660b, 0x8008_6601])
    {
        let Some(known) = ioctl::command(command) else {
            continue;
        };
        for length in 0..bytes.len() {
            for is_filled in [false, true] {
                let mut out = Vec::new();
                known.push(&mut out, Bytes(&bytes[..length]), is_filled);
            }
        }
    }
}

fn call(name: &str, registers: [u64; 6]) -> Call {
    let table = Table::Native;
    let nr = syscall_number(table, name).unwrap().cast_signed();
    Call {
        table,
        nr,
        registers,
    }
}

#[test]
fn what_lies_where_a_name_is_to_be_written_is_none() {
    let name = |option: i32, returned: Option<i64>| {
        let call = call("prctl", [u64::from(option.cast_unsigned()), 16, 0, 0, 0, 0]);
        let data = Data {
            bytes: Bytes(b"before\0\0\0\0\0\0\0\0\0\0"),
            has_more: false,
            is_narrow: false,
            call: &call,
            returned,
            named: Named::default(),
        };
        let mut out = Vec::new();
        structure("thread_name").unwrap().push(&mut out, data)
    };
    assert_eq!(name(libc::PR_GET_NAME, None), None);
    assert_eq!(name(libc::PR_GET_NAME, Some(0)), Some(()));
    assert_eq!(name(libc::PR_SET_NAME, None), Some(()));
}

fn shown(kind: &str, untrusted: &[u8]) -> Option<String> {
    shown_as(kind, untrusted, false)
}

fn shown_as(kind: &str, untrusted: &[u8], is_narrow: bool) -> Option<String> {
    let call = call("fcntl", [3, 6, 0, 0, 0, 0]);
    let data = Data {
        bytes: Bytes(untrusted),
        has_more: false,
        is_narrow,
        call: &call,
        returned: None,
        named: Named::default(),
    };
    let mut out = Vec::new();
    structure(kind).unwrap().push(&mut out, data)?;
    Some(String::from_utf8(out).unwrap())
}

#[test]
fn bytes_of_any_length_and_value_are_shown_without_a_panic() {
    for kind in structures().iter().map(|kind| kind.name) {
        for length in 0..300 {
            for byte in [0, 1, 2, 10, 16, 0x7f, 0xff] {
                shown(kind, &vec![byte; length]);
                shown_as(kind, &vec![byte; length], true);
            }
        }
    }
}

#[test]
fn what_is_too_short_is_not_shown() {
    for word in [
        "stat",
        "statx",
        "sigaction",
        "timespec",
        "rlimit",
        "wait_status",
        "clone_args",
    ] {
        assert_eq!(shown(word, &[0; 3]), None, "{word}");
    }
}

#[test]
fn sets_of_signals_are_shown_by_the_fewer() {
    let set = |set: u64| shown("sigset", &set.to_ne_bytes()).unwrap();
    assert_eq!(set(0), "[]");
    assert_eq!(set(1 << 1 | 1 << 16), "[INT CHLD]");
    assert_eq!(set(!(1 << 31 | 1 << 32)), "~[RTMIN RT_1]");
    assert_eq!(set(u64::MAX), "~[]");
}

#[test]
fn addresses_of_sockets_are_shown_by_family() {
    let mut address = vec![2, 0, 0x1f, 0x90, 127, 0, 0, 1];
    address.extend_from_slice(&[0; 8]);
    assert_eq!(
        shown("sockaddr", &address).unwrap(),
        "{sa_family=AF_INET, sin_port=htons(8080), sin_addr=inet_addr(\"127.0.0.1\")}"
    );
    assert_eq!(
        shown("sockaddr", b"\x01\0/run/x\0rest").unwrap(),
        "{sa_family=AF_UNIX, sun_path=\"/run/x\"}"
    );
    assert_eq!(
        shown("sockaddr", b"\x01\0\0a\0b").unwrap(),
        "{sa_family=AF_UNIX, sun_path=@\"a\\0b\"}"
    );
    assert_eq!(shown("sockaddr", b"\x01\0").unwrap(), "{sa_family=AF_UNIX}");
}

#[test]
fn control_messages_are_a_list() {
    let message = |length: u64, data: &[u8]| {
        let head = [length.to_ne_bytes(), [1, 0, 0, 0, 1, 0, 0, 0]];
        [&head.concat()[..], data].concat()
    };
    let shown = |untrusted: &[u8], has_more| {
        let mut out = Vec::new();
        let messages = control::Messages {
            untrusted,
            has_more,
            is_narrow: false,
            named: Named::default(),
        };
        messages.push(&mut out)?;
        Some(String::from_utf8(out).unwrap())
    };
    let two = [message(20, &[3, 0, 0, 0, 0, 0, 0, 0]), message(16, &[])].concat();
    let one = "{cmsg_len=20, cmsg_level=SOL_SOCKET, cmsg_type=SCM_RIGHTS, cmsg_data=[3]}";
    let other = "{cmsg_len=16, cmsg_level=SOL_SOCKET, cmsg_type=SCM_RIGHTS}";
    assert_eq!(shown(&two, false), Some(format!("[{one}, {other}]")));
    assert_eq!(shown(&two[..24], true), Some(format!("[{one}, ...]")));
    // Lengths that no message has.
    for length in [0, 1, 15, u64::MAX, u64::MAX - 7] {
        assert!(shown(&message(length, &[0; 40]), false).is_some());
    }
    assert_eq!(shown(&[0; 15], false), None);
}

#[test]
fn the_end_of_a_child_is_shown_by_the_macros_of_c() {
    let status = |status: i32| shown("wait_status", &status.to_ne_bytes()).unwrap();
    assert_eq!(status(3 << 8), "[{WIFEXITED(s) && WEXITSTATUS(s) == 3}]");
    assert_eq!(status(9), "[{WIFSIGNALED(s) && WTERMSIG(s) == SIGKILL}]");
    assert_eq!(
        status(0x8b),
        "[{WIFSIGNALED(s) && WTERMSIG(s) == SIGSEGV && WCOREDUMP(s)}]"
    );
}
