//! Data of a signal beside its name, and the action of a timer as it expires.

use super::pointed::Data;
use super::render::pointer;
use tracer_text::signal_name;

fn signal(signal: i32) -> String {
    let signal = signal.cast_unsigned();
    match signal_name(signal) {
        Some(name) => name.to_owned(),
        None if signal == 32 => "SIGRTMIN".to_owned(),
        None if (33..=64).contains(&signal) => format!("SIGRT_{}", signal - 32),
        None => signal.to_string(),
    }
}

/// Codes of the senders of a signal.
const SENDERS: &[(&str, i32)] = &[
    ("SI_USER", 0),
    ("SI_KERNEL", 0x80),
    ("SI_QUEUE", -1),
    ("SI_TIMER", -2),
    ("SI_MESGQ", -3),
    ("SI_ASYNCIO", -4),
    ("SI_SIGIO", -5),
    ("SI_TKILL", -6),
];

/// Codes of the changes of a child.
const OF_CHILDREN: &[(&str, i32)] = &[
    ("CLD_EXITED", 1),
    ("CLD_KILLED", 2),
    ("CLD_DUMPED", 3),
    ("CLD_TRAPPED", 4),
    ("CLD_STOPPED", 5),
    ("CLD_CONTINUED", 6),
];

pub fn push_siginfo(out: &mut Vec<u8>, Data { bytes, .. }: Data<'_>) -> Option<()> {
    let (signo, code) = (bytes.i32(0)?, bytes.i32(8)?);
    if signo == 0 {
        out.extend_from_slice(b"{}");
        return Some(());
    }
    let is_child = signo == libc::SIGCHLD;
    let known = SENDERS
        .iter()
        .chain(if is_child { OF_CHILDREN } else { &[] });
    let name = known.clone().find(|(_, known)| *known == code);
    let mut parts = vec![
        format!("si_signo={}", signal(signo)),
        match name {
            Some((name, _)) => format!("si_code={name}"),
            None => format!("si_code={:#x}", code.cast_unsigned()),
        },
    ];
    let (pid, uid) = (bytes.i32(16)?, bytes.u32(20)?);
    let value = bytes.u64(24)?;
    if is_child && code > 0 {
        parts.push(format!("si_pid={pid}, si_uid={uid}"));
        let status = bytes.i32(24)?;
        parts.push(if code == 1 {
            format!("si_status={status}")
        } else {
            format!("si_status={}", signal(status))
        });
        parts.push(format!("si_utime={}", bytes.i64(32)?));
        parts.push(format!("si_stime={}", bytes.i64(40)?));
    } else if code <= 0 {
        parts.push(format!("si_pid={pid}, si_uid={uid}"));
        if code != 0 && code != -6 && value != 0 {
            let int = bytes.i32(24)?;
            parts.push(format!("si_int={int}, si_ptr={}", pointer(value)));
        }
    }
    out.extend_from_slice(format!("{{{}}}", parts.join(", ")).as_bytes());
    Some(())
}

pub fn push_sigevent(out: &mut Vec<u8>, Data { bytes, .. }: Data<'_>) -> Option<()> {
    let (value, signo, notify) = (bytes.u64(0)?, bytes.i32(8)?, bytes.i32(12)?);
    let mut parts = Vec::new();
    if value != 0 {
        let int = bytes.i32(0)?;
        let pointer = pointer(value);
        parts.push(format!(
            "sigev_value={{sival_int={int}, sival_ptr={pointer}}}"
        ));
    }
    parts.push(format!("sigev_signo={}", signal(signo)));
    let (name, has_thread) = match notify {
        0 => ("SIGEV_SIGNAL", false),
        1 => ("SIGEV_NONE", false),
        2 => ("SIGEV_THREAD", false),
        4 => ("SIGEV_THREAD_ID", true),
        _ => return None,
    };
    parts.push(format!("sigev_notify={name}"));
    if has_thread {
        parts.push(format!("sigev_notify_thread_id={}", bytes.i32(16)?));
    }
    out.extend_from_slice(format!("{{{}}}", parts.join(", ")).as_bytes());
    Some(())
}
