//! One line of what is looked at.

use super::unmet::Unmet;

/// One line of `tracer-user doctor`.
#[derive(Clone, Debug)]
pub struct Check {
    /// What was looked at, in a few words.
    pub what: &'static str,
    /// Whether it is as needed.
    pub holds: bool,
    /// What was found.
    pub found: String,
    /// What to do when it does not hold.
    pub remedy: Option<String>,
}

impl Check {
    /// What holds.
    pub(super) fn held(what: &'static str, found: impl Into<String>) -> Self {
        Self {
            what,
            holds: true,
            found: found.into(),
            remedy: None,
        }
    }

    /// What holds, or what is lacking.
    pub(super) fn of(what: &'static str, result: Result<String, Unmet>) -> Self {
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

/// An error with all that caused it.
fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
