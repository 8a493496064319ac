//! Growth of costs with the number of events, threads, processes, streams and CPUs.

use super::contest::Run;
use super::programs::{Printed, command};
use super::results::Curve;
use super::spread::{Spread, exponent};
use super::tools::as_float;
use super::workbench::Workbench;

/// Cost as something grows.
pub struct Series {
    /// Name on the command line and in the report.
    pub name: &'static str,
    question: &'static str,
    x: &'static str,
    y: &'static str,
    /// Exponent of linear growth: 1 for a total, 0 for a cost per event.
    linear: f64,
    sizes: fn() -> Vec<u64>,
    at: fn(&Workbench, u64) -> anyhow::Result<Run>,
}

/// All series.
pub const ALL: &[Series] = &[
    Series {
        name: "growth-events",
        question: "How long does it take to emit so many events?",
        x: "events",
        y: "ns in all",
        linear: 1.0,
        sizes: || (13..24).map(|power| 1 << power).collect(),
        at: |_, events| {
            let ns = posix(&[1, events, 1])?;
            Ok(Run::new(ns * as_float(events)))
        },
    },
    Series {
        name: "growth-threads",
        question: "What CPU time does an event cost when so many threads emit into one stream?",
        x: "threads",
        y: "ns of CPU time by event",
        linear: 0.0,
        sizes: || vec![1, 2, 4, 8, 16, 32, 64, 256, 1000, 4000, 10_000],
        at: |bench, threads| {
            let events = bench.work(16_000_000) / threads;
            posix(&[threads, events.min(1_000_000), 1]).map(Run::new)
        },
    },
    Series {
        name: "memory-unread",
        question: "What does a stream of 64 MiB take that so many living threads have filled?",
        x: "threads",
        y: "of the stream's size",
        linear: 1.0,
        sizes: || vec![1, 2, 8, 32, 128, 1000, 4000, 10_000],
        at: |_, threads| stream_memory(&[threads, 0]),
    },
    Series {
        name: "memory-read",
        question: "What does it take at most while it is read?",
        x: "threads",
        y: "of the stream's size",
        linear: 1.0,
        sizes: || vec![1, 2, 8, 32, 128, 1000, 4000, 10_000],
        at: |_, threads| stream_memory(&[threads, 1]),
    },
    Series {
        name: "growth-processes",
        question: "What CPU time does an event cost when so many processes emit into one stream?",
        x: "processes",
        y: "ns of CPU time by event",
        linear: 0.0,
        sizes: || vec![1, 2, 4, 8, 16, 32],
        at: |bench, processes| {
            let events = bench.work(2_000_000);
            Printed::by(&mut command("processes", &[processes, events]))?
                .get("ns_per_event")
                .map(Run::new)
        },
    },
    Series {
        name: "growth-streams",
        question: "What does an event cost that so many streams record?",
        x: "streams",
        y: "ns by event",
        linear: 1.0,
        sizes: || (1..=8).collect(),
        at: |bench, streams| {
            let events = bench.work(4_000_000);
            posix(&[1, events, streams]).map(Run::new)
        },
    },
    Series {
        name: "growth-cpus",
        question: "What does an event cost its thread when one thread on each of so many CPUs \
                   emits?",
        x: "CPUs",
        y: "ns by event",
        linear: 0.0,
        sizes: || (1..=cpus()).collect(),
        at: |bench, threads| {
            let events = bench.work(8_000_000);
            posix(&[threads, events, 1]).map(Run::new)
        },
    },
];

impl Series {
    /// Measures at all sizes, in turn, as often as contests are run.
    pub fn measure(&self, bench: &Workbench) -> anyhow::Result<Curve> {
        let sizes = (self.sizes)();
        let mut values = vec![Vec::new(); sizes.len()];
        for _ in 0..bench.rounds {
            for (size, values) in sizes.iter().zip(&mut values) {
                values.push((self.at)(bench, *size)?.value);
            }
        }
        let middle = |values: Vec<f64>| Spread::compute(values).map(|spread| spread.median);
        let points: Vec<(f64, f64)> = sizes
            .iter()
            .zip(values)
            .filter_map(|(size, values)| Some((as_float(*size), middle(values)?)))
            .collect();
        Ok(Curve {
            name: self.name.to_owned(),
            question: self.question.to_owned(),
            x: self.x.to_owned(),
            y: self.y.to_owned(),
            exponent: exponent(&points),
            points,
            linear: self.linear,
        })
    }
}

fn stream_memory(arguments: &[u64]) -> anyhow::Result<Run> {
    Printed::by(&mut command("stream_memory", arguments))?
        .get("of_size")
        .map(Run::new)
}

fn posix(arguments: &[u64]) -> anyhow::Result<f64> {
    Printed::by(&mut command("emit_posix", arguments))?.get("ns_per_event")
}

fn cpus() -> u64 {
    std::thread::available_parallelism().map_or(1, |cpus| u64::try_from(cpus.get()).unwrap_or(1))
}
