//! Probes as users ask for them.

use std::path::PathBuf;

use tracer_common::event_type::TRACE_EVENT_NAME_MAX;

use super::types::{self, NotATypeError, ValueType};

/// Probe as it was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProbeSpec {
    /// `--usdt provider:name` or `provider:name(types)`: a static probe of the program.
    Usdt {
        /// Provider that the probe names.
        provider: String,
        /// Name of the probe.
        name: String,
        /// The types of its arguments, where they were given.
        types: Option<Vec<ValueType>>,
    },
    /// `--probe PATH:symbol[+offset]` or `PATH:symbol(types)`: an instruction of a function, by
    /// default the first.
    Function {
        /// The program or library.
        file: PathBuf,
        /// The function.
        symbol: String,
        /// Bytes into it.
        offset: u64,
        /// The types of its arguments, where they were given.
        types: Option<Vec<ValueType>>,
    },
    /// `--retprobe PATH:symbol` or `PATH:symbol(type)`: the return of a function.
    Return {
        /// The program or library.
        file: PathBuf,
        /// The function.
        symbol: String,
        /// The type of its result, where it was given.
        result: Option<ValueType>,
    },
    /// `--span PATH:symbol`: where a function begins, for the spans of its calls.
    SpanBegin {
        /// The program or library.
        file: PathBuf,
        /// The function.
        symbol: String,
    },
    /// `--span PATH:symbol`: the exits of a function, for the spans of its calls: its return
    /// instructions.
    SpanEnd {
        /// The program or library.
        file: PathBuf,
        /// The function.
        symbol: String,
    },
}

/// Probe that was typed wrongly.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{typed:?} is no probe{}", match why {
    Some(why) => format!(": {why}"),
    None => format!("; give {expected}"),
})]
pub struct NotAProbe {
    typed: String,
    expected: &'static str,
    why: Option<NotATypeError>,
}

const USDT: &str = "provider:name, as `tracer-user probes PID` lists them, or with the types of \
                    its arguments: 'ruby:cmethod__entry(str, str, str, int)'";
const FUNCTION: &str = "PATH:symbol, PATH:symbol+offset or PATH:symbol(types), such as \
                        libc.so.6:malloc or 'libc.so.6:fopen(str, str)'";
const RETURN: &str = "PATH:symbol or PATH:symbol(type), such as libc.so.6:malloc";

impl ProbeSpec {
    /// Reads the value of `--usdt`.
    ///
    /// # Errors
    ///
    /// It is not of that form.
    pub fn usdt(typed: &str) -> Result<Self, NotAProbe> {
        let not_one = || no_probe(typed, USDT);
        let (bare, types) = without_types(typed).ok_or_else(not_one)?;
        let types = types.map(types::list).transpose();
        let types = types.map_err(|why| no_type(typed, why))?;
        match bare.split_once(':') {
            Some((provider, name)) if !provider.is_empty() && !name.is_empty() => Ok(Self::Usdt {
                provider: provider.to_owned(),
                name: name.to_owned(),
                types,
            }),
            _ => Err(not_one()),
        }
    }

    /// Reads the value of `--probe`.
    ///
    /// # Errors
    ///
    /// It is not of that form.
    pub fn function(typed: &str) -> Result<Self, NotAProbe> {
        let not_one = || no_probe(typed, FUNCTION);
        let (file, function) = file_and_function(typed).ok_or_else(not_one)?;
        let (bare, types) = without_types(function).ok_or_else(not_one)?;
        let types = types.map(types::list).transpose();
        let types = types.map_err(|why| no_type(typed, why))?;
        let (symbol, offset) = match bare.rsplit_once('+') {
            None => (bare, 0),
            Some((symbol, offset)) => match integer(offset) {
                Some(offset) => (symbol, offset),
                // `operator+`
                None if is_of_source(bare) => (bare, 0),
                None => return Err(not_one()),
            },
        };
        // Only where a function begins are its arguments where they were passed.
        if symbol.is_empty() || offset > 0 && types.is_some() {
            return Err(not_one());
        }
        Ok(Self::Function {
            file,
            symbol: symbol.to_owned(),
            offset,
            types,
        })
    }

    /// Reads the value of `--retprobe`.
    ///
    /// # Errors
    ///
    /// It is not of that form.
    pub fn on_return(typed: &str) -> Result<Self, NotAProbe> {
        let not_one = || no_probe(typed, RETURN);
        let (file, function) = file_and_function(typed).ok_or_else(not_one)?;
        let (symbol, result) = without_types(function).ok_or_else(not_one)?;
        let result = result.map(types::result).transpose();
        let result = result.map_err(|why| no_type(typed, why))?;
        if symbol.is_empty() || symbol.contains('+') && !is_of_source(symbol) {
            return Err(not_one());
        }
        Ok(Self::Return {
            file,
            symbol: symbol.to_owned(),
            result,
        })
    }

    /// Returns the probes at which the spans of a function begin and end, from the value of
    /// `--span`, in the form of `--probe`. `None` where it does not name the beginning of a
    /// function.
    #[must_use]
    pub fn span_borders(&self) -> Option<[Self; 2]> {
        match self {
            Self::Function {
                file,
                symbol,
                offset: 0,
                types: None,
            } => {
                let (file, symbol) = (file.clone(), symbol.clone());
                let begin = Self::SpanBegin {
                    file: file.clone(),
                    symbol: symbol.clone(),
                };
                Some([begin, Self::SpanEnd { file, symbol }])
            }
            _ => None,
        }
    }

    /// Returns the name of its event type, at most as long as such a name may be.
    #[must_use]
    pub fn event_name(&self) -> String {
        self.named(None)
    }

    /// Returns the name of the event type of one function of those that it asks for.
    pub(super) fn event_name_of(&self, function: &str) -> String {
        self.named(Some(function))
    }

    fn named(&self, function: Option<&str>) -> String {
        let symbol_of = |symbol| function.unwrap_or(symbol);
        let mut name = match self {
            Self::Usdt { provider, name, .. } => format!("usdt:{provider}:{name}"),
            Self::Function {
                symbol, offset: 0, ..
            } => format!("probe:{}", symbol_of(symbol)),
            Self::Function { symbol, offset, .. } => format!("probe:{symbol}+{offset:#x}"),
            Self::SpanBegin { symbol, .. } => format!("probe:{symbol}"),
            Self::Return { symbol, .. } => format!("retprobe:{}", symbol_of(symbol)),
            Self::SpanEnd { symbol, .. } => format!("retprobe:{symbol}"),
        };
        let end = name.floor_char_boundary(TRACE_EVENT_NAME_MAX);
        name.truncate(end);
        name
    }
}

fn no_probe(typed: &str, expected: &'static str) -> NotAProbe {
    NotAProbe {
        typed: typed.to_owned(),
        expected,
        why: None,
    }
}

fn no_type(typed: &str, why: NotATypeError) -> NotAProbe {
    NotAProbe {
        why: Some(why),
        ..no_probe(typed, FUNCTION)
    }
}

/// Splits off the types; returns the text before them, and them; `None` where they do not end.
///
/// A name as the source of a C++ or Rust program has it, and as stacks show it, has brackets of its
/// own.
fn without_types(typed: &str) -> Option<(&str, Option<&str>)> {
    if is_of_source(typed) || has_types_of_source(typed) {
        return Some((typed, None));
    }
    match typed.split_once('(') {
        None => (!typed.ends_with(')')).then_some((typed, None)),
        Some((bare, types)) => Some((bare.trim_end(), Some(types.strip_suffix(')')?))),
    }
}

/// Tells whether a function has parameters as the source of C++ has them, `f(char const*)`, and
/// none of our types.
fn has_types_of_source(typed: &str) -> bool {
    let Some((_, types)) = typed.split_once('(') else {
        return false;
    };
    let Some(types) = types.strip_suffix(')') else {
        return false;
    };
    const WORDS: [&str; 4] = ["unsigned", "signed", "const", "volatile"];
    let mut words = types.split(|byte: char| !byte.is_alphanumeric() && byte != '_');
    types.contains(['*', '&', '(']) || words.any(|word| WORDS.contains(&word))
}

/// Tells whether a function is named as in its source, and not as in its file.
pub(super) fn is_of_source(symbol: &str) -> bool {
    symbol.contains("::") || symbol.contains('<')
}

/// Splits path and function. The path may have colons and brackets, and a function of C++ too:
/// between them is the last colon that has no other beside it and lies in no brackets.
fn file_and_function(typed: &str) -> Option<(PathBuf, &str)> {
    let bytes = typed.as_bytes();
    let is_colon = |at: usize| bytes.get(at) == Some(&b':');
    let is_alone =
        |at: usize| is_colon(at) && !is_colon(at + 1) && !at.checked_sub(1).is_some_and(is_colon);
    let mut depth = 0_usize;
    let mut last = None;
    for (at, byte) in bytes.iter().enumerate() {
        match byte {
            b'(' | b'<' => depth += 1,
            b')' | b'>' => depth = depth.saturating_sub(1),
            b':' if depth == 0 && is_alone(at) => last = Some(at),
            _ => {}
        }
    }
    let at = last.or_else(|| (0..bytes.len()).rev().find(|at| is_alone(*at)))?;
    let (file, function) = (typed.get(..at)?, typed.get(at + 1..)?);
    (!file.is_empty() && !function.is_empty()).then(|| (file.into(), function))
}

/// Reads a decimal integer, or a hexadecimal one after `0x`.
fn integer(typed: &str) -> Option<u64> {
    match typed.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => typed.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_of_the_source_are_a_part_of_the_name() {
        for (typed, name) in [
            ("a.out:f(char const*)", "f(char const*)"),
            ("a.out:f(unsigned long)", "f(unsigned long)"),
            ("a.out:N::B<long>::go", "N::B<long>::go"),
            ("a.out:N::*", "N::*"),
        ] {
            let ProbeSpec::Function { symbol, types, .. } = ProbeSpec::function(typed).unwrap()
            else {
                panic!("{typed}");
            };
            assert_eq!((&*symbol, types), (name, None));
        }
        assert!(ProbeSpec::function("a.out:f(strr)").is_err());
    }

    #[test]
    fn each_form_is_read_and_names_its_event_type() {
        let usdt = ProbeSpec::usdt("libc:setjmp").unwrap();
        assert_eq!(usdt.event_name(), "usdt:libc:setjmp");
        let typed = ProbeSpec::usdt("php:function__entry(str, str, int)").unwrap();
        assert_eq!(typed.event_name(), "usdt:php:function__entry");
        assert!(matches!(typed, ProbeSpec::Usdt { types: Some(types), .. } if types.len() == 3));
        let wrong = ProbeSpec::usdt("php:function__entry(text)").unwrap_err();
        assert!(wrong.to_string().contains("\"text\" is no type"), "{wrong}");

        let function = ProbeSpec::function("/usr/lib/a:b.so:run+0x10").unwrap();
        assert_eq!(
            function,
            ProbeSpec::Function {
                file: "/usr/lib/a:b.so".into(),
                symbol: "run".into(),
                offset: 16,
                types: None,
            }
        );
        assert_eq!(function.event_name(), "probe:run+0x10");
        let start = ProbeSpec::function("libc.so.6:malloc").unwrap();
        assert_eq!(start.event_name(), "probe:malloc");

        let on_return = ProbeSpec::on_return("libc.so.6:malloc").unwrap();
        assert_eq!(on_return.event_name(), "retprobe:malloc");
    }

    #[test]
    fn names_as_sources_have_them_are_whole_and_files_may_have_brackets() {
        for (typed, file, symbol, offset) in [
            ("srv (deleted):work", "srv (deleted)", "work", 0),
            ("/a (deleted):f+4", "/a (deleted)", "f", 4),
            ("x.so:ns::f", "x.so", "ns::f", 0),
            ("x.so:ns::f+0x10", "x.so", "ns::f", 16),
            ("x:ns::f(std::a<int>, b)", "x", "ns::f(std::a<int>, b)", 0),
            (
                "x:(anonymous namespace)::f(int)",
                "x",
                "(anonymous namespace)::f(int)",
                0,
            ),
            ("x:n::operator+(n::a)", "x", "n::operator+(n::a)", 0),
            ("/a:b:t<int>::run()", "/a:b", "t<int>::run()", 0),
        ] {
            let expected = ProbeSpec::Function {
                file: file.into(),
                symbol: symbol.to_owned(),
                offset,
                types: None,
            };
            assert_eq!(ProbeSpec::function(typed), Ok(expected), "{typed}");
        }
        let result = ProbeSpec::on_return("x.so:ns::f(int)").unwrap();
        assert_eq!(result.event_name(), "retprobe:ns::f(int)");
    }

    #[test]
    fn types_are_read_and_do_not_belong_to_the_name() {
        let spec = ProbeSpec::function("libc.so.6:fopen(str, str)").unwrap();
        assert_eq!(spec.event_name(), "probe:fopen");
        let ProbeSpec::Function {
            types: Some(types), ..
        } = spec
        else {
            panic!("no types");
        };
        assert!(types.len() == 2 && types[0].is_text());
        let spec = ProbeSpec::on_return("libc.so.6:getenv(str)").unwrap();
        assert_eq!(spec.event_name(), "retprobe:getenv");
        let none = ProbeSpec::function("f:x()").unwrap();
        assert!(matches!(none, ProbeSpec::Function { types: Some(types), .. } if types.is_empty()));
    }

    #[test]
    fn other_forms_are_refused_with_what_was_expected() {
        for typed in ["", "x", ":x", "x:"] {
            assert!(ProbeSpec::usdt(typed).is_err(), "{typed}");
            assert!(ProbeSpec::function(typed).is_err(), "{typed}");
            assert!(ProbeSpec::on_return(typed).is_err(), "{typed}");
        }
        for typed in [
            "f:x+",
            "f:x+y",
            "f:+1",
            "f:x+-1",
            "f:x(",
            "f:x)",
            "f:x(int",
            "f:x+1(int)",
            "f:(int)",
            "f:x(int) y",
            "(int)",
        ] {
            assert!(ProbeSpec::function(typed).is_err(), "{typed}");
        }
        let error = ProbeSpec::on_return("f:x+1").unwrap_err().to_string();
        assert_eq!(
            error,
            "\"f:x+1\" is no probe; give PATH:symbol or PATH:symbol(type), such as libc.so.6:malloc"
        );
        let error = ProbeSpec::function("f:x(strong)").unwrap_err().to_string();
        let expected =
            "\"f:x(strong)\" is no probe: \"strong\" is no type of an argument; give str,";
        assert!(error.starts_with(expected), "{error}");
    }

    #[test]
    fn a_long_name_is_truncated_to_what_an_event_type_may_be_called() {
        let long = "ä".repeat(100);
        let name = ProbeSpec::usdt(&format!("p:{long}")).unwrap().event_name();
        assert!(name.len() <= TRACE_EVENT_NAME_MAX && name.len() >= 63);
    }
}
