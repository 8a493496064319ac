//! Definition of objects: what each has, of which type, and what that is.

use std::fmt;

/// All objects, and the commands that write them.
#[derive(Clone, Debug, Default)]
pub struct Definitions {
    /// Commands, in the order of the pages.
    pub answers: Vec<CommandAnswer>,
    /// Objects, likewise.
    pub objects: Vec<Object>,
}

/// Command, and the objects that it writes.
#[derive(Clone, Debug)]
pub struct CommandAnswer {
    /// The command.
    pub command: String,
    /// Objects: one of them, or each on a line of its own.
    pub objects: Vec<String>,
}

/// Object.
#[derive(Clone, Debug)]
pub struct Object {
    /// Name, by which others refer to it.
    pub name: String,
    /// Description.
    pub about: String,
    /// Members, in the order of the pages.
    pub entries: Vec<ObjectEntry>,
}

/// Entry of an object.
#[derive(Clone, Debug)]
pub enum ObjectEntry {
    /// A member.
    Member(JsonMember),
    /// All members of the object of this name.
    Include(String),
}

/// Member of an object.
#[derive(Clone, Debug)]
pub struct JsonMember {
    /// Name.
    pub name: String,
    /// Whether it is always there.
    pub is_always: bool,
    /// Type.
    pub of: Type,
    /// Description.
    pub about: String,
}

/// Type of a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Type {
    /// Text.
    Text,
    /// A truth.
    Bool,
    /// Anything.
    Any,
    /// A whole number.
    Integer,
    /// A whole number from 0 on.
    Count,
    /// A count of nanoseconds.
    Ns,
    /// A number.
    Number,
    /// One of these words.
    OneOf(Vec<String>),
    /// The object of this name.
    Object(String),
    /// A list.
    List(Box<Type>),
    /// An object with any names.
    Map(Box<Type>),
    /// This, or `null`.
    OrNull(Box<Type>),
}

impl Definitions {
    /// Returns the object of this name.
    #[must_use]
    pub fn object(&self, name: &str) -> Option<&Object> {
        self.objects.iter().find(|object| object.name == name)
    }

    /// Returns what a command writes.
    #[must_use]
    pub fn answer(&self, command: &str) -> Option<&CommandAnswer> {
        self.answers.iter().find(|answer| answer.command == command)
    }

    /// Returns the members of an object, those of included ones among them.
    #[must_use]
    pub fn members_of<'a>(&'a self, object: &'a Object) -> Vec<&'a JsonMember> {
        let mut members = Vec::new();
        for entry in &object.entries {
            match entry {
                ObjectEntry::Member(member) => members.push(member),
                ObjectEntry::Include(name) => {
                    let included = self.object(name).filter(|other| other.name != object.name);
                    members.extend(included.into_iter().flat_map(|of| self.members_of(of)));
                }
            }
        }
        members
    }
}

impl Type {
    /// Returns the name of the object that it leads to, if any.
    #[must_use]
    pub fn object(&self) -> Option<&str> {
        match self {
            Self::Object(name) => Some(name),
            Self::List(of) | Self::Map(of) | Self::OrNull(of) => of.object(),
            _ => None,
        }
    }
}

impl fmt::Display for Type {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text => to.write_str("text"),
            Self::Bool => to.write_str("bool"),
            Self::Any => to.write_str("any"),
            Self::Integer => to.write_str("integer"),
            Self::Count => to.write_str("count"),
            Self::Ns => to.write_str("ns"),
            Self::Number => to.write_str("number"),
            Self::OneOf(words) => write!(to, "one:{}", words.join("|")),
            Self::Object(name) => to.write_str(name),
            Self::List(of) => write!(to, "[{of}]"),
            Self::Map(of) => write!(to, "{{{of}}}"),
            Self::OrNull(of) => write!(to, "{of}?"),
        }
    }
}
