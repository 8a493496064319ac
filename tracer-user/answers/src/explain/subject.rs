//! Subject of an explanation, as commands are typed about it.

/// What is explained.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// A log.
    Log(String),
    /// Processes that run: the words that choose them: `-p`, `4711`.
    Processes(Vec<String>),
    /// A command, which is started.
    Command(Vec<String>),
}

/// Options of live commands, each with a value, that logs have no use for.
const OF_PROCESSES: [&str; 2] = ["--syscalls", "--add-events"];

impl Subject {
    /// Returns the words of a command about it, as a shell takes them. `words` are those of
    /// `tracer-user` without what says at what it looks.
    #[must_use]
    pub fn command(&self, words: &str) -> String {
        let mut typed = vec!["tracer-user".to_owned()];
        match self {
            Self::Log(log) => {
                let words = match words {
                    "why --now" => "why --whole --brief",
                    words => words,
                };
                let mut words = words.split(' ');
                while let Some(word) = words.next() {
                    if OF_PROCESSES.contains(&word) {
                        words.next();
                    } else {
                        typed.push(word.to_owned());
                    }
                }
                typed.push(quoted(log));
            }
            Self::Processes(choice) => {
                typed.push(words.to_owned());
                typed.extend(choice.iter().map(|word| quoted(word)));
                if !words.starts_with("why --now") {
                    typed.push("--duration 5s".to_owned());
                }
            }
            Self::Command(command) => {
                typed.push(words.to_owned());
                typed.push("--".to_owned());
                typed.extend(command.iter().map(|word| quoted(word)));
            }
        }
        typed.join(" ")
    }

    /// Returns how the same is recorded whole, where this was a log.
    #[must_use]
    pub fn is_log(&self) -> bool {
        matches!(self, Self::Log(_))
    }
}

/// Most bytes of a word of a command that is told.
const MOST_BYTES: usize = 200;

/// Renders a word so that a shell takes it as one, and nothing in it has a meaning.
fn quoted(word: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./=:,@%+".contains(&byte);
    if !word.is_empty() && word.len() <= MOST_BYTES && word.bytes().all(is_plain) {
        return word.to_owned();
    }
    let end = word.floor_char_boundary(MOST_BYTES);
    let more = if end < word.len() { "…" } else { "" };
    let mut out = String::new();
    for character in word.get(..end).unwrap_or_default().chars() {
        match character {
            '\'' => out.push_str("'\\''"),
            // No line is forged; a name with such a character is typed by hand.
            control if control.is_control() => out.push('?'),
            other => out.push(other),
        }
    }
    format!("'{out}{more}'")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_typed_as_a_shell_takes_it() {
        let log = Subject::Log("my log".to_owned());
        assert_eq!(
            log.command("stat --syscalls fsync --by comm"),
            "tracer-user stat --by comm 'my log'"
        );
        let command = Subject::Command(vec![
            "sh".to_owned(),
            "-c".to_owned(),
            "a'\n$(b)".to_owned(),
        ]);
        assert_eq!(
            command.command("stat"),
            "tracer-user stat -- sh -c 'a'\\''?$(b)'"
        );
        let processes = Subject::Processes(vec!["-p".to_owned(), "12".to_owned()]);
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
