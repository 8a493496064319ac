//! Exports, read by the formats' own readers.

mod exports;
mod live_exports;
mod perfetto_engine;
mod python_package;
mod vocabulary;
