//! Check of whether an expression makes sense, before anything is traced.

use std::collections::BTreeSet;

use cel::IdedExpr;
use cel::common::ast::{CallExpr, Expr, LiteralValue, SelectExpr, operators};
use cel::common::types::{CelInt, CelString};
use tracer_common::event_type::{EventTypeId, SYSTEM_EVENT_TYPES};

use super::comparison::{self, Mismatch, nanoseconds};
use super::expression::{BadExpression, GLOBALS, MEMBERS, MOST_LEVELS, pattern};
use super::variables::{self, ARGUMENTS, Asked, FILLED};
use tracer_syscalls::names::all_names;
use tracer_text::suggest;
use tracer_text::{short_name, signal_number, type_named};

/// An expression that makes sense.
pub struct Checked {
    /// Checked expression: conditions that were said in other words are in variables that are known
    /// at each event.
    pub root: IdedExpr,
    /// Variables that it names.
    pub names: BTreeSet<String>,
    /// The event types that it names.
    pub types: Vec<EventTypeId>,
    /// Doubts about whether it says what was meant.
    pub doubts: Vec<String>,
}

/// Operators with a truth value.
const OF_TRUTH: [&str; 11] = [
    operators::LOGICAL_AND,
    operators::LOGICAL_OR,
    operators::LOGICAL_NOT,
    operators::EQUALS,
    operators::NOT_EQUALS,
    operators::LESS,
    operators::LESS_EQUALS,
    operators::GREATER,
    operators::GREATER_EQUALS,
    operators::IN,
    operators::CONDITIONAL,
];

/// Operators that make a value of others.
const OF_VALUES: [&str; 7] = [
    operators::ADD,
    operators::SUBSTRACT,
    operators::MULTIPLY,
    operators::DIVIDE,
    operators::MODULO,
    operators::NEGATE,
    operators::INDEX,
];

/// Checks `root`, which was read from `text`.
pub fn check(text: &str, mut root: IdedExpr) -> Result<Checked, BadExpression> {
    let mut checker = Checker {
        text,
        names: BTreeSet::new(),
        types: Vec::new(),
        doubts: Vec::new(),
    };
    checker.expression(&mut root, 0)?;
    let says_yes_or_no = match &root.expr {
        Expr::Ident(_) | Expr::Literal(LiteralValue::Boolean(_)) => true,
        Expr::Call(call) => {
            OF_TRUTH.contains(&call.func_name.as_str())
                || (call.target.is_some() && call.func_name != "size")
        }
        _ => false,
    };
    if !says_yes_or_no {
        return Err(BadExpression {
            what: "the expression is a value, and says neither yes nor no".to_owned(),
            at: None,
            remedy: "compare it with something, as in ret < 0".to_owned(),
        });
    }
    Ok(Checked {
        root,
        names: checker.names,
        types: checker.types,
        doubts: checker.doubts,
    })
}

/// Appends the operands of `&&` at the top to `parts`.
pub fn split(root: &IdedExpr, parts: &mut Vec<IdedExpr>) {
    match &root.expr {
        Expr::Call(call) if call.func_name == operators::LOGICAL_AND => {
            call.args.iter().for_each(|part| split(part, parts));
        }
        _ => parts.push(root.clone()),
    }
}

/// Operators that compare.
const COMPARES: [&str; 7] = [
    operators::EQUALS,
    operators::NOT_EQUALS,
    operators::LESS,
    operators::LESS_EQUALS,
    operators::GREATER,
    operators::GREATER_EQUALS,
    operators::IN,
];

/// An operand that is compared.
enum Compared {
    Variable(String),
    /// An element of the list that a variable is.
    Element(String),
}

fn compared(node: &IdedExpr) -> Option<Compared> {
    match &node.expr {
        Expr::Ident(name) if named_signal(&node.expr).is_none() => {
            Some(Compared::Variable(name.clone()))
        }
        Expr::Select(select) => match &select.operand.expr {
            Expr::Ident(of) => Some(Compared::Variable(format!("{of}.{}", select.field))),
            _ => None,
        },
        Expr::Call(call) if call.func_name == operators::INDEX => {
            match call.args.first().and_then(compared) {
                Some(Compared::Variable(name)) => Some(Compared::Element(name)),
                _ => None,
            }
        }
        _ => None,
    }
}

/// Returns the number of a signal, where a name is that: signals are integers in events, and names
/// in heads.
fn named_signal(node: &Expr) -> Option<Expr> {
    match node {
        Expr::Ident(name) if name.starts_with("SIG") => {
            let signal = CelInt::from(i64::from(signal_number(name)?));
            Some(Expr::Literal(LiteralValue::Int(signal)))
        }
        _ => None,
    }
}

struct Checker<'a> {
    text: &'a str,
    names: BTreeSet<String>,
    types: Vec<EventTypeId>,
    doubts: Vec<String>,
}

impl Checker<'_> {
    fn expression(&mut self, node: &mut IdedExpr, level: usize) -> Result<(), BadExpression> {
        if level > MOST_LEVELS {
            return Err(BadExpression {
                what: format!("the expression has more than {MOST_LEVELS} levels"),
                at: None,
                remedy: "make it shorter: for one of many, write name in [\"a\", \"b\"]".to_owned(),
            });
        }
        if let Some(signal) = named_signal(&node.expr) {
            node.expr = signal;
        }
        match &mut node.expr {
            Expr::Literal(_) => Ok(()),
            Expr::Ident(name) => {
                self.name(name)?;
                *name = Asked::Value(name).written();
                Ok(())
            }
            Expr::Select(select) => {
                let name = self.selected(select)?;
                node.expr = Expr::Ident(Asked::Value(&name).written());
                Ok(())
            }
            Expr::List(list) => {
                let mut elements = list.elements.iter_mut();
                elements.try_for_each(|element| self.expression(element, level + 1))
            }
            Expr::Call(call) => {
                if let Some(replaced) = self.call(call, level)? {
                    node.expr = replaced;
                }
                Ok(())
            }
            Expr::Map(_) | Expr::Struct(_) | Expr::Comprehension(_) | Expr::Unspecified => {
                Err(BadExpression {
                    what: "the expression has a map or an object, with which no event can be \
                           compared"
                        .to_owned(),
                    at: self.find("{"),
                    remedy: "compare with texts, integers and lists of them".to_owned(),
                })
            }
        }
    }

    /// Notes a variable.
    fn name(&mut self, name: &str) -> Result<(), BadExpression> {
        if variables::is_known(name) {
            self.names.insert(name.to_owned());
            return Ok(());
        }
        let bare = name.split_once('.').map_or(name, |(_, behind)| behind);
        let remedy = match suggest(bare, variables::all()) {
            Some(meant) => format!("is {meant} meant?"),
            None => "known are type, syscall, pid, tid, comm, cpu, time, and the fields that \
                     `tracer-user events` and the lines of --format json have; text is in quotes"
                .to_owned(),
        };
        Err(BadExpression {
            what: format!("no event has anything called {name:?}"),
            at: self.find(name),
            remedy,
        })
    }

    /// Reads an argument of a call, by `arguments.name` or `filled.name`.
    fn selected(&mut self, select: &SelectExpr) -> Result<String, BadExpression> {
        let of = match &select.operand.expr {
            Expr::Ident(name) if *name == ARGUMENTS.trim_end_matches('.') => ARGUMENTS,
            Expr::Ident(name) if *name == FILLED.trim_end_matches('.') => FILLED,
            _ => {
                return Err(BadExpression {
                    what: format!("nothing is before .{}", select.field),
                    at: self.find(&format!(".{}", select.field)),
                    remedy: "only arguments.NAME and filled.NAME, of system calls, have a dot; \
                             other fields go by their names alone"
                        .to_owned(),
                });
            }
        };
        let name = format!("{of}{}", select.field);
        self.name(&name)?;
        Ok(name)
    }

    /// Checks a call, and returns the expression that replaces it, if one does.
    fn call(&mut self, call: &mut CallExpr, level: usize) -> Result<Option<Expr>, BadExpression> {
        let function = call.func_name.as_str();
        let is_operator = OF_TRUTH.contains(&function) || OF_VALUES.contains(&function);
        if is_operator {
            self.names_of_values(call)?;
            let mut operands = call.args.iter_mut();
            operands.try_for_each(|operand| self.expression(operand, level + 1))?;
            return Ok(None);
        }
        match (&mut call.target, call.args.as_mut_slice()) {
            (Some(target), arguments) if MEMBERS.contains(&function) => {
                let wanted = usize::from(function != "size");
                if arguments.len() != wanted {
                    return Err(self.misused(function));
                }
                if function == "matches" {
                    self.pattern(arguments)?;
                }
                self.expression(target, level + 1)?;
                let mut arguments = arguments.iter_mut();
                arguments.try_for_each(|argument| self.expression(argument, level + 1))?;
                Ok(None)
            }
            (None, [argument]) if function == "has" => {
                let name = match &argument.expr {
                    Expr::Ident(name) => {
                        self.name(name)?;
                        name.clone()
                    }
                    Expr::Select(select) => self.selected(select)?,
                    _ => return Err(self.misused(function)),
                };
                // What is asked about need not be there.
                Ok(Some(Expr::Ident(Asked::Presence(&name).written())))
            }
            (None, [argument]) if function == "duration" => {
                let Expr::Literal(LiteralValue::String(typed)) = &argument.expr else {
                    return Err(self.misused(function));
                };
                let ns = nanoseconds(typed.inner()).ok_or_else(|| BadExpression {
                    what: format!("{:?} is no time", typed.inner()),
                    at: self.find(typed.inner()),
                    remedy: "write it as in duration(\"1.5ms\"), with ns, us, ms, s, m or h"
                        .to_owned(),
                })?;
                Ok(Some(Expr::Literal(LiteralValue::Int(CelInt::from(ns)))))
            }
            (None, [argument]) if GLOBALS.contains(&function) => {
                self.expression(argument, level + 1)?;
                Ok(None)
            }
            _ if MEMBERS.contains(&function) || GLOBALS.contains(&function) => {
                Err(self.misused(function))
            }
            _ => {
                let known = MEMBERS.into_iter().chain(GLOBALS);
                let remedy = match suggest(function, known.clone()) {
                    Some(meant) => format!("is {meant} meant?"),
                    None => format!("known are {}", known.collect::<Vec<_>>().join(", ")),
                };
                Err(BadExpression {
                    what: format!("no function is called {function:?}"),
                    at: self.find(function),
                    remedy,
                })
            }
        }
    }

    /// Checks what variables are compared with: names of event types are replaced by those that
    /// events have, those of system calls have to be some, and a value that a variable cannot have
    /// is refused.
    fn names_of_values(&mut self, call: &mut CallExpr) -> Result<(), BadExpression> {
        let function = call.func_name.as_str();
        if !COMPARES.contains(&function) {
            return Ok(());
        }
        if function == operators::IN
            && let [_, list] = &call.args[..]
            && let Some(Compared::Variable(name)) = compared(list)
        {
            return comparison::settle_list(&name).map_err(|wrong| self.mismatch(&name, wrong));
        }
        let Some(subject) = call.args.iter().find_map(compared) else {
            return Ok(());
        };
        for operand in &mut call.args {
            let literals = match &mut operand.expr {
                Expr::List(list) => list.elements.as_mut_slice(),
                Expr::Literal(_) | Expr::Ident(_) => std::slice::from_mut(operand),
                _ => continue,
            };
            for literal in literals {
                if let Some(signal) = named_signal(&literal.expr) {
                    literal.expr = signal;
                }
                if let Expr::Literal(literal) = &mut literal.expr {
                    self.literal(&subject, literal)?;
                }
            }
        }
        Ok(())
    }

    fn literal(
        &mut self,
        subject: &Compared,
        literal: &mut LiteralValue,
    ) -> Result<(), BadExpression> {
        let (name, settled) = match subject {
            Compared::Variable(name) => (name, comparison::settle(name, literal)),
            Compared::Element(name) => (name, comparison::settle_element(name, literal)),
        };
        settled.map_err(|wrong| self.mismatch(name, wrong))?;
        let (Compared::Variable(name), LiteralValue::String(typed)) = (subject, literal) else {
            return Ok(());
        };
        match (name.as_str(), type_named(typed.inner())) {
            ("type", Some(entry)) => {
                self.types.push(entry.id);
                *typed = CelString::from(short_name(entry));
            }
            ("type", None) => {
                let known: Vec<String> = SYSTEM_EVENT_TYPES.iter().map(short_name).collect();
                let meant = suggest(typed.inner(), known.iter().map(String::as_str)).map(|meant| {
                    format!(
                        "no type of the kernel's events is called {:?} (is {meant} meant?): only \
                         user events can be of it",
                        typed.inner()
                    )
                });
                self.doubts.extend(meant);
            }
            ("syscall", _) => self.call_name(typed.inner())?,
            _ => {}
        }
        Ok(())
    }

    fn mismatch(&self, name: &str, wrong: Mismatch) -> BadExpression {
        BadExpression {
            what: wrong.what,
            at: self.find(name),
            remedy: wrong.remedy,
        }
    }

    fn call_name(&self, typed: &str) -> Result<(), BadExpression> {
        // What a call is called that has no name.
        let is_nameless = typed
            .strip_prefix("syscall_")
            .is_some_and(|nr| nr.parse::<i32>().is_ok());
        if is_nameless || all_names().any(|name| name == typed) {
            return Ok(());
        }
        Err(BadExpression {
            what: format!("no system call is called {typed:?}"),
            at: self.find(typed),
            remedy: match suggest(typed, all_names()) {
                Some(meant) => format!("is {meant} meant?"),
                None => {
                    "`man 2 syscalls` lists them; --syscalls takes classes and patterns".to_owned()
                }
            },
        })
    }

    fn pattern(&self, arguments: &[IdedExpr]) -> Result<(), BadExpression> {
        let [
            IdedExpr {
                expr: Expr::Literal(LiteralValue::String(typed)),
                ..
            },
        ] = arguments
        else {
            return Err(self.misused("matches"));
        };
        match pattern(typed.inner()) {
            Ok(_) => Ok(()),
            Err(error) => {
                let error = error.to_string();
                let why = error.lines().last().unwrap_or_default();
                let why = why.strip_prefix("error: ").unwrap_or(why);
                Err(BadExpression {
                    what: format!("{:?} is no regular expression: {why}", typed.inner()),
                    at: self.find(typed.inner()),
                    remedy: "put \\\\ before what is to be taken as it is".to_owned(),
                })
            }
        }
    }

    fn misused(&self, function: &str) -> BadExpression {
        let remedy = match function {
            "has" => "write it as in has(ret), with the name of a field",
            "duration" => "write it as in duration > duration(\"5ms\")",
            "matches" => {
                "write it as in filename.matches(\"^/etc/.*[.]conf$\"), with a pattern in \
                          quotes"
            }
            "contains" | "startsWith" | "endsWith" => {
                "write it as in filename.startsWith(\"/etc\")"
            }
            _ => "write it as in size(filename) > 100, with one value",
        };
        BadExpression {
            what: format!("{function} cannot be called so"),
            at: self.find(function),
            remedy: remedy.to_owned(),
        }
    }

    /// Returns where a word is, in characters from 1.
    fn find(&self, word: &str) -> Option<usize> {
        let before = self.text.get(..self.text.find(word)?)?;
        Some(before.chars().count() + 1)
    }
}
