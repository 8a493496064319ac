//! Finds tracepoints by name.

use std::io;

use tracer_common::kernel::MAX_TRACEPOINTS;

use super::Tracepoint;
use super::format::TracepointFormat;
use super::tracefs::Tracefs;
use tracer_text::suggest;

/// Pattern for tracepoints, as it is typed: `CATEGORY:NAME` or `NAME`, in which `*` stands for any
/// characters and `?` for one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    category: String,
    name: String,
}

/// Reason why a tracepoint cannot be recorded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FindTracepointError {
    /// Text that is no tracepoint.
    #[error(
        "{typed:?} is no tracepoint; give CATEGORY:NAME or NAME, such as tcp:tcp_retransmit_skb"
    )]
    NotOne {
        /// Text as typed.
        typed: String,
    },
    /// Tracing files of the kernel that do not exist, or are not accessible.
    #[error(
        "the kernel's tracing files (tracefs) cannot be read; run as root, on a kernel with \
         CONFIG_EVENT_TRACING"
    )]
    NoTracefs {
        /// Cause.
        source: io::Error,
    },
    /// Name that no tracepoint of the kernel has.
    #[error(
        "this kernel has no tracepoint {typed}{}; `tracer-user events --tracepoints` lists them",
        similar.as_ref().map_or_else(String::new, |name| format!(" (is {name} meant?)"))
    )]
    None {
        /// Name as asked for.
        typed: String,
        /// Existing tracepoint with a similar name.
        similar: Option<String>,
    },
    /// Format of a tracepoint that cannot be read.
    #[error("what the kernel says of the tracepoint {category}:{name} cannot be read")]
    Format {
        /// Its category.
        category: String,
        /// Its name.
        name: String,
        /// Cause.
        source: io::Error,
    },
    /// Number of tracepoints above the limit.
    #[error("{asked} tracepoints are more than {MAX_TRACEPOINTS}, which is the most there may be")]
    TooMany {
        /// Number of tracepoints asked for.
        asked: usize,
    },
    /// Two tracepoints whose types would have the same name.
    #[error(
        "the names of two tracepoints begin with {name}, and no more is stored of them; ask for \
         one of both"
    )]
    Alike {
        /// Name that both would have.
        name: String,
    },
}

impl Pattern {
    /// Reads a pattern as typed between commas.
    ///
    /// # Errors
    ///
    /// The text is no pattern.
    pub fn new(typed: &str) -> Result<Self, FindTracepointError> {
        let (category, name) = typed.split_once(':').unwrap_or(("*", typed));
        let is_one = |part: &str| {
            let is_in_name =
                |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '*' | '?');
            !part.is_empty() && part.chars().all(is_in_name)
        };
        if !is_one(category) || !is_one(name) {
            return Err(FindTracepointError::NotOne {
                typed: typed.to_owned(),
            });
        }
        Ok(Self {
            category: category.to_owned(),
            name: name.to_owned(),
        })
    }

    /// Tells whether a name fits, whatever the category.
    #[must_use]
    pub fn has_name(&self, name: &str) -> bool {
        fits(self.name.as_bytes(), name.as_bytes())
    }

    /// Tells whether a tracepoint fits.
    #[must_use]
    pub fn has(&self, category: &str, name: &str) -> bool {
        fits(self.category.as_bytes(), category.as_bytes())
            && fits(self.name.as_bytes(), name.as_bytes())
    }
}

impl std::fmt::Display for Pattern {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.category == "*" {
            write!(f, "{}", self.name)
        } else {
            write!(f, "{}:{}", self.category, self.name)
        }
    }
}

/// Tells whether `name` fits `pattern`. Where a character does not fit, the search goes back to the
/// last star only: that suffices.
fn fits(pattern: &[u8], name: &[u8]) -> bool {
    let (mut at, mut of_name) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while of_name < name.len() {
        match pattern.get(at) {
            Some(b'*') => {
                star = Some((at, of_name));
                at += 1;
            }
            Some(b'?') => (at, of_name) = (at + 1, of_name + 1),
            Some(byte) if name.get(of_name) == Some(byte) => (at, of_name) = (at + 1, of_name + 1),
            _ => {
                let Some((star_at, taken)) = &mut star else {
                    return false;
                };
                *taken += 1;
                (at, of_name) = (*star_at + 1, *taken);
            }
        }
    }
    let rest = pattern.get(at..).unwrap_or_default();
    rest.iter().all(|byte| *byte == b'*')
}

/// Finds the tracepoints that the patterns fit, each once, in the order of the patterns.
///
/// # Errors
///
/// A pattern fits none, or the kernel does not say what there is.
pub fn find(patterns: &[Pattern]) -> Result<Vec<Tracepoint>, FindTracepointError> {
    if patterns.is_empty() {
        return Ok(Vec::new());
    }
    let tracefs = Tracefs::open().map_err(|source| FindTracepointError::NoTracefs { source })?;
    let all = names(&tracefs)?;
    let mut chosen: Vec<&(String, String)> = Vec::new();
    for pattern in patterns {
        let fitting = all
            .iter()
            .filter(|(category, name)| pattern.has(category, name));
        let before = chosen.len();
        let mut is_there = false;
        for one in fitting {
            is_there = true;
            if !chosen.contains(&one) {
                chosen.push(one);
            }
        }
        if !is_there && before == chosen.len() {
            let similar = suggest(&pattern.name, all.iter().map(|(_, name)| name.as_str()));
            let similar = similar.and_then(|near| all.iter().find(|(_, name)| name == near));
            return Err(FindTracepointError::None {
                typed: pattern.to_string(),
                similar: similar.map(|(category, name)| format!("{category}:{name}")),
            });
        }
    }
    if chosen.len() > MAX_TRACEPOINTS {
        return Err(FindTracepointError::TooMany {
            asked: chosen.len(),
        });
    }
    let mut found: Vec<Tracepoint> = Vec::new();
    for (category, name) in chosen {
        let tracepoint = described(&tracefs, category, name)?;
        let event_name = tracepoint.event_name();
        if found.iter().any(|other| other.event_name() == event_name) {
            return Err(FindTracepointError::Alike { name: event_name });
        }
        found.push(tracepoint);
    }
    Ok(found)
}

/// Returns the categories of this kernel's tracepoints.
///
/// # Errors
///
/// The kernel's tracing files are not there, or only root may read them.
pub fn categories() -> std::io::Result<Vec<String>> {
    Tracefs::open()?.folders(None)
}

/// Lists every tracepoint that the pattern fits, in order of category and name.
///
/// # Errors
///
/// The kernel does not say what there is.
pub fn list(pattern: &Pattern) -> Result<Vec<Tracepoint>, FindTracepointError> {
    let tracefs = Tracefs::open().map_err(|source| FindTracepointError::NoTracefs { source })?;
    let all = names(&tracefs)?.into_iter();
    let fitting = all.filter(|(category, name)| pattern.has(category, name));
    // A tracepoint that has gone meanwhile, or whose format cannot be read, is left out.
    let described =
        fitting.filter_map(|(category, name)| described(&tracefs, &category, &name).ok());
    Ok(described.collect())
}

/// Returns category and name of each tracepoint.
fn names(tracefs: &Tracefs) -> Result<Vec<(String, String)>, FindTracepointError> {
    let failed = |source| FindTracepointError::NoTracefs { source };
    let mut all = Vec::new();
    for category in tracefs.folders(None).map_err(failed)? {
        // A module may be unloaded meanwhile.
        let names = tracefs.folders(Some(&category)).unwrap_or_default();
        all.extend(names.into_iter().map(|name| (category.clone(), name)));
    }
    Ok(all)
}

fn described(
    tracefs: &Tracefs,
    category: &str,
    name: &str,
) -> Result<Tracepoint, FindTracepointError> {
    let failed = |source| FindTracepointError::Format {
        category: category.to_owned(),
        name: name.to_owned(),
        source,
    };
    let text = tracefs.format(category, name).map_err(failed)?;
    let format = TracepointFormat::parse(&text);
    let format = format.ok_or_else(|| failed(io::ErrorKind::InvalidData.into()))?;
    Ok(Tracepoint {
        category: category.to_owned(),
        name: name.to_owned(),
        format,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_of_category_and_name() {
        let pattern = |typed| Pattern::new(typed).unwrap();
        assert!(pattern("tcp:tcp_probe").has("tcp", "tcp_probe"));
        assert!(!pattern("tcp:tcp_probe").has("sock", "tcp_probe"));
        assert!(pattern("tcp_probe").has("tcp", "tcp_probe"));
        assert!(pattern("tcp:*").has("tcp", "tcp_probe"));
        assert!(pattern("*:*_p?obe").has("tcp", "tcp_probe"));
        assert!(!pattern("tcp:*_p?obe").has("tcp", "tcp_pobe"));
        assert!(pattern("a*b*c").has("any", "abbc"));
        assert!(!pattern("a*b*c").has("any", "abbcd"));
        for typed in ["", ":", "a:", ":b", "a:b:c", "a b", "../x"] {
            assert!(Pattern::new(typed).is_err(), "{typed}");
        }
    }

    #[test]
    fn many_stars_take_no_time() {
        let pattern = format!("{}b", "*a".repeat(60));
        assert!(!fits(pattern.as_bytes(), "a".repeat(200).as_bytes()));
    }
}
