//! The C library as a program has it: what it costs, exports and survives.

mod crash;
mod disabled;
mod inline_check;
mod linking;
mod race_tools;
mod reader_looks;
mod streams;
mod symbols;
mod untraced;
