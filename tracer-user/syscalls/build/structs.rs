//! Structs of the table: how much of them is read, and their members in 32-bit programs.

/// Definition of a struct: `NAME[GIVEN/FILLED~MEMBERS!ROLE]`.
#[derive(Debug)]
pub struct Definition<'a> {
    /// Its name.
    pub name: &'a str,
    given: &'a str,
    filled: &'a str,
    members: Option<&'a str>,
    role: Option<&'a str>,
}

impl<'a> Definition<'a> {
    /// Reads a definition.
    pub fn read(word: &'a str) -> Option<Self> {
        let (name, rest) = word.strip_suffix(']')?.split_once('[')?;
        let (rest, role) = optional(rest, '!');
        let (extents, members) = optional(rest, '~');
        let (given, filled) = optional(extents, '/');
        Some(Self {
            name,
            given,
            filled: filled.unwrap_or(given),
            members,
            role,
        })
    }

    /// Tells whether its members are others in 32-bit programs.
    pub fn is_narrow(&self) -> bool {
        self.members.is_some()
    }

    /// Returns the name of its static.
    pub fn constant(name: &str) -> String {
        format!("STRUCT_{}", name.to_uppercase())
    }

    /// Returns it as Rust.
    pub fn rust(&self) -> String {
        let name = self.name;
        let narrow = match self.members {
            None => "Narrow::Same".to_owned(),
            Some(members) => {
                let members: Vec<_> = members.split(',').map(member).collect();
                format!("Narrow::Layout(&[{}])", members.join(", "))
            }
        };
        format!(
            "static {}: Struct = Struct {{\n    name: \"{name}\",\n    given: {},\n    filled: {},\n    \
             narrow: {narrow},\n    role: Role::{},\n    push: calls::push_{name},\n}};\n",
            Self::constant(name),
            extent(self.given),
            extent(self.filled),
            camel(self.role.unwrap_or("plain")),
        )
    }
}

/// Splits an optional part off, which begins with `mark`.
fn optional(word: &str, mark: char) -> (&str, Option<&str>) {
    match word.split_once(mark) {
        Some((word, part)) => (word, Some(part)),
        None => (word, None),
    }
}

fn extent(word: &str) -> String {
    // The types of the C library have two colons themselves.
    let (kind, size) = match word.split_once(':') {
        Some((kind, size)) if !size.starts_with(':') => (kind, size),
        _ => ("fixed", word),
    };
    match (kind, size) {
        ("gathered", shape) => format!("Extent::Gathered(gathered::{shape})"),
        (_, "command") => "Extent::Command".to_owned(),
        ("fixed", size) => format!("Extent::Fixed({})", bytes(size)),
        ("each", size) => format!("Extent::Array({})", bytes(size)),
        ("returned", size) => format!("Extent::Returned({})", bytes(size)),
        ("counted", size) => format!("Extent::Counted({})", bytes(size)),
        _ => panic!("no size: {word}"),
    }
}

fn bytes(size: &str) -> String {
    if size.starts_with("libc::") {
        format!("size_of::<{size}>()")
    } else {
        let bytes: usize = size.parse().unwrap_or_else(|_| panic!("no size: {size}"));
        bytes.to_string()
    }
}

/// Returns a member as Rust, or several: `long`, `skip16`, `word*9`.
fn member(word: &str) -> String {
    let (kind, count) = match word.split_once('*') {
        Some((kind, count)) => (kind, count.parse().unwrap()),
        None => (word, 1),
    };
    let letters = kind.trim_end_matches(|byte: char| byte.is_ascii_digit());
    let digits = &kind[letters.len()..];
    let member = match digits {
        "" => format!("Member::{}", camel(letters)),
        digits => format!("Member::{}({digits})", camel(letters)),
    };
    vec![member; count].join(", ")
}

/// Returns a word as Rust names types.
pub fn camel(word: &str) -> String {
    let parts = word.split('_').map(|part| {
        let (first, rest) = part.split_at(1);
        first.to_uppercase() + rest
    });
    parts.collect()
}
