//! An expression, read and checked, and the functions that expressions have: those of the language
//! that need no list and no clock.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::{Arc, LazyLock};
use std::thread;

use cel::common::types::{CelBool, CelString, STRING_TYPE};
use cel::common::value::CowVal;
use cel::context::VariableResolver;
use cel::{Context, Env, ExecutionError, IdedExpr, Value};
use regex::{Regex, RegexBuilder};

use tracer_common::event_type::EventTypeId;

use super::FilterReach;
use super::check::{Checked, check};
use super::variables;

/// Most bytes of an expression.
const MOST_BYTES: usize = 4096;

/// Most levels of nesting.
pub(super) const MOST_LEVELS: usize = 100;

/// Stack of the thread that runs the library's parser: it goes down a dozen functions for each
/// level.
const STACK_BYTES: usize = 64 << 20;

/// Functions called as `text.contains('x')`.
pub(super) const MEMBERS: [&str; 5] = ["contains", "startsWith", "endsWith", "matches", "size"];

/// Functions called as `size(text)`.
pub(super) const GLOBALS: [&str; 7] =
    ["has", "size", "int", "uint", "double", "string", "duration"];

/// Bytes of a compiled regular expression.
const MOST_PATTERN_BYTES: usize = 1 << 20;

/// An expression that was read and checked.
pub struct Expression {
    text: String,
    root: IdedExpr,
    /// Operands of `&&` at the top, each as an expression of its own.
    parts: Vec<IdedExpr>,
    /// The variables that it names.
    names: BTreeSet<String>,
    /// The event types that it names.
    types: Vec<EventTypeId>,
    doubts: Vec<String>,
    environment: Arc<Env>,
}

/// Reason why something is no expression for `--filter`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}{}; {remedy}", position(*.at))]
pub struct BadExpression {
    /// Fault in the expression.
    pub what: String,
    /// Place of the fault, in characters from 1, if it is known.
    pub at: Option<usize>,
    /// Advice on what to do.
    pub remedy: String,
}

/// Result of judging something by an expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// True.
    True,
    /// False.
    False,
    /// Something that it names is missing, or cannot be compared so.
    Unknown,
}

impl Expression {
    /// Reads and checks `text`.
    ///
    /// # Errors
    ///
    /// It is none, or uses a name that no event has.
    pub fn parse(text: &str) -> Result<Self, BadExpression> {
        let remedy = "`tracer-user events` and the lines of --format json have the names";
        if text.trim().is_empty() {
            return Err(BadExpression {
                what: "an empty expression chooses nothing".to_owned(),
                at: None,
                remedy: format!("compare something, such as ret < 0; {remedy}"),
            });
        }
        if text.len() > MOST_BYTES {
            return Err(BadExpression {
                what: format!("the expression has more than {MOST_BYTES} bytes"),
                at: None,
                remedy: "make it shorter, such as by matches() with a pattern".to_owned(),
            });
        }
        let Checked {
            root,
            names,
            types,
            doubts,
        } = read(text)?;
        let mut parts = Vec::new();
        super::check::split(&root, &mut parts);
        Ok(Self {
            text: text.to_owned(),
            root,
            parts,
            names,
            types,
            doubts,
            environment: environment(),
        })
    }

    /// Returns the expression as it was typed.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns doubts about whether it says what was meant, in words.
    #[must_use]
    pub fn doubts(&self) -> &[String] {
        &self.doubts
    }

    /// Returns a variable that may be known only when a system call has ended, if it names one.
    pub(super) fn needs_exit(&self) -> Option<&str> {
        let mut names = self.names().filter(|name| variables::needs_exit(name));
        names.next()
    }

    /// Tells whether it uses a name that only system calls have.
    pub(super) fn is_of_calls(&self) -> bool {
        self.names().any(variables::is_of_calls)
    }

    /// Returns the event types that it names.
    pub(super) fn types(&self) -> &[EventTypeId] {
        &self.types
    }

    /// Tells whether it may be true of a call's entry and not of its exit, or the other way.
    pub(super) fn varies(&self) -> bool {
        self.names().any(variables::varies)
    }

    /// Returns which events of a thread may be missing in a log that was recorded by it.
    pub(super) fn reach(&self) -> FilterReach {
        let are_all = |known: &[&str]| self.names().all(|name| known.contains(&name));
        if are_all(&["pid", "ns_pid"]) {
            FilterReach::Processes
        } else if are_all(&["pid", "ns_pid", "comm"]) {
            FilterReach::Names
        } else if self.varies() {
            FilterReach::Ends
        } else {
            FilterReach::Events
        }
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(String::as_str)
    }

    /// Judges the expression where variables have the values that `values` knows.
    pub(super) fn judge(&self, values: &dyn VariableResolver) -> Verdict {
        self.judge_part(&self.root, values)
    }

    /// Judges each operand of `&&` at the top.
    pub(super) fn judge_parts<'v>(
        &'v self,
        values: &'v dyn VariableResolver,
    ) -> impl Iterator<Item = Verdict> + use<'v> {
        self.parts.iter().map(|part| self.judge_part(part, values))
    }

    fn judge_part(&self, part: &IdedExpr, values: &dyn VariableResolver) -> Verdict {
        let mut context = Context::with_env(Arc::clone(&self.environment));
        context.set_variable_resolver(values);
        let value: Result<_, ExecutionError> = Value::resolve_val(part, &context);
        let Ok(value) = value else {
            return Verdict::Unknown;
        };
        match value.downcast_ref::<CelBool>().map(|truth| *truth.inner()) {
            Some(true) => Verdict::True,
            Some(false) => Verdict::False,
            None => Verdict::Unknown,
        }
    }
}

impl fmt::Debug for Expression {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_tuple("Expression")
            .field(&self.text)
            .finish()
    }
}

/// Reads and checks on a stack that is large enough for whatever was typed.
fn read(text: &str) -> Result<Checked, BadExpression> {
    let failed = |what: &str| BadExpression {
        what: format!("the expression cannot be read: {what}"),
        at: None,
        remedy: "make it simpler".to_owned(),
    };
    thread::scope(|scope| {
        let builder = thread::Builder::new().stack_size(STACK_BYTES);
        let reader = builder.spawn_scoped(scope, || {
            let parser = environment().parser();
            let levels = u16::try_from(MOST_LEVELS).unwrap_or(u16::MAX);
            match parser.max_recursion_depth(levels).parse(text) {
                Ok(root) => check(text, root),
                Err(errors) => Err(first_of(text, &errors)),
            }
        });
        let reader = reader.map_err(|error| failed(&error.to_string()))?;
        let read = reader.join();
        read.unwrap_or_else(|_| Err(failed("the library for such expressions gave up")))
    })
}

/// Returns the library's first complaint about a text that it cannot read.
fn first_of(text: &str, errors: &cel::ParseErrors) -> BadExpression {
    let first = errors.errors.first();
    let message = first.map_or("", |error| error.msg.as_str());
    if message.contains("Recursion limit") {
        return BadExpression {
            what: format!("the expression has more than {MOST_LEVELS} levels"),
            at: None,
            remedy: "take brackets out".to_owned(),
        };
    }
    // What may be there is listed for programs: it has every token.
    let message = message.strip_prefix("Syntax error: ").unwrap_or(message);
    let message = message.split(" expecting ").next().unwrap_or(message);
    let message = message.replace("<EOF>", "end of the expression");
    let at = first.and_then(|error| {
        let (line, column) = (error.pos.0, error.pos.1);
        let before: usize = text
            .lines()
            .take(usize::try_from(line).ok()?.saturating_sub(1))
            .map(|line| line.chars().count() + 1)
            .sum();
        Some(before + usize::try_from(column).ok()?)
    });
    BadExpression {
        what: format!("the expression cannot be read: {message}"),
        at,
        remedy: "write it as in 'ret < 0 && comm == \"nginx\"': && for and, || for or, ! for not, \
                 == for equal, text in quotes, times as duration(\"10ms\")"
            .to_owned(),
    }
}

fn position(at: Option<usize>) -> String {
    at.map_or_else(String::new, |at| format!(" (at character {at})"))
}

/// Returns the language with these functions.
fn environment() -> Arc<Env> {
    static ENVIRONMENT: LazyLock<Arc<Env>> = LazyLock::new(|| {
        let mut environment = Env::default().with_optional_support(false).with_stdlib();
        let arguments = vec![STRING_TYPE];
        // There is no other of this name: its patterns would be read anew for each event.
        let added = environment.add_member_overload(
            "matches",
            "matches_read_once",
            STRING_TYPE,
            arguments,
            matches,
        );
        debug_assert!(added.is_ok(), "{added:?}");
        Arc::new(environment)
    });
    Arc::clone(&ENVIRONMENT)
}

/// Reads a regular expression.
pub(super) fn pattern(typed: &str) -> Result<Regex, regex::Error> {
    let mut builder = RegexBuilder::new(typed);
    builder.size_limit(MOST_PATTERN_BYTES).build()
}

fn matches<'b, 'v>(arguments: Vec<CowVal<'b, 'v>>) -> Result<CowVal<'b, 'v>, ExecutionError> {
    thread_local! {
        /// Regular expressions that were read: an expression has few.
        static READ: RefCell<HashMap<String, Regex>> = RefCell::default();
    }
    let text = |at: usize| arguments.get(at)?.downcast_ref::<CelString<'_>>();
    let (Some(text), Some(typed)) = (text(0), text(1)) else {
        return Err(ExecutionError::MissingArgumentOrTarget);
    };
    READ.with_borrow_mut(|read| {
        if let Some(pattern) = read.get(typed.inner()) {
            return Ok(CowVal::owned(CelBool::from(pattern.is_match(text.inner()))));
        }
        let pattern = pattern(typed.inner()).map_err(|error| ExecutionError::FunctionError {
            function: "matches".to_owned(),
            message: error.to_string(),
        })?;
        let is_match = pattern.is_match(text.inner());
        read.insert(typed.inner().to_owned(), pattern);
        Ok(CowVal::owned(CelBool::from(is_match)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> String {
        match Expression::parse(text) {
            Ok(_) => format!("{text:?} was taken"),
            Err(refusal) => refusal.to_string(),
        }
    }

    #[test]
    fn what_is_wrong_is_said_with_where_and_what_to_do() {
        for (text, parts) in [
            ("", &["chooses nothing"][..]),
            (
                "ret <",
                &["cannot be read", "(at character 6)", "&& for and"],
            ),
            ("comm = 'x'", &["'= '", "(at character 6)", "== for equal"]),
            (
                "pid == 1 && rett < 0",
                &["\"rett\"", "(at character 13)", "is ret meant?"],
            ),
            ("comm == nginx", &["\"nginx\"", "text is in quotes"]),
            ("arguments.filenme == 'x'", &["is filename meant?"]),
            (
                "event.pid == 1",
                &["nothing is before .pid", "arguments.NAME"],
            ),
            ("syscall == 'opneat'", &["\"opneat\"", "is openat meant?"]),
            (
                "syscall in ['open', 'raed']",
                &["\"raed\"", "is read meant?"],
            ),
            (
                "filename.startswith('/')",
                &["\"startswith\"", "is startsWith meant?"],
            ),
            (
                "filename.matches('(')",
                &["no regular expression", "unclosed"],
            ),
            (
                "filename.matches(comm)",
                &["matches cannot be called so", "quotes"],
            ),
            (
                "duration > duration('5 apples')",
                &["\"5 apples\" is no time", "ms"],
            ),
            (
                "duration > 10",
                &["nanoseconds", "10 has no unit", "duration(\"10ms\")"],
            ),
            ("time > 0.5", &["nanoseconds", "time > duration(\"10ms\")"]),
            ("duration > 10ms", &["cannot be read", "duration(\"10ms\")"]),
            ("duration == 'long'", &["\"long\" has no unit"]),
            (
                "args[0] == 3",
                &["args is no value by itself", "arguments.fd == 3"],
            ),
            (
                "argv[0] == 3",
                &["list of texts, of which none is 3", "argv[0] == \"x\""],
            ),
            ("argv == 3", &["argv is a text, and never 3"]),
            (
                "'ls' in comm",
                &["comm is a text, and no list", "comm == \"x\""],
            ),
            (
                "signal == 'SIGNONE'",
                &["number of a signal", "signal == \"SIGTERM\""],
            ),
            ("comm == 4711", &["comm is a text, and never 4711"]),
            ("pid == 'nginx'", &["pid is a number", "pid == 1"]),
            ("1 < comm", &["comm is a text"]),
            ("truncated == 1", &["true or false", "!truncated"]),
            ("pid in [1, 'x']", &["pid is a number, and never \"x\""]),
            ("has(1)", &["has cannot be called so"]),
            ("ret + 1", &["neither yes nor no", "ret < 0"]),
            ("'x'", &["neither yes nor no"]),
            ("size(comm)", &["neither yes nor no"]),
            ("{'a': 1} == ret", &["map"]),
            (
                "[1, 2].exists(x, x == ret)",
                &["no function is called \"exists\""],
            ),
        ] {
            let refusal = refused(text);
            for part in parts {
                assert!(refusal.contains(part), "{text}: {refusal}");
            }
        }
    }

    #[test]
    fn what_is_too_large_is_refused_at_once() {
        for text in [
            "(".repeat(4000),
            format!("{}ret == 1{}", "(".repeat(1000), ")".repeat(1000)),
            vec!["ret"; 700].join("+") + " == 1",
            vec!["ret == 1 ? true : "; 150].concat() + "false",
            format!("ret{} == 1", "[0]".repeat(900)),
        ] {
            assert!(
                refused(&text).contains("more than 100 levels"),
                "{}",
                refused(&text)
            );
        }
        assert!(refused(&"x".repeat(4097)).contains("more than 4096 bytes"));
        // Many side by side are no levels.
        assert!(Expression::parse(&vec!["pid == 1"; 300].join("||")).is_ok());
        assert!(
            Expression::parse(&format!("{}pid == 1{}", "(".repeat(90), ")".repeat(90))).is_ok()
        );
    }

    #[test]
    fn a_type_that_is_nearly_one_of_the_kernels_is_doubted() {
        let doubts = |text| Expression::parse(text).unwrap().doubts().join("\n");
        assert!(doubts("type == 'exce'").contains("is exec meant?"));
        assert!(doubts("type in ['fork', 'swich-in']").contains("is switch-in meant?"));
        assert_eq!(doubts("type == 'exec' || type == 'request'"), "");
    }

    #[test]
    fn what_needs_the_exit_is_said_by_name() {
        let late = |text| {
            Expression::parse(text)
                .unwrap()
                .needs_exit()
                .map(str::to_owned)
        };
        assert_eq!(late("comm == 'x' && ret < 0").as_deref(), Some("ret"));
        assert_eq!(late("!has(duration)").as_deref(), Some("duration"));
        assert_eq!(late("filename == '/' && flags == 'O_RDONLY'"), None);
    }
}
