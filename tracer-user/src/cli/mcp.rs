//! `tracer-user mcp`: answers for programs that reason, by the Model Context Protocol.

use std::process::ExitCode;

use anyhow::Context as _;

use super::agent_help;
use tracer_mcp::{ServerSetup, serve};

/// Answer questions about logs for programs that reason: a server of the Model Context Protocol
///
/// It speaks the protocol at the standard input and output, and is started by its client. Its tools
/// are the commands: open (as info), explain, stat, why, compare, read, report. A log is named
/// once, and later calls are about the same one. Answers have at most so many bytes as the field
/// budget says, and count what is left out; fields that there are not are refused by name. Names
/// and texts of traced programs are escaped, and marked as data.
///
/// Nothing is recorded, and no process is looked at, but with --allow-record, and then by the
/// rights of the user who starts the server. `tracer-user help agent` says how to work with it.
#[derive(Debug, clap::Args)]
pub struct McpArgs {
    /// Offer the tools record (which traces a command, or processes, into a new log) and waits
    /// (what threads wait for at this moment)
    #[arg(long)]
    allow_record: bool,
}

/// Serves until the client leaves.
///
/// # Errors
///
/// The client does not speak the protocol.
pub fn run(args: &McpArgs) -> anyhow::Result<ExitCode> {
    let program = std::env::current_exe().context("the path of this program is not known")?;
    serve(ServerSetup {
        program,
        may_record: args.allow_record,
        instructions: agent_help::text().to_owned(),
    })?;
    Ok(ExitCode::SUCCESS)
}
