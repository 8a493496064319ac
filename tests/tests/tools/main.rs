//! The command line: logs, messages, completion, help.

mod answers_in_json;
mod bad_input;
mod budgets;
mod completions;
mod doctor;
mod files_made;
mod logs;
mod manual;
mod mcp;
mod remedies;
mod schemas;
mod snapshots;
mod unprivileged;
