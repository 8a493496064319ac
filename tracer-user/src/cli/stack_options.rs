//! The options of `attach` and `run` that choose stacks.

use anyhow::{Context, bail, ensure};
use tracer_common::event_type::system_event_type;
use tracer_common::kernel::{KERNEL_EVENT_TYPES, MOST_FRAMES, stacks, wanted};

use crate::selection::Selection;
use crate::stacks::StackOptions;

/// Stacks, as typed.
#[derive(Debug, Default, clap::Args)]
pub struct StackArgs {
    /// Record the functions that a thread is in as it causes an event: user, kernel, or both
    /// (user,kernel), and at most so many of each (user,20; 127 where none is given). Functions are
    /// found by frame pointers: of a program that has none, only the innermost ones are
    #[arg(long, value_name = "LIST")]
    stack: Option<String>,
    /// Record stacks only with these: syscall, fault, switch-out, signal, or single types of them,
    /// probe, tracepoint, separated by commas; without it, with all of these that are recorded
    #[arg(long, value_name = "LIST", requires = "stack")]
    stack_for: Option<String>,
}

impl StackArgs {
    /// What was asked for, and the selection with the types that stacks consist of.
    ///
    /// # Errors
    ///
    /// A word is none of those, or the kernel's events are not traced.
    pub fn options(
        &self,
        selection: Selection,
        has_kernel: bool,
    ) -> anyhow::Result<(StackOptions, Selection)> {
        let Some(typed) = &self.stack else {
            return Ok((StackOptions::default(), selection));
        };
        ensure!(
            has_kernel,
            "--stack needs the kernel; leave --no-system out"
        );
        let mut options = frames(typed).with_context(|| format!("--stack {typed}"))?;
        let can_have = stacks::TYPES | stacks::PROBES | stacks::TRACEPOINTS;
        options.types = match &self.stack_for {
            None => can_have,
            Some(list) => types(list).context("--stack-for")?,
        };
        Ok((options, selection.with(&crate::stacks::TYPES)))
    }
}

/// How many addresses of each kind are recorded.
fn frames(typed: &str) -> anyhow::Result<StackOptions> {
    let mut most = u32::try_from(MOST_FRAMES)?;
    let (mut has_user, mut has_kernel) = (false, false);
    for word in typed.split(',').map(str::trim) {
        match (word, word.parse::<u32>()) {
            ("user", _) => has_user = true,
            ("kernel", _) => has_kernel = true,
            (_, Ok(count)) if (1..=most).contains(&count) => most = count,
            (_, Ok(_)) => bail!("a stack has 1 to {MOST_FRAMES} functions, not {word}"),
            _ => bail!("\"{word}\" is no part of a stack; give user, kernel, or both: user,kernel"),
        }
    }
    ensure!(
        has_user || has_kernel,
        "whose functions? give user, kernel, or both: user,kernel"
    );
    Ok(StackOptions {
        types: 0,
        kernel_frames: if has_kernel { most } else { 0 },
        user_frames: if has_user { most } else { 0 },
    })
}

/// The bits of the types that a list names.
fn types(list: &str) -> anyhow::Result<u64> {
    let mut bits = 0;
    for word in list.split(',').map(str::trim) {
        bits |= match word {
            "probe" => stacks::PROBES,
            "tracepoint" => stacks::TRACEPOINTS,
            _ => {
                let named = Selection::of_words([word])?;
                let named = named.of_kernel();
                let of_word = named.iter().fold(0, |bits, id| bits | wanted::bit(*id));
                ensure!(
                    of_word & stacks::TYPES != 0,
                    "events of \"{word}\" have no stacks; those that have are {}, probe, tracepoint",
                    known().join(", ")
                );
                of_word & stacks::TYPES
            }
        };
    }
    Ok(bits)
}

/// The names of the types that can have stacks.
fn known() -> Vec<String> {
    let with_stacks = KERNEL_EVENT_TYPES
        .iter()
        .filter(|known| stacks::TYPES & wanted::bit(known.entry.id) != 0);
    let names = with_stacks.filter_map(|known| {
        let name = system_event_type(known.entry.id)?.name;
        Some(name.trim_start_matches("linux_trace_").replace('_', "-"))
    });
    names.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(stack: &str, types: Option<&str>) -> anyhow::Result<StackOptions> {
        let args = StackArgs {
            stack: Some(stack.to_owned()),
            stack_for: types.map(str::to_owned),
        };
        Ok(args.options(Selection::usual(), true)?.0)
    }

    fn refused(stack: &str, types: Option<&str>) -> String {
        format!("{:#}", options(stack, types).unwrap_err())
    }

    #[test]
    fn parts_and_their_length_are_chosen() {
        let chosen = options("user,kernel,20", None).unwrap();
        assert_eq!((chosen.kernel_frames, chosen.user_frames), (20, 20));
        assert!(chosen.types & stacks::PROBES != 0);
        let chosen = options("user", Some("syscall,probe")).unwrap();
        assert_eq!((chosen.kernel_frames, chosen.user_frames), (0, 127));
        let both = wanted::bit(tracer_common::event_type::EventTypeId::SYSCALL_ENTER)
            | wanted::bit(tracer_common::event_type::EventTypeId::SYSCALL_EXIT);
        assert_eq!(chosen.types, both | stacks::PROBES);
    }

    #[test]
    fn what_is_no_stack_is_refused() {
        assert!(refused("users", None).contains("\"users\" is no part of a stack"));
        assert!(refused("user,200", None).contains("1 to 127"));
        assert!(refused("20", None).contains("whose functions"));
        assert!(refused("user", Some("exec")).contains("have no stacks"));
        assert!(refused("user", Some("exce")).contains("is exec meant"));
        let args = StackArgs {
            stack: Some("user".to_owned()),
            stack_for: None,
        };
        assert!(args.options(Selection::usual(), false).is_err());
    }
}
