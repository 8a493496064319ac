//! Subject of an explanation, as commands are typed about it.

use tracer_text::shell_word;

/// Log, processes or command that is explained.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExplainSubject {
    /// A log.
    Log(String),
    /// Processes that run: the words that choose them: `-p`, `4711`.
    Processes(Vec<String>),
    /// A command, which is started.
    Command(Vec<String>),
}

/// Options of live commands, each with a value, that logs have no use for.
const OF_PROCESSES: [&str; 2] = ["--syscalls", "--add-events"];

impl ExplainSubject {
    /// Returns the words of a command about it, as a shell takes them. `words` are those of
    /// `tracer-user` without what says at what it looks.
    #[must_use]
    pub fn command(&self, words: &str) -> String {
        let mut typed = vec!["tracer-user".to_owned()];
        match self {
            Self::Log(log) => {
                let mut words = of_the_past(words).split(' ');
                while let Some(word) = words.next() {
                    if OF_PROCESSES.contains(&word) {
                        words.next();
                    } else {
                        typed.push(word.to_owned());
                    }
                }
                typed.push(shell_word(log));
            }
            Self::Processes(choice) => {
                typed.push(words.to_owned());
                typed.extend(choice.iter().map(|word| shell_word(word)));
                if !words.starts_with("why --now") {
                    typed.push("--duration 5s".to_owned());
                }
            }
            Self::Command(command) => {
                typed.push(of_the_past(words).to_owned());
                typed.push("--".to_owned());
                typed.extend(command.iter().map(|word| shell_word(word)));
            }
        }
        typed.join(" ")
    }
}

/// Returns the words for what has ended, which nothing can look at as it is now.
fn of_the_past(words: &str) -> &str {
    match words {
        "why --now" => "why --whole --brief",
        words => words,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_typed_as_a_shell_takes_it() {
        let log = ExplainSubject::Log("my log".to_owned());
        assert_eq!(
            log.command("stat --syscalls fsync --by comm"),
            "tracer-user stat --by comm 'my log'"
        );
        let command = ExplainSubject::Command(vec![
            "sh".to_owned(),
            "-c".to_owned(),
            "a'\n$(b)".to_owned(),
        ]);
        assert_eq!(
            command.command("stat"),
            "tracer-user stat -- sh -c 'a'\\''?$(b)'"
        );
        let ended = ExplainSubject::Command(vec!["ls".to_owned()]);
        let past = "tracer-user why --whole --brief";
        assert_eq!(ended.command("why --now"), format!("{past} -- ls"));
        assert_eq!(log.command("why --now"), format!("{past} 'my log'"));
        let processes = ExplainSubject::Processes(vec!["-p".to_owned(), "12".to_owned()]);
        assert_eq!(
            processes.command("why --now"),
            "tracer-user why --now -p 12"
        );
        assert_eq!(
            processes.command("stat --syscalls fsync"),
            "tracer-user stat --syscalls fsync -p 12 --duration 5s"
        );
    }
}
