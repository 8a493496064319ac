//! Exports, read by the formats' own readers.

mod exports;
mod perfetto_engine;
mod vocabulary;
