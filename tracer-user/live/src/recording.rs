//! Choice of the events that a trace records.

use std::path::PathBuf;

use anyhow::ensure;

use super::access::KernelAccess;
use tracer_binary::probes::{ProbeSpec, Subject};
use tracer_binary::stacks::StackOptions;
use tracer_common::event_type::{EventTypeId, system_event_type};
use tracer_event::predicate::{LogChoices, Predicate};
use tracer_event::selection::Selection;
use tracer_kernel::Counting;
use tracer_kernel::named_tracepoints::Pattern;
use tracer_posix::agent::WANTED_VARIABLE;
use tracer_syscalls::choice::SyscallSet;
use tracer_syscalls::descriptors::DescriptorOptions;
use tracer_text::say;

/// Events that are recorded, and how much of each.
#[derive(Clone, Debug)]
pub struct Recording {
    /// Whether the kernel's events are traced.
    pub system: bool,
    /// The file with the kernel's types, where the kernel may have none.
    pub btf: Option<PathBuf>,
    /// The types that are shown.
    pub selection: Selection,
    /// The system calls that are traced, where those types are.
    pub syscalls: SyscallSet,
    /// That choice as it was typed, where it leaves some out.
    pub chosen_calls: Option<String>,
    /// Bytes that are read of the data that their arguments point to.
    pub string_bytes: u32,
    /// Whether only names and other short data are read of that, which suffices for answers.
    pub only_names: bool,
    /// Recording of system calls only as they end.
    pub calls_at_exit: bool,
    /// Most that recording system calls may cost the traced threads of their CPU time, in
    /// thousandths: where it would be more, they are recorded in windows. `None`: they are all
    /// recorded.
    pub most_call_cost: Option<u32>,
    /// Most that recording switches may cost these, as above, with the other events that come as
    /// often.
    pub most_switch_cost: Option<u32>,
    /// Recording of descriptors.
    pub descriptors: DescriptorOptions,
    /// Stacks that are recorded.
    pub stacks: StackOptions,
    /// Whether functions are shown too that the compiler has put into others.
    pub inlined: bool,
    /// Recording of the traces and spans of OpenTelemetry that threads work for.
    pub trace_context: bool,
    /// Probes in the programs.
    pub probes: Vec<ProbeSpec>,
    /// The tracepoints of the kernel that are recorded by their names.
    pub tracepoints: Vec<Pattern>,
    /// Choice of what is counted instead of recorded.
    pub counting: Option<Counting>,
    /// Condition on the data of events.
    pub predicate: Predicate,
}

impl Default for Recording {
    /// Returns the choice where nothing is asked for: the usual types, without what arguments of
    /// system calls point to.
    fn default() -> Self {
        Self {
            system: true,
            btf: None,
            selection: Selection::usual(),
            syscalls: SyscallSet::all(),
            chosen_calls: None,
            string_bytes: 0,
            only_names: false,
            calls_at_exit: false,
            most_call_cost: None,
            most_switch_cost: None,
            descriptors: DescriptorOptions::None,
            stacks: StackOptions::default(),
            inlined: false,
            trace_context: false,
            probes: Vec::new(),
            tracepoints: Vec::new(),
            counting: None,
            predicate: Predicate::default(),
        }
    }
}

impl Recording {
    /// Lets the recording of system calls cost the traced threads at most this part of their CPU
    /// time, in thousandths: the stream says by its filter which it records when.
    pub fn bound_calls(&mut self, thousandths: u32) {
        if thousandths < 1000 && self.selection.has(EventTypeId::SYSCALL_ENTER) {
            self.most_call_cost = Some(thousandths);
            self.selection = self.selection.clone().with(&[EventTypeId::FILTER]);
        }
    }

    /// Lets the recording of switches cost the traced threads at most this part of their CPU time,
    /// in thousandths: the stream says by its filter which it records when.
    pub fn bound_switches(&mut self, thousandths: u32) {
        if thousandths < 1000 && self.selection.has(EventTypeId::SWITCH_OUT) {
            self.most_switch_cost = Some(thousandths);
            self.selection = self.selection.clone().with(&[EventTypeId::FILTER]);
        }
    }

    /// Returns the name of the stream of a log, which says what was chosen.
    #[must_use]
    pub fn stream_name(&self) -> String {
        LogChoices::stream_name(&self.predicate, self.chosen_calls.as_deref())
    }

    /// Adds to the chosen events those without which a log does not show what it lacks: where it is
    /// continued, and when threads change the names by which they are chosen.
    pub fn mark_log(&mut self, is_continued: bool) {
        let mut marks = Vec::new();
        if is_continued {
            marks.push(EventTypeId::START);
        }
        if self.system && self.predicate.is_of_names() {
            marks.push(EventTypeId::RENAME);
        }
        self.selection = self.selection.clone().with(&marks);
    }

    /// Returns the types that the programs in the kernel are loaded for: those that are chosen, and
    /// where a command's streams are given the kernel's events by its environment, those that are
    /// shown without being chosen as well. The streams choose among these by their filters.
    pub(super) fn types_to_load(&self, subject: Subject<'_>) -> Vec<EventTypeId> {
        let mut types = self.selection.kernel_types();
        let is_asked_for = std::env::var_os(WANTED_VARIABLE).is_some_and(|value| value == "1");
        if matches!(subject, Subject::Command(_)) && is_asked_for {
            let of_kernel = Selection::usual().kernel_types();
            types.extend(of_kernel.iter().filter(|id| !self.selection.has(**id)));
        }
        types
    }

    /// Reports which of the chosen types there are no events of, and continues with the others.
    pub(super) fn report_what_is_lacking(&self, kernel: &KernelAccess) -> anyhow::Result<()> {
        if let Some(left_out) = kernel.left_out() {
            say(&format!(
                "the kernel's types are from a file, so this is not recorded: {left_out}"
            ));
        }
        let chosen = self.selection.kernel_types();
        let lacking: Vec<&str> = chosen
            .iter()
            .filter(|id| !kernel.records(**id))
            .filter_map(|id| Some(system_event_type(*id)?.name))
            .collect();
        let what = kernel.lacking_in_words();
        ensure!(
            self.selection.has_user()
                || self.counting.is_some()
                || !self.probes.is_empty()
                || !self.tracepoints.is_empty()
                || lacking.len() < chosen.len(),
            "{what} any of the chosen types; `tracer-user events` lists what it has"
        );
        if let Some(uncounted) = kernel.uncounted() {
            say(&format!("{what} {uncounted}: not counted"));
        }
        if !lacking.is_empty() {
            say(&format!("{what} {}: not traced", lacking.join(", ")));
        }
        if self.string_bytes > 0 && !kernel.reads_arguments() {
            say(
                "this kernel's verifier does not take the programs that read what arguments of \
                 system calls point to: these are shown as addresses (--string-size 0 asks for \
                 that, and starts sooner)",
            );
        }
        Ok(())
    }
}
