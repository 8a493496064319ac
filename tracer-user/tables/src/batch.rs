//! Rows, column by column.

use super::columns::{Column, ColumnType};
use super::definition::TableDefinition;
use super::held_data::HeldData;
use super::maker::RowOrigin;
use super::names::{NameDictionary, TextValues};

/// Values of a column.
#[derive(Debug)]
pub enum ColumnValues {
    /// None: the column was not chosen.
    Nothing,
    /// Integers without a sign.
    U64(Vec<u64>),
    /// Integers, and dates.
    I64(Vec<i64>),
    /// Short integers without a sign.
    U32(Vec<u32>),
    /// Short integers.
    I32(Vec<i32>),
    /// Truth values.
    Bool(Vec<bool>),
    /// Numbers of names.
    Name(Vec<i32>, NameDictionary),
    /// Text, or any bytes.
    TextValues(TextValues),
}

/// A column of a batch that is taken.
#[derive(Debug)]
pub struct BatchColumn {
    /// The column.
    pub column: &'static Column,
    /// Its values; where there is none, any value.
    pub values: ColumnValues,
    /// Whether each row has a value; empty where all have.
    pub valid: Vec<bool>,
    /// Whether no row has a value.
    pub is_absent: bool,
}

/// Rows of a table. Values are pushed in the order of the columns, row by row.
#[derive(Debug)]
pub struct RowBatch {
    columns: Vec<BatchColumn>,
    own_columns: usize,
    rows: usize,
    next: usize,
    /// Bytes of text and data.
    bytes: usize,
    origin: RowOrigin,
    /// Data of events that is still to be rendered.
    data: Option<HeldData>,
}

impl RowBatch {
    /// Begins a batch of those columns of a table that are chosen, or of all.
    #[must_use]
    pub fn new(
        table: &'static TableDefinition,
        chosen: Option<&[String]>,
        origin: RowOrigin,
    ) -> Self {
        let is_chosen = |column: &Column| {
            chosen.is_none_or(|chosen| chosen.iter().any(|name| name == column.name))
        };
        let columns = table.columns().map(|column| BatchColumn {
            column,
            values: if is_chosen(column) {
                ColumnValues::new(column.of, 0)
            } else {
                ColumnValues::Nothing
            },
            valid: Vec::new(),
            is_absent: false,
        });
        Self {
            columns: columns.collect(),
            own_columns: table.own_columns(),
            rows: 0,
            next: 0,
            bytes: 0,
            origin,
            data: None,
        }
    }

    /// Takes the rows so far, and begins the next batch with the same columns.
    pub fn take(&mut self) -> Self {
        self.fill_origin();
        let rows = self.rows;
        for column in self.columns.iter_mut().take(self.own_columns) {
            if column.column.is_nullable {
                column.complete(rows);
            }
        }
        let columns = self.columns.iter_mut().map(|column| {
            let capacity = column.values.count();
            let values = match &mut column.values {
                ColumnValues::Nothing => ColumnValues::Nothing,
                ColumnValues::Name(_, names) => {
                    ColumnValues::Name(Vec::with_capacity(capacity), names.next())
                }
                ColumnValues::TextValues(texts) => {
                    ColumnValues::TextValues(TextValues::as_large_as(texts))
                }
                _ => ColumnValues::new(column.column.of, capacity),
            };
            BatchColumn {
                column: column.column,
                values,
                valid: Vec::new(),
                is_absent: false,
            }
        });
        let next = Self {
            columns: columns.collect(),
            own_columns: self.own_columns,
            rows: 0,
            next: 0,
            bytes: 0,
            origin: self.origin.clone(),
            data: None,
        };
        std::mem::replace(self, next)
    }

    /// Returns the number of rows.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Tells whether it is as large as a batch gets, with this number of rows and of bytes at most.
    #[must_use]
    pub fn is_full(&self, most_rows: usize, most_bytes: usize) -> bool {
        self.rows >= most_rows || self.bytes >= most_bytes
    }

    /// Returns the columns that were chosen, as they are held.
    pub(crate) fn columns(&self) -> impl Iterator<Item = &BatchColumn> {
        let columns = self.columns.iter();
        columns.filter(|column| !matches!(column.values, ColumnValues::Nothing))
    }

    /// Returns the columns that were chosen, to be taken.
    pub fn into_columns(self) -> impl Iterator<Item = BatchColumn> {
        let rows = self.rows;
        self.into_packed_columns().map(move |mut column| {
            column.unpack(rows);
            column
        })
    }

    /// Returns the columns that were chosen, to be taken, as they are held: a column without values
    /// has the same in each row, which is 0, false, a text without bytes or the first name.
    pub fn into_packed_columns(self) -> impl Iterator<Item = BatchColumn> {
        let columns = self.columns.into_iter();
        columns.filter(|column| !matches!(column.values, ColumnValues::Nothing))
    }

    /// Tells whether a column was chosen.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.columns().any(|column| column.column.name == name)
    }

    /// Pushes an integer without a sign.
    pub(crate) fn u64(&mut self, value: impl Into<Option<u64>>) {
        let value = value.into();
        self.put(value.is_some(), |values| {
            if let ColumnValues::U64(values) = values {
                values.push(value.unwrap_or_default());
                return true;
            }
            false
        });
    }

    /// Pushes an integer, or a date.
    pub(crate) fn i64(&mut self, value: impl Into<Option<i64>>) {
        let value = value.into();
        self.put(value.is_some(), |values| {
            if let ColumnValues::I64(values) = values {
                values.push(value.unwrap_or_default());
                return true;
            }
            false
        });
    }

    /// Pushes a short integer without a sign.
    pub(crate) fn u32(&mut self, value: impl Into<Option<u32>>) {
        let value = value.into();
        self.put(value.is_some(), |values| {
            if let ColumnValues::U32(values) = values {
                values.push(value.unwrap_or_default());
                return true;
            }
            false
        });
    }

    /// Pushes a short integer.
    pub(crate) fn i32(&mut self, value: impl Into<Option<i32>>) {
        let value = value.into();
        self.put(value.is_some(), |values| {
            if let ColumnValues::I32(values) = values {
                values.push(value.unwrap_or_default());
                return true;
            }
            false
        });
    }

    /// Pushes a truth value.
    pub(crate) fn bool(&mut self, value: impl Into<Option<bool>>) {
        let value = value.into();
        self.put(value.is_some(), |values| {
            if let ColumnValues::Bool(values) = values {
                values.push(value.unwrap_or_default());
                return true;
            }
            false
        });
    }

    /// Pushes a name: any bytes.
    pub(crate) fn name<'a>(&mut self, value: impl Into<Option<&'a [u8]>>) {
        let value = value.into();
        self.put(value.is_some(), |values| {
            if let ColumnValues::Name(values, names) = values {
                values.push(names.number(value.unwrap_or_default()));
                return true;
            }
            false
        });
    }

    /// Pushes the text that `write` appends; none where it returns false.
    pub(crate) fn text(&mut self, write: impl FnOnce(&mut Vec<u8>) -> bool) {
        let mut has_value = false;
        let mut bytes = 0..0;
        if let Some(BatchColumn {
            values: ColumnValues::TextValues(texts),
            ..
        }) = self.columns.get_mut(self.next)
        {
            bytes = texts.bytes.len()..texts.bytes.len();
            has_value = write(&mut texts.bytes);
            if !has_value {
                texts.bytes.truncate(bytes.start);
            }
            bytes.end = texts.bytes.len();
        }
        self.bytes += bytes.len();
        self.put(has_value, |values| {
            if let ColumnValues::TextValues(texts) = values {
                texts.end_value(bytes.start);
                return true;
            }
            false
        });
    }

    /// Pushes values of `count` columns that are not known.
    pub(crate) fn nulls(&mut self, count: usize) {
        for _ in 0..count {
            self.put(false, |_| false);
        }
    }

    /// Adds the value that `push` pushes to the next column. Where that is of another type, the row
    /// has none there.
    fn put(&mut self, has_value: bool, push: impl FnOnce(&mut ColumnValues) -> bool) {
        let rows = self.rows;
        let Some(column) = self.columns.get_mut(self.next) else {
            debug_assert!(false, "more values than columns");
            return;
        };
        self.next += 1;
        let is_nullable = column.column.is_nullable;
        if matches!(column.values, ColumnValues::Nothing) || (is_nullable && !has_value) {
            return;
        }
        if is_nullable {
            column.pad(rows);
        }
        let mut has_value = has_value;
        if !push(&mut column.values) {
            debug_assert!(!has_value, "{} is of another type", column.column.name);
            has_value = false;
            column.values.push_any();
        }
        if !column.valid.is_empty() {
            column.valid.push(has_value);
        }
    }

    /// Returns the index of a column, which may not have been chosen.
    pub(crate) fn index(&self, name: &str) -> usize {
        let mut columns = self.columns.iter();
        let index = columns.position(|one| one.column.name == name);
        debug_assert!(index.is_some(), "there is no column {name}");
        index.unwrap_or(usize::MAX)
    }

    /// Makes a column the next one.
    pub(crate) fn go_to(&mut self, index: usize) {
        self.next = index;
    }

    /// Sets all values of a column, where it was chosen; `valid` says which rows have one, or is
    /// empty where all have. Without values each row has 0, or none if the column is nullable.
    pub(crate) fn set(&mut self, name: &str, values: ColumnValues, valid: Vec<bool>) {
        let index = self.index(name);
        if let Some(column) = self.columns.get_mut(index)
            && !matches!(column.values, ColumnValues::Nothing)
        {
            column.is_absent = column.column.is_nullable && values.count() == 0;
            column.values = values;
            column.valid = valid;
        }
    }

    /// Sets the data of its events, from which [`render`](Self::render) makes columns.
    pub(crate) fn set_data(&mut self, data: HeldData) {
        self.data = Some(data);
    }

    /// Renders the data of up to `most` more events; false once there are none.
    pub fn render(&mut self, most: usize) -> bool {
        let Some(data) = &mut self.data else {
            return false;
        };
        if data.render(most) {
            return true;
        }
        if let Some(data) = self.data.take() {
            let (texts, raw) = data.into_columns();
            self.set("data", ColumnValues::TextValues(texts), Vec::new());
            self.set("raw", ColumnValues::TextValues(raw), Vec::new());
        }
        false
    }

    /// Ends a row whose values are set later; so many bytes of text and data belong to it.
    pub(crate) fn end_row_of(&mut self, bytes: usize) {
        self.bytes += bytes;
        self.rows += 1;
        self.next = 0;
    }

    /// Ends a row.
    pub(crate) fn end_row(&mut self) {
        debug_assert_eq!(self.next, self.own_columns, "a value for each column");
        while self.next < self.own_columns {
            self.nulls(1);
        }
        self.rows += 1;
        self.next = 0;
    }

    /// Fills the columns of the origin, which are the last ones.
    fn fill_origin(&mut self) {
        let origin = self.origin.clone();
        let texts = [origin.host, origin.boot_id, Some(origin.trace_id)];
        let rows = self.rows;
        for (column, text) in self.columns.iter_mut().skip(self.own_columns).zip(texts) {
            if let ColumnValues::Name(values, names) = &mut column.values {
                let number = names.number(text.as_deref().unwrap_or_default().as_bytes());
                // The first name needs no numbers.
                *values = vec![number; if number == 0 { 0 } else { rows }];
                column.is_absent = text.is_none();
            }
        }
    }
}

impl BatchColumn {
    /// Adds what rows have for which nothing was pushed; `rows` are there in all.
    fn complete(&mut self, rows: usize) {
        self.is_absent |= self.values.count() == 0;
        if !self.is_absent {
            self.pad(rows);
        } else if let ColumnValues::Name(_, names) = &mut self.values {
            names.number(b"");
        }
    }

    /// Adds the values that all rows have.
    fn unpack(&mut self, rows: usize) {
        if self.values.count() == 0 {
            match &mut self.values {
                ColumnValues::Name(values, _) => values.resize(rows, 0),
                values => values.resize(rows),
            }
        }
        if self.is_absent {
            self.valid = vec![false; rows];
        }
    }

    /// Adds rows without a value until there are so many: until a column has a value, nothing is
    /// pushed.
    fn pad(&mut self, rows: usize) {
        let count = self.values.count();
        if count < rows && !matches!(self.values, ColumnValues::Nothing) {
            if self.valid.is_empty() {
                self.valid.resize(count, true);
            }
            self.values.resize(rows);
            self.valid.resize(rows, false);
        }
    }
}

impl ColumnValues {
    fn count(&self) -> usize {
        match self {
            Self::Nothing => 0,
            Self::U64(values) => values.len(),
            Self::I64(values) => values.len(),
            Self::U32(values) => values.len(),
            Self::I32(values) => values.len(),
            Self::Bool(values) => values.len(),
            Self::Name(values, _) => values.len(),
            Self::TextValues(texts) => texts.count(),
        }
    }

    /// Adds any values, for rows that have none.
    fn resize(&mut self, rows: usize) {
        match self {
            Self::Nothing => {}
            Self::U64(values) => values.resize(rows, 0),
            Self::I64(values) => values.resize(rows, 0),
            Self::U32(values) => values.resize(rows, 0),
            Self::I32(values) => values.resize(rows, 0),
            Self::Bool(values) => values.resize(rows, false),
            Self::Name(values, names) => {
                let none = names.number(b"");
                values.resize(rows, none);
            }
            Self::TextValues(texts) => texts.resize(rows),
        }
    }

    fn new(of: ColumnType, capacity: usize) -> Self {
        match of {
            ColumnType::U64 => Self::U64(Vec::with_capacity(capacity)),
            ColumnType::I64 | ColumnType::Time => Self::I64(Vec::with_capacity(capacity)),
            ColumnType::U32 => Self::U32(Vec::with_capacity(capacity)),
            ColumnType::I32 => Self::I32(Vec::with_capacity(capacity)),
            ColumnType::Bool => Self::Bool(Vec::with_capacity(capacity)),
            ColumnType::Name => Self::Name(Vec::with_capacity(capacity), NameDictionary::default()),
            ColumnType::Text | ColumnType::Json | ColumnType::Bytes => {
                Self::TextValues(TextValues::default())
            }
        }
    }

    /// Pushes any value, for a row that has none.
    fn push_any(&mut self) {
        match self {
            Self::Nothing => {}
            Self::U64(values) => values.push(0),
            Self::I64(values) => values.push(0),
            Self::U32(values) => values.push(0),
            Self::I32(values) => values.push(0),
            Self::Bool(values) => values.push(false),
            Self::Name(values, names) => {
                let none = names.number(b"");
                values.push(none);
            }
            Self::TextValues(texts) => texts.push(|_| {}),
        }
    }
}
