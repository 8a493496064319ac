//! One line of `tracer-user doctor`.

use super::unmet::Unmet;

/// One line of `tracer-user doctor`.
#[derive(Clone, Debug)]
pub struct Check {
    /// Subject of the check, in a few words.
    pub what: &'static str,
    /// Result: everything is as needed.
    pub holds: bool,
    /// Finding, in words.
    pub found: String,
    /// Remedy, where it does not hold.
    pub remedy: Option<String>,
}

impl Check {
    /// Returns a check that holds.
    pub(super) fn held(what: &'static str, found: impl Into<String>) -> Self {
        Self {
            what,
            holds: true,
            found: found.into(),
            remedy: None,
        }
    }

    /// Returns a check that holds, or lacks something.
    pub(super) fn from_result(what: &'static str, result: Result<String, Unmet>) -> Self {
        match result {
            Ok(found) => Self::held(what, found),
            Err(unmet) => Self {
                what,
                holds: false,
                found: with_causes(&unmet),
                remedy: Some(unmet.remedy().to_owned()),
            },
        }
    }
}

/// Describes an error with all its causes.
fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
