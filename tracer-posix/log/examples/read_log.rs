//! Prints the events of a trace log, one a line, and what is missing.
//!
//! ```text
//! cargo run --release -p tracer-log --example read_log -- FILE
//! ```

use std::error::Error;
use std::fs::File;
use std::io::{self, BufWriter, Write};

use tracer_engine::source::LossCause;
use tracer_log::LogReader;

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).ok_or("usage: read_log FILE")?;
    let mut reader = LogReader::open(File::open(&path)?)?;
    let mut out = BufWriter::new(io::stdout().lock());
    let mut events = 0_u64;

    while let Some(record) = reader.next_record()? {
        events += 1;
        let header = record.event.header;
        match record.name_bytes() {
            Some(name) => out.write_all(name)?,
            None => write!(out, "#{}", header.event_type.0)?,
        }
        writeln!(
            out,
            " at {} ns, process {}, thread {}: {} bytes",
            record.realtime.0,
            header.pid,
            header.tid,
            record.event.data.len()
        )?;
    }
    out.flush()?;

    eprintln!("{events} events");
    for cause in LossCause::ALL {
        match reader.lost(cause) {
            0 => {}
            lost => eprintln!(
                "{lost} events lost before they came into the log: {}",
                cause.name()
            ),
        }
    }
    match reader.lost_in_log() {
        0 => {}
        lost => eprintln!("{lost} events overwritten or discarded by the log"),
    }
    let damage = reader.damage();
    if damage.sites > 0 {
        eprintln!(
            "{} damaged sites, {} packets missing",
            damage.sites, damage.packets_missing
        );
    }
    if reader.final_status().is_none() {
        eprintln!("the log was not completed: it is being written, or its writer died");
    }
    Ok(())
}
