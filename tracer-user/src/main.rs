//! `tracer-user`: the command line.

use std::process::ExitCode;

fn main() -> ExitCode {
    tracer_user::cli::main()
}
