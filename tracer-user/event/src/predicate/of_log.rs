//! The expression by which a log was recorded: it stands in the name of the log's stream.

use super::{Expression, Predicate};

/// Name of the streams of `tracer-user`.
pub const STREAM_NAME: &str = "tracer-user";

/// Words between that name and the expression.
const OPTION: &str = " --filter ";

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

impl LogFilter {
    /// Returns the name of the stream of a log that is recorded by `predicate`.
    #[must_use]
    pub fn stream_name(predicate: &Predicate) -> String {
        let Some(expression) = &predicate.expression else {
            return STREAM_NAME.to_owned();
        };
        let text: Vec<&str> = expression.text().split_whitespace().collect();
        let whole = format!("{STREAM_NAME}{OPTION}{}", expression.text().trim());
        let is_one_line = text.join(" ") == expression.text().trim();
        if whole.len() <= MOST_BYTES && is_one_line && !whole.contains(CUT) {
            return whole;
        }
        let mark = format!("{CUT}{:08x}", number_of(expression.text()));
        let most = MOST_BYTES - mark.len();
        let mut cut = format!("{STREAM_NAME}{OPTION}{}", text.join(" "));
        while cut.len() > most {
            cut.pop();
        }
        cut + &mark
    }

    /// Returns the expression of the log whose stream has this name, if there is one.
    #[must_use]
    pub fn of_stream(name: &[u8]) -> Option<Self> {
        let name = String::from_utf8_lossy(name);
        let text = name.strip_prefix(STREAM_NAME)?.strip_prefix(OPTION)?;
        let (text, is_cut) = match text.split_once(CUT) {
            Some((text, _)) => (format!("{text}…"), true),
            None => (text.to_owned(), false),
        };
        let expression = Expression::parse(&text).ok().filter(|_| !is_cut);
        let reach = expression.map_or(FilterReach::Ends, |known| known.reach());
        Some(Self { text, reach })
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

    fn name_of(text: &str) -> String {
        LogFilter::stream_name(&Predicate {
            expression: Some(Arc::new(Expression::parse(text).unwrap())),
            ..Predicate::default()
        })
    }

    fn reach_of(text: &str) -> FilterReach {
        LogFilter::of_stream(name_of(text).as_bytes())
            .unwrap()
            .reach
    }

    #[test]
    fn a_log_says_what_it_was_recorded_by() {
        let name = name_of("comm == \"cat\"");
        assert_eq!(name, "tracer-user --filter comm == \"cat\"");
        let filter = LogFilter::of_stream(name.as_bytes()).unwrap();
        assert_eq!(filter.text, "comm == \"cat\"");
        assert_eq!(LogFilter::stream_name(&Predicate::default()), "tracer-user");
        for other in ["tracer-user", "tracer-user --filters x", "", "mine"] {
            assert_eq!(LogFilter::of_stream(other.as_bytes()), None, "{other}");
        }
    }

    #[test]
    fn a_long_expression_is_cut_and_told_from_others() {
        let long = |pid: u32| {
            let one = format!("comm == \"ångström\" || comm == \"cat\" || pid == {pid}");
            name_of(&one)
        };
        assert!(long(1).len() <= MOST_BYTES && long(1) != long(2));
        let filter = LogFilter::of_stream(long(1).as_bytes()).unwrap();
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
