//! Refusals: what is wrong with a call, and what to call next.

use serde_json::{Value, json};

/// Reason why a call has no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The mistake, and why it is one.
    pub error: String,
    /// Remedy, where one is known.
    pub remedy: Option<String>,
    /// Tool to call, or command to type, next.
    pub next: Option<String>,
}

impl Refusal {
    /// Makes a refusal that has the remedy.
    pub fn new(error: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self {
            error: error.into(),
            remedy: Some(remedy.into()),
            next: None,
        }
    }

    /// Says what to call next.
    #[must_use]
    pub fn with_next(mut self, next: impl Into<String>) -> Self {
        self.next = Some(next.into());
        self
    }

    /// Reads what a command has said as it failed: a line of JSON, or a line for people.
    pub fn of_command(said: &str) -> Self {
        let last = said.trim_end().lines().next_back().unwrap_or_default();
        if let Ok(Value::Object(object)) = serde_json::from_str::<Value>(last) {
            let text = |name: &str| object.get(name)?.as_str().map(str::to_owned);
            if let Some(error) = text("error") {
                let (remedy, next) = (text("remedy"), text("next"));
                return Self {
                    error,
                    remedy,
                    next,
                };
            }
        }
        let line = last.strip_prefix("tracer-user: ").unwrap_or(last);
        let (error, next) = match line.rsplit_once(" (next: ") {
            Some((error, next)) => (error, next.strip_suffix(')')),
            None => (line, None),
        };
        Self {
            error: error.to_owned(),
            remedy: None,
            next: next.map(str::to_owned),
        }
    }

    /// Returns it as an object.
    pub fn object(&self) -> Value {
        json!({ "error": self.error, "remedy": self.remedy, "next": self.next })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_command_says_is_read_in_both_forms() {
        let json = "tracer-user: a note\n{\"error\":\"no x\",\"remedy\":null,\"next\":\"ls\"}\n";
        let text = "tracer-user: a note\ntracer-user: no x (next: ls)\n";
        for said in [json, text] {
            let refusal = Refusal::of_command(said);
            assert_eq!(refusal.error, "no x");
            assert_eq!(refusal.next.as_deref(), Some("ls"));
        }
        assert_eq!(Refusal::of_command("").error, "");
    }
}
