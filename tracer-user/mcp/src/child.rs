//! Commands that run, each as a process of its own.

use std::ffi::OsString;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::process::Command;

use crate::refusal::Refusal;

/// Most bytes of an answer, before it is cut.
const MOST_ANSWER: u64 = 64 << 20;

/// Most bytes of what a command says beside it.
const MOST_NOTES: u64 = 64 << 10;

/// Longest time for an answer.
const LONGEST: Duration = Duration::from_secs(300);

/// Output of a command that has ended.
#[derive(Clone, Debug)]
pub struct CommandOutput {
    /// Standard output.
    pub answer: String,
    /// Standard error: lines for people.
    pub notes: String,
    /// Exit code: 0, 1 where something is missing, 2 where it failed; `None` where a signal ended
    /// it.
    pub code: Option<i32>,
}

/// Runs the program with these words until it ends. Where this is given up, it is killed. Where the
/// standard output is that of a command that is traced, it is no answer, and nothing is kept of it.
///
/// # Errors
///
/// It cannot be run, takes too long, or writes too much.
pub async fn run(
    program: &Path,
    words: &[OsString],
    has_answer: bool,
) -> Result<CommandOutput, Refusal> {
    let failed = |error: std::io::Error| {
        Refusal::new(
            format!("{} cannot be run: {error}", program.display()),
            "start the server anew",
        )
    };
    let mut child = Command::new(program)
        .args(words)
        .stdin(Stdio::null())
        .stdout(if has_answer {
            Stdio::piped()
        } else {
            Stdio::null()
        })
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(failed)?;
    let (answer, notes) = (child.stdout.take(), child.stderr.take());
    let all = async {
        let read = async { tokio::join!(read(answer, MOST_ANSWER), read(notes, MOST_NOTES)) };
        let (answer, notes) = read.await;
        (answer, notes, child.wait().await)
    };
    let (answer, notes, status) = tokio::time::timeout(LONGEST, all)
        .await
        .map_err(|_elapsed| {
            Refusal::new(
                format!("there is no answer within {} s", LONGEST.as_secs()),
                "ask for less: a part of the time, some processes",
            )
        })?;
    let (answer, notes) = (answer.map_err(failed)?, notes.map_err(failed)?);
    if answer.len() as u64 > MOST_ANSWER {
        return Err(Refusal::new(
            format!("the answer is longer than {MOST_ANSWER} bytes"),
            "ask for less: a part of the time, some processes",
        ));
    }
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Ok(CommandOutput {
        answer: text(answer),
        notes: text(notes),
        code: status.map_err(failed)?.code(),
    })
}

/// Reads a bit more than `most` bytes at most; the rest is read too, and forgotten, so that no
/// command waits for its reader.
async fn read(from: Option<impl AsyncRead + Unpin>, most: u64) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if let Some(mut from) = from {
        (&mut from).take(most + 1).read_to_end(&mut bytes).await?;
        tokio::io::copy(&mut from, &mut tokio::io::sink()).await?;
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> CommandOutput {
        let words = ["-c".into(), script.into()];
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        runtime
            .unwrap()
            .block_on(run(Path::new("/bin/sh"), &words, true))
            .unwrap()
    }

    #[test]
    fn both_outputs_and_the_code_are_there() {
        let written = shell("echo answer; echo note >&2; exit 1");
        assert_eq!(written.answer, "answer\n");
        assert_eq!((&*written.notes, written.code), ("note\n", Some(1)));
    }

    #[test]
    fn notes_without_end_hold_no_command_up() {
        let written = shell("head -c 1000000 /dev/zero >&2; echo done");
        assert_eq!(written.answer, "done\n");
        assert_eq!(written.notes.len() as u64, MOST_NOTES + 1);
    }

    #[test]
    fn a_program_that_is_not_there_is_refused() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        let ran = runtime
            .unwrap()
            .block_on(run(Path::new("/nowhere/at/all"), &[], true));
        assert!(ran.unwrap_err().error.contains("/nowhere/at/all"));
    }
}
