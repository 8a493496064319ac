//! A log's file in a program that may close its descriptor.

use std::fs::File;
use std::io;

use tracer_log::LogBytes;

use tracer_area::descriptor::Guarded;

/// A log's file. What the program opens under the same descriptor is never read.
#[derive(Debug)]
pub(super) struct LogFile(Guarded<File>);

impl LogFile {
    pub fn new(file: File) -> io::Result<Self> {
        Guarded::new(file).map(Self)
    }
}

impl LogBytes for LogFile {
    fn length(&self) -> io::Result<u64> {
        self.0.get()?.length()
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        LogBytes::read_at(self.0.get()?, buffer, offset)
    }
}
