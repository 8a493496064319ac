//! Tracing processes that run already.

use std::collections::HashSet;
use std::io;

use anyhow::{Context, bail, ensure};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tracer_area::FindError;

use tracer_area::monotonic_now;

use super::access::KernelAccess;
use super::areas::AreaError;
use super::descendants;
use super::descriptors;
use super::ending::{end, runtime};
use super::follow::{Follow, ring_of};
use super::newcomers::Newcomers;
use super::pidfd::PidFd;
use super::setup::BegunTrace;
use super::wake::{Wake, watch_flushes, watch_process, watch_signals};
use super::{Setup, Targets, proc_fs};
use tracer_binary::probes::Subject;
use tracer_kernel::ProcessChoice;
use tracer_output::terminal::Outcome;
use tracer_text::say;

/// Traces the targets: processes that are given by pid, with the descendants that they have made
/// unless the setup says otherwise, until they end, others until the setup or the user says so.
///
/// # Errors
///
/// A process cannot be traced, or the lines cannot be written.
pub fn attach(targets: &Targets, setup: &Setup) -> anyhow::Result<Outcome> {
    proc_fs::ensure_own()?;
    proc_fs::ensure_children_here()?;
    descriptors::raise_limit();
    let Targets::Pids(pids) = targets else {
        return runtime()?.block_on(attach_to_all(targets, setup));
    };
    let processes: Vec<(i32, PidFd)> = pids
        .iter()
        .map(|pid| Ok((*pid, open(*pid)?)))
        .collect::<anyhow::Result<_>>()?;
    runtime()?.block_on(attach_to(processes, setup))
}

async fn attach_to(processes: Vec<(i32, PidFd)>, setup: &Setup) -> anyhow::Result<Outcome> {
    let (wakes, woken) = unbounded_channel();
    let pids: Vec<i32> = processes.iter().map(|(pid, _)| *pid).collect();
    let has_others = pids.len() > 1;
    // Probes are looked for in the files of those that are there by now.
    let mut to_probe = pids.clone();
    if setup.followed.children {
        to_probe.extend(descendants::find_descendants(&pids));
    }
    let mut begun = setup.begin(ProcessChoice::Given, Subject::Processes(&to_probe))?;
    watch_signals(&wakes).context("cannot watch for signals")?;
    if setup.log.is_some() {
        watch_flushes(&wakes).context("cannot watch for signals")?;
    }
    for (pid, process) in processes {
        if let Some(kernel) = &mut begun.kernel {
            kernel
                .trace(pid, setup.followed.children)
                .with_context(|| format!("cannot trace process {pid}"))?;
        }
        let has_area = begun.tracer.ask_for(pid, monotonic_now());
        ensure!(
            !process.has_ended(),
            "process {pid} ended while it was being attached to"
        );
        match has_area {
            Ok(true) => {}
            Ok(false) => {
                let line = format!(
                    "process {pid} has no trace area (not linked with libposixtrace): \
                     no user events until it loads it"
                );
                // Of most processes the kernel's events are what is wanted.
                if setup.recording.system {
                    tracing::info!("{line}");
                } else {
                    say(&line);
                }
            }
            // What the kernel does not say now, on a busy machine too, it may say later.
            Err(error) if has_others && error.is_targets_own() || error.is_for_now() => {
                begun.tracer.put_off(pid, monotonic_now());
                let error = anyhow::Error::new(error);
                say(&format!(
                    "no user events of process {pid} for now: {error:#}"
                ));
            }
            Err(error) => return Err(with_remedy(error, setup)),
        }
        watch_process(&wakes, pid, process)
            .with_context(|| format!("cannot wait for the end of process {pid}"))?;
    }
    let mut awaited: HashSet<i32> = pids.iter().copied().collect();
    let mut traced = pids;
    if setup.followed.children {
        let descendants = trace_descendants(&traced, &mut begun, (&wakes, &mut awaited))?;
        traced.extend(descendants);
    }
    if let Some(kernel) = &mut begun.kernel {
        kernel.look(&traced);
    }
    follow(begun, (wakes, woken), (Some(awaited), None), setup).await
}

/// Traces the descendants that the processes `pids`, which are traced, have made before. Those
/// whose ends will be reported are added to `awaited`.
fn trace_descendants(
    pids: &[i32],
    begun: &mut BegunTrace,
    (wakes, awaited): (&UnboundedSender<Wake>, &mut HashSet<i32>),
) -> anyhow::Result<Vec<i32>> {
    let found = match &mut begun.kernel {
        Some(kernel) => {
            let mut traced: HashSet<i32> = pids.iter().copied().collect();
            descendants::trace_all(pids, |found| kernel.trace_untraced(found, &mut traced))
                .context("cannot trace what the processes have made")?
        }
        None => descendants::find_descendants(pids),
    };
    for pid in &found {
        begun.tracer.add_found(*pid, monotonic_now());
        // Where it cannot be waited for, its end is looked for once a second.
        if let Ok(process) = PidFd::open(*pid)
            && watch_process(wakes, *pid, process).is_ok()
        {
            awaited.insert(*pid);
        }
    }
    if !found.is_empty() {
        say(&in_words(found.len()));
    }
    say_left_alone(begun.kernel.as_ref());
    Ok(found)
}

/// Says how many processes were found that this user may not trace.
fn say_left_alone(kernel: Option<&KernelAccess>) {
    let count = kernel.map_or(0, KernelAccess::left_alone);
    if count > 0 {
        let (processes, are) = if count == 1 {
            ("process", "is")
        } else {
            ("processes", "are")
        };
        say(&format!(
            "{count} {processes} {are} not traced: of another user, or with rights that this one \
             lacks (root traces them)"
        ));
    }
}

/// Returns a message about descendants that were there already.
fn in_words(count: usize) -> String {
    let (were, are, processes) = if count == 1 {
        ("was", "is", "process")
    } else {
        ("were", "are", "processes")
    };
    format!(
        "{count} {processes} that {were} made before {are} traced too (--no-inherit leaves such out)"
    )
}

/// Traces processes that are chosen by a property: the programs in the kernel see to those that
/// begin from now on, and those that are there already are found after that.
async fn attach_to_all(targets: &Targets, setup: &Setup) -> anyhow::Result<Outcome> {
    ensure!(
        setup.recording.system,
        "--no-system goes with pids only: the kernel's events say which processes are chosen"
    );
    let (wakes, woken) = unbounded_channel();
    let to_probe = if setup.recording.probes.is_empty() && !setup.recording.stacks.user_events {
        Vec::new()
    } else {
        targets.there_now()
    };
    let mut begun = setup.begin(targets.choice(), Subject::Processes(&to_probe))?;
    watch_signals(&wakes).context("cannot watch for signals")?;
    if setup.log.is_some() {
        watch_flushes(&wakes).context("cannot watch for signals")?;
    }
    let there = match &mut begun.kernel {
        Some(kernel) => kernel
            .trace_chosen(targets, setup.followed.children)
            .with_context(|| format!("cannot trace {}", targets.in_words()))?,
        None => Vec::new(),
    };
    let are_chosen = begun
        .kernel
        .as_ref()
        .is_none_or(KernelAccess::chooses_newcomers);
    let newcomers = (!are_chosen).then(|| Newcomers::after(targets.clone(), &there));
    for pid in &there {
        begun.tracer.add_found(*pid, monotonic_now());
    }
    if let Some(kernel) = &mut begun.kernel {
        kernel.look(&there);
    }
    if let Targets::Named(pattern) = targets
        && pattern.is_truncated()
    {
        say(&format!(
            "of a name the kernel keeps 15 bytes: looking for {pattern}"
        ));
    }
    say_left_alone(begun.kernel.as_ref());
    if newcomers.is_some() {
        say("those that begin later are looked for once a second (root sees their first moments)");
    }
    match there.len() {
        0 => say(&format!(
            "there are no {} now ({}): waiting for some to begin, {}",
            targets.in_words(),
            targets.how_to_find(),
            until(setup, UNTIL_CTRL_C)
        )),
        count => say(&format!(
            "tracing {}, of which {count} {} there now, {}",
            targets.in_words(),
            if count == 1 { "is" } else { "are" },
            until(setup, UNTIL_CTRL_C)
        )),
    }
    follow(begun, (wakes, woken), (None, newcomers), setup).await
}

/// End of a trace that goes on when no process lives.
const UNTIL_CTRL_C: &str = "until Ctrl-C";

/// Describes when a trace of chosen processes ends: as `otherwise` says, where no option says it.
fn until(setup: &Setup, otherwise: &str) -> String {
    let mut ends = Vec::new();
    if let Some(duration) = setup.duration {
        ends.push(format!("for {}", humantime::format_duration(duration)));
    }
    if let Some(limit) = setup.event_limit {
        ends.push(format!("until {limit} events are shown"));
    }
    if ends.is_empty() {
        ends.push(otherwise.to_owned());
    }
    ends.join(" or ")
}

/// Follows to the end: that of the processes `awaited`, where there are some.
async fn follow(
    begun: BegunTrace,
    (wake, wakes): (UnboundedSender<Wake>, UnboundedReceiver<Wake>),
    (awaited, newcomers): (Option<HashSet<i32>>, Option<Newcomers>),
    setup: &Setup,
) -> anyhow::Result<Outcome> {
    let follow = Follow {
        until: begun.until(),
        tracer: begun.tracer,
        writer: begun.writer,
        wakes,
        wake,
        ring: ring_of(begun.kernel.as_ref()).context("cannot wait for kernel events")?,
        kernel: begun.kernel,
        command: None,
        is_open: awaited.is_none(),
        awaited: awaited.unwrap_or_default(),
        start: begun.start,
        newcomers,
        flush: None,
    };
    tracer_agent::say_ready();
    Ok(end(follow, setup).await?.outcome)
}

/// Opens a process, or explains why it cannot be attached to.
fn open(pid: i32) -> anyhow::Result<PidFd> {
    let own = i32::try_from(std::process::id()).unwrap_or(0);
    ensure!(
        pid != own,
        "process {pid} is tracer-user itself, and cannot be attached to"
    );
    let no_such = || format!("no process has pid {pid} (`ps -e` lists those that there are)");
    match proc_fs::process_of(pid) {
        Ok(Some(process)) if process != pid => {
            bail!("{pid} is a thread of process {process}; attach to {process}")
        }
        Ok(_) => {}
        Err(error) => tracing::debug!(pid, %error, "status unreadable"),
    }
    match PidFd::open(pid) {
        Ok(process) if process.has_ended() => {
            bail!("process {pid} has ended already; its parent has not taken notice yet")
        }
        Ok(process) => Ok(process),
        Err(error) if error.raw_os_error() == Some(libc::ESRCH) => bail!(no_such()),
        Err(error) => Err(open_error(pid, error)),
    }
}

fn open_error(pid: i32, error: io::Error) -> anyhow::Error {
    match error.raw_os_error() {
        Some(libc::ENOSYS) => anyhow::Error::new(error).context("needs Linux 5.3 or later"),
        Some(libc::EINVAL | libc::ENOENT) => anyhow::anyhow!("{pid} is a thread, and no process"),
        _ => anyhow::Error::new(error).context(format!("cannot open process {pid}")),
    }
}

fn with_remedy(error: AreaError, setup: &Setup) -> anyhow::Error {
    if matches!(&error, AreaError::Find(FindError::OnlyMapped { .. })) {
        return anyhow::Error::new(error).context(
            "cannot trace user events (run with sudo, or start the program by `tracer-user run`)",
        );
    }
    let is_forbidden = matches!(&error, AreaError::Find(FindError::NotPermitted { .. }));
    let error = anyhow::Error::new(error);
    if !is_forbidden {
        return error.context("cannot trace user events");
    }
    error.context(if setup.recording.system {
        "cannot trace user events: another user's process needs CAP_SYS_PTRACE and CAP_DAC_OVERRIDE (run with sudo), \
         and with --no-user only the kernel's events are traced"
    } else {
        "cannot trace user events: another user's process needs CAP_SYS_PTRACE and CAP_DAC_OVERRIDE (run with sudo)"
    })
}
