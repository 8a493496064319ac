//! Rows, column by column.

use std::io::Write;

use bytes::Bytes;
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::writer::SerializedRowGroupWriter;
use tracer_engine::event::Truncation;

use tracer_event::event_view::EventView;
use tracer_output::report::push_data;
use tracer_text::escape::push_for_people;

/// Rows of a group that is being filled. Each member is a column, in the schema's order.
#[derive(Debug, Default)]
pub struct RowGroup {
    time: Vec<i64>,
    ns: Vec<i64>,
    event_type: Texts,
    class: Texts,
    pid: Vec<i32>,
    tid: Vec<i32>,
    comm: Texts,
    /// Known CPUs only.
    cpu: Vec<i32>,
    /// Whether the CPU is known, for each row.
    has_cpu: Vec<i16>,
    address: Vec<i64>,
    thread_id: Vec<i64>,
    truncated: Vec<bool>,
    data: Texts,
    raw: Texts,
    /// Known durations only.
    duration: Vec<i64>,
    /// Whether the duration is known, for each row.
    has_duration: Vec<i16>,
}

/// Values of a column of text or bytes, one after the other.
#[derive(Debug, Default)]
struct Texts {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Texts {
    /// Adds the value that `write` appends.
    fn push(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        write(&mut self.bytes);
        self.ends.push(self.bytes.len());
    }

    /// Takes all values.
    fn take(&mut self) -> Vec<ByteArray> {
        let bytes = Bytes::from(std::mem::take(&mut self.bytes));
        let mut start = 0;
        let mut value = |end| ByteArray::from(bytes.slice(std::mem::replace(&mut start, end)..end));
        self.ends.drain(..).map(&mut value).collect()
    }
}

impl RowGroup {
    /// Adds the row of an event; `took` is the duration of the call that it ends.
    pub fn push(&mut self, entry: &EventView<'_>, took: Option<u64>) {
        let header = &entry.event.header;
        self.time.push(entry.date.0.cast_signed());
        self.ns.push(header.time.0.cast_signed());
        self.event_type.push(|out| push_for_people(out, entry.name));
        let class: &[u8] = if header.event_type.is_user() {
            b"user"
        } else {
            b"system"
        };
        self.class.push(|out| out.extend_from_slice(class));
        self.pid.push(header.pid);
        self.tid.push(header.tid);
        self.comm
            .push(|out| push_for_people(out, entry.comm.unwrap_or_default()));
        self.cpu.extend(header.cpu.map(u32::cast_signed));
        self.has_cpu.push(i16::from(header.cpu.is_some()));
        self.address.push(header.program_address.cast_signed());
        self.thread_id.push(header.thread_id.cast_signed());
        self.truncated.push(header.truncation != Truncation::None);
        self.data.push(|out| push_data(out, entry));
        self.raw.push(|out| out.extend_from_slice(entry.event.data));
        self.duration.extend(took.map(u64::cast_signed));
        self.has_duration.push(i16::from(took.is_some()));
    }

    /// Returns the number of rows so far.
    pub fn count(&self) -> usize {
        self.time.len()
    }

    /// Returns the number of bytes of text and data so far.
    pub fn bytes(&self) -> usize {
        let columns = [
            &self.event_type,
            &self.class,
            &self.comm,
            &self.data,
            &self.raw,
        ];
        columns.iter().map(|column| column.bytes.len()).sum()
    }

    /// Writes all rows as a group, and is empty then.
    ///
    /// # Errors
    ///
    /// They cannot be written.
    pub fn write<W: Write + Send>(
        &mut self,
        group: &mut SerializedRowGroupWriter<'_, W>,
    ) -> Result<(), ParquetError> {
        write::<Int64Type, W>(group, &self.time, None)?;
        write::<Int64Type, W>(group, &self.ns, None)?;
        write::<ByteArrayType, W>(group, &self.event_type.take(), None)?;
        write::<ByteArrayType, W>(group, &self.class.take(), None)?;
        write::<Int32Type, W>(group, &self.pid, None)?;
        write::<Int32Type, W>(group, &self.tid, None)?;
        write::<ByteArrayType, W>(group, &self.comm.take(), None)?;
        write::<Int32Type, W>(group, &self.cpu, Some(&self.has_cpu))?;
        write::<Int64Type, W>(group, &self.address, None)?;
        write::<Int64Type, W>(group, &self.thread_id, None)?;
        write::<BoolType, W>(group, &self.truncated, None)?;
        write::<ByteArrayType, W>(group, &self.data.take(), None)?;
        write::<ByteArrayType, W>(group, &self.raw.take(), None)?;
        write::<Int64Type, W>(group, &self.duration, Some(&self.has_duration))?;
        self.clear();
        Ok(())
    }

    fn clear(&mut self) {
        for column in [
            &mut self.time,
            &mut self.ns,
            &mut self.address,
            &mut self.thread_id,
            &mut self.duration,
        ] {
            column.clear();
        }
        for column in [&mut self.pid, &mut self.tid, &mut self.cpu] {
            column.clear();
        }
        self.has_cpu.clear();
        self.has_duration.clear();
        self.truncated.clear();
    }
}

/// Writes the next column.
fn write<T: DataType, W: Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    values: &[T::T],
    levels: Option<&[i16]>,
) -> Result<(), ParquetError> {
    let column = group.next_column()?;
    let mut column =
        column.ok_or_else(|| ParquetError::General("more columns than the schema has".into()))?;
    column.typed::<T>().write_batch(values, levels, None)?;
    column.close()
}
