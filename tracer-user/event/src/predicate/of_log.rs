//! The choices by which a log was recorded: they stand in the name of the log's stream.

use super::{Expression, Predicate};

/// Name of the streams of `tracer-user`.
pub const STREAM_NAME: &str = "tracer-user";

/// Words before the expression.
const FILTER: &str = " --filter ";

/// Words before the choice of system calls, which is one word.
const CALLS: &str = " --syscalls ";

/// Most bytes of that choice, where there is an expression too, and not all has room.
const MOST_CALLS_BYTES: usize = 4;

/// Most bytes of a stream's name.
const MOST_BYTES: usize = tracer_engine::sizes::TRACE_NAME_MAX - 1;

/// Starts the number that tells expressions apart that are cut.
const CUT: &str = "… #";

/// Expression that each event of a log has passed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogFilter {
    /// The expression, cut where it is long.
    pub text: String,
    /// Events of a thread that may be missing in the log.
    pub reach: FilterReach,
}

/// Events of a thread that may be missing in a log for the expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilterReach {
    /// None: it chooses processes.
    Processes,
    /// Those from a change of the thread's name on: it chooses threads by their names.
    Names,
    /// Any, but a system call has both of its ends or none.
    Events,
    /// Any.
    Ends,
}

/// Choices by which a log was recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogChoices {
    /// Expression that each event has passed.
    pub filter: Option<LogFilter>,
    /// System calls that were chosen (`--syscalls`), cut where that is long; `None` where none were
    /// left out by that.
    pub calls: Option<String>,
}

impl LogChoices {
    /// Returns the name of the stream of a log that is recorded by `predicate`, with the system
    /// calls that `calls` chooses, as it was typed.
    #[must_use]
    pub fn stream_name(predicate: &Predicate, calls: Option<&str>) -> String {
        let calls: Option<String> = calls.map(|typed| typed.split_whitespace().collect());
        let typed = predicate.expression.as_ref().map(|given| given.text());
        let filter = typed.map(|text| {
            let words: Vec<&str> = text.split_whitespace().collect();
            words.join(" ")
        });
        let is_one_line = filter.as_deref() == typed.map(str::trim);
        let whole = name_of(calls.as_deref(), filter.as_deref());
        if whole.len() <= MOST_BYTES && is_one_line && !whole.contains(CUT) {
            return whole;
        }
        let all = format!("{}{}", calls.as_deref().unwrap_or(""), typed.unwrap_or(""));
        let mark = format!("{CUT}{:08x}", number_of(&all));
        let calls = calls.map(|mut calls| {
            if filter.is_some() && calls.len() > MOST_CALLS_BYTES {
                shorten(&mut calls, MOST_CALLS_BYTES);
                calls.push('…');
            }
            calls
        });
        let mut cut = name_of(calls.as_deref(), filter.as_deref());
        shorten(&mut cut, MOST_BYTES - mark.len());
        cut + &mark
    }

    /// Returns the choices of the log whose stream has this name.
    #[must_use]
    pub fn of_stream(name: &[u8]) -> Self {
        let name = String::from_utf8_lossy(name);
        let Some(rest) = name.strip_prefix(STREAM_NAME) else {
            return Self::default();
        };
        let (rest, is_cut) = match rest.split_once(CUT) {
            Some((rest, _)) => (rest, true),
            None => (rest, false),
        };
        let end = if is_cut { "…" } else { "" };
        let (calls, rest) = match rest.strip_prefix(CALLS) {
            Some(rest) => rest.split_at(rest.find(' ').unwrap_or(rest.len())),
            None => ("", rest),
        };
        let filter = rest.strip_prefix(FILTER).map(|text| {
            let expression = Expression::parse(text).ok().filter(|_| !is_cut);
            LogFilter {
                text: format!("{text}{end}"),
                reach: expression.map_or(FilterReach::Ends, |known| known.reach()),
            }
        });
        let end = if filter.is_some() { "" } else { end };
        let calls = (!calls.is_empty()).then(|| format!("{calls}{end}"));
        Self { filter, calls }
    }
}

fn name_of(calls: Option<&str>, filter: Option<&str>) -> String {
    let mut name = STREAM_NAME.to_owned();
    for (option, words) in [(CALLS, calls), (FILTER, filter)] {
        if let Some(words) = words {
            name.push_str(option);
            name.push_str(words);
        }
    }
    name
}

/// Removes characters at the end until so many bytes are left at most.
fn shorten(text: &mut String, bytes: usize) {
    while text.len() > bytes {
        text.pop();
    }
}

/// Returns a number by which two texts are told apart (FNV-1a).
fn number_of(text: &str) -> u32 {
    let step = |hash: u32, byte: u8| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    text.bytes().fold(0x811c_9dc5, step)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn name_by(text: &str) -> String {
        LogChoices::stream_name(&by(text), None)
    }

    fn by(text: &str) -> Predicate {
        Predicate {
            expression: Some(Arc::new(Expression::parse(text).unwrap())),
            ..Predicate::default()
        }
    }

    fn filter_of(name: &str) -> Option<LogFilter> {
        LogChoices::of_stream(name.as_bytes()).filter
    }

    fn reach_of(text: &str) -> FilterReach {
        filter_of(&name_by(text)).unwrap().reach
    }

    #[test]
    fn a_log_says_what_it_was_recorded_by() {
        let name = name_by("comm == \"cat\"");
        assert_eq!(name, "tracer-user --filter comm == \"cat\"");
        let filter = filter_of(&name).unwrap();
        assert_eq!(filter.text, "comm == \"cat\"");
        assert_eq!(
            LogChoices::stream_name(&Predicate::default(), None),
            "tracer-user"
        );
        for other in ["tracer-user", "tracer-user --filters x", "", "mine"] {
            let choices = LogChoices::of_stream(other.as_bytes());
            assert_eq!(choices, LogChoices::default(), "{other}");
        }
    }

    #[test]
    fn a_log_says_which_calls_were_chosen() {
        let of = |calls, filter: &str| {
            let predicate = if filter.is_empty() {
                Predicate::default()
            } else {
                by(filter)
            };
            let name = LogChoices::stream_name(&predicate, Some(calls));
            assert!(name.len() <= MOST_BYTES, "{name}");
            let choices = LogChoices::of_stream(name.as_bytes());
            let text = choices.filter.map(|filter| filter.text);
            (choices.calls.unwrap(), text.unwrap_or_default())
        };
        let both = |calls: &str, filter: &str| (calls.to_owned(), filter.to_owned());
        assert_eq!(of("%file, !openat", ""), both("%file,!openat", ""));
        assert_eq!(of("read", "pid == 7"), both("read", "pid == 7"));
        let long = "openat,close,read,write,pread64,pwrite64,readv,writev,mmap";
        let (calls, _) = of(long, "");
        assert!(calls.starts_with("openat,close,") && calls.ends_with('…'));
        let (calls, filter) = of(long, "pid == 7");
        assert!(calls.starts_with("open") && calls.ends_with('…'), "{calls}");
        assert!(filter.starts_with("pid == 7"), "{filter}");
        let name = |calls| LogChoices::stream_name(&by("pid == 7"), Some(calls));
        assert_ne!(name(long), name(&long.replace("mmap", "brk")));
    }

    #[test]
    fn a_long_expression_is_cut_and_told_from_others() {
        let long = |pid: u32| {
            let one = format!("comm == \"ångström\" || comm == \"cat\" || pid == {pid}");
            name_by(&one)
        };
        assert!(long(1).len() <= MOST_BYTES && long(1) != long(2));
        let filter = filter_of(&long(1)).unwrap();
        assert!(filter.text.ends_with('…'), "{filter:?}");
        assert_eq!(filter.reach, FilterReach::Ends, "the rest is not known");
    }

    #[test]
    fn what_may_be_missing_is_known_by_the_names_that_it_uses() {
        assert_eq!(reach_of("pid == 7 || pid == 8"), FilterReach::Processes);
        assert_eq!(reach_of("comm == \"cat\" && pid > 1"), FilterReach::Names);
        // A thread that runs another program goes on under another tid.
        assert_eq!(reach_of("tid == 7"), FilterReach::Events);
        assert_eq!(reach_of("filename == \"/x\""), FilterReach::Events);
        assert_eq!(reach_of("cpu == 0"), FilterReach::Ends);
        assert_eq!(
            reach_of("type == \"linux_trace_wakeup\""),
            FilterReach::Ends
        );
    }
}
