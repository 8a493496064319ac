//! Columns of tables.

/// Type of the values of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnType {
    /// Date in UTC: nanoseconds since 1970.
    Time,
    /// Integer of 64 bits without a sign.
    U64,
    /// Integer of 64 bits.
    I64,
    /// Integer of 32 bits without a sign.
    U32,
    /// Integer of 32 bits.
    I32,
    /// Truth value.
    Bool,
    /// Text of which many rows have the same: a dictionary.
    Name,
    /// Text.
    Text,
    /// Text that is a value in JSON.
    Json,
    /// Any bytes.
    Bytes,
}

impl ColumnType {
    /// Returns the word for it in the documentation, which is its type in SQL.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Time => "TIMESTAMPTZ (ns)",
            Self::U64 => "UBIGINT",
            Self::I64 => "BIGINT",
            Self::U32 => "UINTEGER",
            Self::I32 => "INTEGER",
            Self::Bool => "BOOLEAN",
            Self::Name | Self::Text => "VARCHAR",
            Self::Json => "VARCHAR (JSON)",
            Self::Bytes => "BLOB",
        }
    }
}

/// Column of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    /// Its name.
    pub name: &'static str,
    /// Type of its values.
    pub of: ColumnType,
    /// Whether a row may have no value there: what is not known is null.
    pub is_nullable: bool,
    /// Unit of its values; empty without one.
    pub unit: &'static str,
    /// Meaning of its values, for people.
    pub about: &'static str,
}

impl Column {
    /// Returns a column of which each row has a value.
    pub(crate) const fn new(name: &'static str, of: ColumnType, about: &'static str) -> Self {
        Self {
            name,
            of,
            is_nullable: false,
            unit: "",
            about,
        }
    }

    /// Returns a column of which rows may have no value.
    pub(crate) const fn optional(name: &'static str, of: ColumnType, about: &'static str) -> Self {
        Self {
            is_nullable: true,
            ..Self::new(name, of, about)
        }
    }

    /// Returns a column of nanoseconds.
    pub(crate) const fn ns(name: &'static str, about: &'static str) -> Self {
        Self {
            unit: "ns",
            ..Self::new(name, ColumnType::U64, about)
        }
    }

    /// Returns a column of nanoseconds of which rows may have no value.
    pub(crate) const fn optional_ns(name: &'static str, about: &'static str) -> Self {
        Self {
            is_nullable: true,
            ..Self::ns(name, about)
        }
    }
}
