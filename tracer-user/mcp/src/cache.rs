//! Answers about logs, as long as these are the same files with the same contents.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::child::CommandOutput;

/// Answers that are remembered.
const MOST_ANSWERS: usize = 32;

/// Bytes that are remembered.
const MOST_BYTES: usize = 32 << 20;

/// Signs that a file is as it was: device, inode, size, time of its last change.
type Identity = (u64, u64, u64, i64, i64);

/// Question to a log: the words, and the files as they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogQuestion {
    words: Vec<OsString>,
    files: Vec<Identity>,
}

impl LogQuestion {
    /// Returns the question about these logs; `None` where one cannot be looked at.
    pub fn about(words: &[OsString], logs: &[PathBuf]) -> Option<Self> {
        let files = logs.iter().map(|log| identity(log));
        Some(Self {
            words: words.to_vec(),
            files: files.collect::<Option<_>>()?,
        })
    }
}

fn identity(log: &Path) -> Option<Identity> {
    let file = fs::metadata(log).ok()?;
    Some((
        file.dev(),
        file.ino(),
        file.size(),
        file.mtime(),
        file.mtime_nsec(),
    ))
}

/// Answers, the one that was asked for last at the end.
#[derive(Debug, Default)]
pub struct Cache {
    answers: Vec<(LogQuestion, Arc<CommandOutput>)>,
}

impl Cache {
    /// Returns the answer to a question that was asked before.
    pub fn get(&mut self, question: &LogQuestion) -> Option<Arc<CommandOutput>> {
        let at = self
            .answers
            .iter()
            .position(|(asked, _)| asked == question)?;
        let known = self.answers.remove(at);
        let answer = known.1.clone();
        self.answers.push(known);
        Some(answer)
    }

    /// Remembers an answer, and forgets those that were asked for longest ago where there are too
    /// many.
    pub fn put(&mut self, question: LogQuestion, answer: Arc<CommandOutput>) {
        self.answers.push((question, answer));
        let bytes = |answers: &[(LogQuestion, Arc<CommandOutput>)]| -> usize {
            answers
                .iter()
                .map(|(_, written)| written.answer.len())
                .sum()
        };
        while self.answers.len() > MOST_ANSWERS || bytes(&self.answers) > MOST_BYTES {
            self.answers.remove(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(bytes: usize) -> Arc<CommandOutput> {
        Arc::new(CommandOutput {
            answer: "x".repeat(bytes),
            notes: String::new(),
            code: Some(0),
        })
    }

    #[test]
    fn an_answer_is_remembered_as_long_as_the_log_is_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        fs::write(&log, "a").unwrap();
        let ask =
            |word: &str| LogQuestion::about(&[word.into()], std::slice::from_ref(&log)).unwrap();
        let mut cache = Cache::default();
        cache.put(ask("stat"), written(3));
        assert!(cache.get(&ask("stat")).is_some());
        assert!(cache.get(&ask("why")).is_none());
        fs::write(&log, "longer").unwrap();
        assert!(cache.get(&ask("stat")).is_none());
        fs::remove_file(&log).unwrap();
        assert!(LogQuestion::about(&["stat".into()], &[log]).is_none());
    }

    #[test]
    fn what_was_asked_longest_ago_is_forgotten() {
        let ask = |number: usize| LogQuestion {
            words: vec![number.to_string().into()],
            files: Vec::new(),
        };
        let mut cache = Cache::default();
        for number in 0..MOST_ANSWERS {
            cache.put(ask(number), written(1));
        }
        assert!(cache.get(&ask(0)).is_some());
        cache.put(ask(1000), written(1));
        assert!(cache.get(&ask(0)).is_some() && cache.get(&ask(1)).is_none());
        cache.put(ask(1001), written(MOST_BYTES));
        assert_eq!(cache.answers.len(), 1);
        cache.put(ask(1002), written(MOST_BYTES + 1));
        assert!(cache.answers.is_empty());
    }
}
