//! The functions that expressions have: those of the language that need no list and no clock.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use cel::common::types::{CelBool, CelString, STRING_TYPE};
use cel::common::value::CowVal;
use cel::{Env, ExecutionError};
use regex::{Regex, RegexBuilder};

/// Functions called as `text.contains('x')`.
pub const MEMBERS: [&str; 5] = ["contains", "startsWith", "endsWith", "matches", "size"];

/// Functions called as `size(text)`.
pub const GLOBALS: [&str; 7] = ["has", "size", "int", "uint", "double", "string", "duration"];

/// Bytes of a compiled regular expression.
const MOST_PATTERN_BYTES: usize = 1 << 20;

/// Returns the language with these functions.
pub fn environment() -> Arc<Env> {
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
pub fn pattern(typed: &str) -> Result<Regex, regex::Error> {
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
