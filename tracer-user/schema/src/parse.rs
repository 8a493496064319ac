//! Reader of `members.txt`, whose head has the syntax.

use std::fmt;

use crate::definition::{CommandAnswer, Definitions, JsonMember, Object, ObjectEntry, Type};

/// Line that is none of a definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError {
    /// The line.
    pub line: String,
    /// The mistake.
    pub what: &'static str,
}

impl fmt::Display for ParseError {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{:?}: {}", self.line, self.what)
    }
}

impl std::error::Error for ParseError {}

/// Reads a definition.
///
/// # Errors
///
/// A line is none of a definition, or names an object that there is not.
pub fn parse(text: &str) -> Result<Definitions, ParseError> {
    let mut all = Definitions::default();
    let lines = text.lines().map(str::trim_end);
    for line in lines.filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let error = |what| ParseError {
            line: line.to_owned(),
            what,
        };
        if let Some(answer) = line.strip_prefix('@') {
            let (command, objects) = answer.split_once(' ').ok_or(error("no objects"))?;
            all.answers.push(CommandAnswer {
                command: command.to_owned(),
                objects: objects.split('|').map(str::to_owned).collect(),
            });
        } else if let Some(head) = line.strip_prefix('[') {
            let (name, about) = head.split_once("] ").ok_or(error("no description"))?;
            all.objects.push(Object {
                name: name.to_owned(),
                about: about.to_owned(),
                entries: Vec::new(),
            });
        } else {
            let entry = entry(line).map_err(error)?;
            let object = all.objects.last_mut().ok_or(error("of no object"))?;
            object.entries.push(entry);
        }
    }
    check(&all)?;
    Ok(all)
}

fn entry(line: &str) -> Result<ObjectEntry, &'static str> {
    if let Some(name) = line.strip_prefix("+ ") {
        return Ok(ObjectEntry::Include(name.to_owned()));
    }
    let (declared, about) = line.split_once(" : ").ok_or("no description")?;
    let (name, of) = declared.split_once(' ').ok_or("no type")?;
    let plain = name.strip_suffix('?');
    Ok(ObjectEntry::Member(JsonMember {
        name: plain.unwrap_or(name).to_owned(),
        is_always: plain.is_none(),
        of: type_of(of)?,
        about: about.to_owned(),
    }))
}

fn type_of(word: &str) -> Result<Type, &'static str> {
    if let Some(of) = word.strip_suffix('?') {
        return Ok(Type::OrNull(Box::new(type_of(of)?)));
    }
    if let Some(of) = word.strip_prefix('[') {
        let of = of.strip_suffix(']').ok_or("no end of the list")?;
        return Ok(Type::List(Box::new(type_of(of)?)));
    }
    if let Some(of) = word.strip_prefix('{') {
        let of = of.strip_suffix('}').ok_or("no end of the map")?;
        return Ok(Type::Map(Box::new(type_of(of)?)));
    }
    if let Some(words) = word.strip_prefix("one:") {
        return Ok(Type::OneOf(words.split('|').map(str::to_owned).collect()));
    }
    Ok(match word {
        "text" => Type::Text,
        "bool" => Type::Bool,
        "any" => Type::Any,
        "integer" => Type::Integer,
        "count" => Type::Count,
        "ns" => Type::Ns,
        "number" => Type::Number,
        name => Type::Object(name.to_owned()),
    })
}

/// Makes sure that every object that is named is there, once.
fn check(all: &Definitions) -> Result<(), ParseError> {
    let known = |name: &str, line: String| {
        let count = all.objects.iter().filter(|of| of.name == name).count();
        let what = match count {
            1 => return Ok(()),
            0 => "an object that is not there",
            _ => "an object that is there twice",
        };
        Err(ParseError { line, what })
    };
    for answer in &all.answers {
        for name in &answer.objects {
            known(name, format!("@{} {name}", answer.command))?;
        }
    }
    for object in &all.objects {
        known(&object.name, object.name.clone())?;
        for entry in &object.entries {
            match entry {
                ObjectEntry::Include(name) => known(name, format!("{} + {name}", object.name))?,
                ObjectEntry::Member(member) => {
                    if let Some(name) = member.of.object() {
                        known(name, format!("{}.{}", object.name, member.name))?;
                    }
                }
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definition_is_well_formed() {
        let all = crate::definitions().unwrap();
        assert!(all.objects.len() > 60, "{}", all.objects.len());
        assert!(all.answer("stat").is_some() && all.answer("serve").is_none());
    }

    #[test]
    fn what_is_no_definition_is_refused_by_its_line() {
        for (text, what) in [
            ("a text : x", "of no object"),
            ("[o] x\na text", "no description"),
            ("[o] x\na [text : x", "no end of the list"),
            ("[o] x\na other : x", "an object that is not there"),
            ("[o] x\n+ other", "an object that is not there"),
            ("[o] x\n[o] x", "an object that is there twice"),
            ("@c o", "an object that is not there"),
        ] {
            assert_eq!(parse(text).unwrap_err().what, what, "{text}");
        }
    }

    #[test]
    fn a_type_is_written_as_it_is_read() {
        for word in ["text", "[{ns?}]?", "one:a|b?", "[[text]]"] {
            let text = format!("[o] x\na {word} : x");
            let all = parse(&text).unwrap();
            assert_eq!(crate::members(&all), [format!("o.a {word}")]);
        }
    }
}
