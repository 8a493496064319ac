//! Comparisons of a variable with a literal: what can never be equal is refused before anything is
//! traced, and signals and times are taken as people write them.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use cel::common::ast::LiteralValue;
use cel::common::types::{CelInt, CelString};
use tracer_common::event_type::{FieldKind, SYSTEM_EVENT_TYPES};

use super::variables::{ARGUMENTS, FILLED, OF_USER_EVENTS};
use tracer_syscalls::arguments::{Call, MOST, Shown};
use tracer_syscalls::names::{Table, all_names, syscall_number};
use tracer_text::{signal_name, signal_number};

/// Kinds of values that a variable may have, as bits.
type Kinds = u8;

const NUMBER: Kinds = 1;
const TEXT: Kinds = 2;
const TRUTH: Kinds = 4;
const LIST: Kinds = 8;
/// A number that is a signal's.
const SIGNAL: Kinds = 16;
/// A text that is a signal's name.
const SIGNAL_NAME: Kinds = 32;

const ANY: Kinds = NUMBER | TEXT | TRUTH | LIST;

/// Reason why a comparison is always false, and what to write.
#[derive(Debug)]
pub struct Mismatch {
    /// Fault.
    pub what: String,
    /// Advice on what to do.
    pub remedy: String,
}

/// Sees whether a value of this variable can be like the literal, which is made to what the
/// variable has: the number of a signal or its name, nanoseconds of a time.
pub fn settle(name: &str, literal: &mut LiteralValue) -> Result<(), Mismatch> {
    if matches!(name, "duration" | "time") {
        return settle_time(name, literal);
    }
    let kinds = kinds(name);
    let number = match literal {
        LiteralValue::String(typed) => signal_number(typed.inner()),
        LiteralValue::Int(number) => u32::try_from(*number.inner()).ok(),
        _ => None,
    };
    if let Some(number) = number.filter(|number| signal_name(*number).is_some()) {
        if kinds & SIGNAL != 0 {
            *literal = LiteralValue::Int(CelInt::from(i64::from(number)));
            return Ok(());
        } else if kinds & SIGNAL_NAME != 0 {
            let named = signal_name(number).unwrap_or_default();
            *literal = LiteralValue::String(CelString::from(named));
            return Ok(());
        }
    }
    fits(name, kinds, literal)
}

/// Sees whether an element of the list that this variable is can be like the literal: all lists are
/// of texts.
pub fn settle_element(name: &str, literal: &LiteralValue) -> Result<(), Mismatch> {
    settle_list(name)?;
    if matches!(literal, LiteralValue::String(_)) {
        return Ok(());
    }
    Err(Mismatch {
        what: format!(
            "{name} is a list of texts, of which none is {}",
            said(literal)
        ),
        remedy: format!(
            "write it as in {name}[0] == \"x\"; arguments of system calls go by their names, as in \
             arguments.fd == 3"
        ),
    })
}

/// Sees whether the variable may be a list.
pub fn settle_list(name: &str) -> Result<(), Mismatch> {
    let kinds = kinds(name);
    if kinds & LIST != 0 {
        return Ok(());
    }
    Err(Mismatch {
        what: format!("{name} is {}, and no list", words(kinds)),
        remedy: format!("write it as in {}", example(name, kinds)),
    })
}

/// Reads a time in nanoseconds.
pub fn nanoseconds(typed: &str) -> Option<i64> {
    let digits = typed.trim_end_matches(|character: char| character.is_ascii_alphabetic());
    let unit = match typed.get(digits.len()..)? {
        "ns" => 1.0,
        "us" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        "m" | "min" => 60e9,
        "h" => 3600e9,
        _ => return None,
    };
    let count: f64 = digits.parse().ok()?;
    let ns = (count * unit).round();
    #[expect(clippy::cast_possible_truncation, reason = "it is in the bounds")]
    let whole = (0.0..=9e18).contains(&ns).then_some(ns as i64);
    whole
}

fn settle_time(name: &str, literal: &mut LiteralValue) -> Result<(), Mismatch> {
    let ns = match literal {
        LiteralValue::String(typed) => nanoseconds(typed.inner()),
        // Nothing is nothing in each unit.
        LiteralValue::Int(number) if *number.inner() == 0 => Some(0),
        _ => None,
    };
    let Some(ns) = ns else {
        return Err(Mismatch {
            what: format!(
                "{name} is a time in nanoseconds, and {} has no unit of time",
                said(literal)
            ),
            remedy: format!(
                "write it as in {name} > duration(\"10ms\"), with ns, us, ms, s, m or h"
            ),
        });
    };
    *literal = LiteralValue::Int(CelInt::from(ns));
    Ok(())
}

fn fits(name: &str, kinds: Kinds, literal: &LiteralValue) -> Result<(), Mismatch> {
    let has = match literal {
        LiteralValue::Int(_) | LiteralValue::UInt(_) | LiteralValue::Double(_) => NUMBER,
        LiteralValue::String(_) => TEXT,
        LiteralValue::Boolean(_) => TRUTH,
        LiteralValue::Bytes(_) | LiteralValue::Null => return Ok(()),
    };
    if kinds & has != 0 {
        return Ok(());
    }
    Err(Mismatch {
        what: format!("{name} is {}, and never {}", words(kinds), said(literal)),
        remedy: format!("write it as in {}", example(name, kinds)),
    })
}

fn words(kinds: Kinds) -> &'static str {
    match kinds {
        _ if kinds & SIGNAL != 0 => "the number of a signal",
        _ if kinds & SIGNAL_NAME != 0 => "the name of a signal",
        _ if kinds & NUMBER != 0 => "a number",
        _ if kinds & TEXT != 0 => "a text",
        _ if kinds & TRUTH != 0 => "true or false",
        _ if kinds & LIST != 0 => "a list of texts",
        _ => "no value by itself",
    }
}

fn example(name: &str, kinds: Kinds) -> String {
    match kinds {
        _ if kinds & (SIGNAL | SIGNAL_NAME) != 0 => format!("{name} == \"SIGTERM\""),
        _ if kinds & NUMBER != 0 => format!("{name} == 1"),
        _ if kinds & TEXT != 0 => format!("{name} == \"x\", or {name}.contains(\"x\")"),
        _ if kinds & TRUTH != 0 => format!("{name}, or !{name}"),
        _ if kinds & LIST != 0 => format!("\"x\" in {name}, or {name}[0] == \"x\""),
        _ => "arguments.fd == 3, with the name of an argument".to_owned(),
    }
}

fn said(literal: &LiteralValue) -> String {
    match literal {
        LiteralValue::Int(number) => number.inner().to_string(),
        LiteralValue::UInt(number) => number.inner().to_string(),
        LiteralValue::Double(number) => number.inner().to_string(),
        LiteralValue::String(text) => format!("{:?}", text.inner()),
        LiteralValue::Boolean(truth) => truth.inner().to_string(),
        LiteralValue::Bytes(_) | LiteralValue::Null => "that".to_owned(),
    }
}

/// Returns the kinds of values that a variable may have.
fn kinds(name: &str) -> Kinds {
    if let Some(argument) = name.strip_prefix(ARGUMENTS) {
        return arguments().get(argument).copied().unwrap_or(ANY);
    }
    match name {
        "type" | "class" | "comm" | "syscall" | "result" | "error" | "text" | "hex" => TEXT,
        "pid" | "tid" | "cpu" | "ns" | "thread_id" | "prog_address" | "ns_pid" | "ns_tid" => NUMBER,
        "truncated" => TRUTH,
        _ if name.starts_with(FILLED) || OF_USER_EVENTS.contains(&name) => ANY,
        _ => {
            let fields = SYSTEM_EVENT_TYPES.iter().flat_map(|entry| entry.fields);
            let mut fields = fields.filter(|field| field.name == name).peekable();
            let argument = arguments().get(name).copied();
            if fields.peek().is_none() {
                return argument.unwrap_or(ANY);
            }
            let of_fields = fields.fold(0, |kinds, field| kinds | of_field(field.kind));
            of_fields | argument.unwrap_or(0)
        }
    }
}

fn of_field(kind: FieldKind) -> Kinds {
    match kind {
        FieldKind::I32
        | FieldKind::U32
        | FieldKind::U64
        | FieldKind::Pid
        | FieldKind::Address
        | FieldKind::SyscallResult
        | FieldKind::LockOwner => NUMBER,
        FieldKind::Signal => NUMBER | SIGNAL,
        FieldKind::Comm
        | FieldKind::Text
        | FieldKind::TaskState
        | FieldKind::WaitsIn
        | FieldKind::ShownResult
        | FieldKind::Syscall
        | FieldKind::HeldSyscall => TEXT,
        FieldKind::Flag | FieldKind::ShortFlag | FieldKind::IoWait => TRUTH,
        FieldKind::Strings => LIST,
        // A code without a name is a number.
        FieldKind::ThreadState
        | FieldKind::SignalResult
        | FieldKind::Softirq
        | FieldKind::BlockOperation
        | FieldKind::WakerContext
        | FieldKind::Others
        | FieldKind::LockType => NUMBER | TEXT,
        FieldKind::Arguments
        | FieldKind::NamedArguments
        | FieldKind::HeldArguments
        | FieldKind::NamedHeldArguments
        | FieldKind::FilledArguments
        | FieldKind::EventSet => 0,
    }
}

/// Returns the kinds of values that arguments of system calls have, by their names: as some values
/// of their registers are shown.
fn arguments() -> &'static BTreeMap<&'static str, Kinds> {
    static ARGUMENTS: LazyLock<BTreeMap<&'static str, Kinds>> = LazyLock::new(|| {
        let registers = [
            0,
            i64::from(libc::SIGKILL).cast_unsigned(),
            i64::from(libc::AT_FDCWD).cast_unsigned(),
        ];
        let calls = all_names().filter_map(|name| syscall_number(Table::Native, name));
        let mut kinds = BTreeMap::new();
        for (nr, register) in calls.flat_map(|nr| registers.map(|register| (nr, register))) {
            let call = Call {
                table: Table::Native,
                nr: nr.cast_signed(),
                registers: [register; MOST],
            };
            for (name, shown) in call.arguments() {
                *kinds.entry(name).or_insert(0) |= of_shown(shown);
            }
        }
        kinds
    });
    &ARGUMENTS
}

fn of_shown(shown: Shown) -> Kinds {
    match shown {
        Shown::Signed(_) | Shown::Unsigned(_) => NUMBER,
        Shown::Named("SIGKILL", _) => TEXT | SIGNAL_NAME,
        Shown::Named(..) => TEXT,
        // What is behind a pointer may be a list.
        Shown::Hex(_) => TEXT | LIST,
        Shown::Octal(_) | Shown::RealTimeSignal(_) | Shown::Bits(..) => TEXT,
    }
}
