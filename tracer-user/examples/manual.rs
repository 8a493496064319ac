//! Writes the manual pages of the command line, made from its definition, to a folder.

use std::path::PathBuf;
use std::process::ExitCode;

fn main() -> ExitCode {
    let Some(folder) = std::env::args_os().nth(1).map(PathBuf::from) else {
        eprintln!("usage: manual FOLDER");
        return ExitCode::from(2);
    };
    match clap_mangen::generate_to(tracer_user::cli::definition(), &folder) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("cannot write to {}: {error}", folder.display());
            ExitCode::from(2)
        }
    }
}
