//! Options that select the traced processes.

use anyhow::Context;

use super::pid;
use tracer_live::{ControlGroup, Targets};
use tracer_text::NamePattern;

/// Returns the processes that are given by pid, or selected by name, by control group, or all: one
/// of these.
///
/// # Errors
///
/// A word is no pid, names no control group, or is no valid pattern of names.
pub fn targets(
    pids: &[String],
    comm: Option<&str>,
    cgroup: Option<&str>,
    all: bool,
) -> anyhow::Result<Targets> {
    Ok(if all {
        Targets::Everything
    } else if let Some(name) = comm {
        let pattern = NamePattern::new(name);
        Targets::Named(pattern.with_context(|| format!("--comm {name:?}"))?)
    } else if let Some(typed) = cgroup {
        Targets::InGroup(ControlGroup::find(typed).context("--cgroup")?)
    } else {
        Targets::Pids(each_once(pids)?)
    })
}

/// Returns the processes in the control group of this name, or, when there is none, the processes
/// of this name.
///
/// # Errors
///
/// It names no group and is no valid pattern of names, or it names several groups.
pub fn named(name: &str) -> anyhow::Result<Targets> {
    if let Some(group) = ControlGroup::look_for(name).context("--named")? {
        return Ok(Targets::InGroup(group));
    }
    let pattern = NamePattern::new(name);
    let pattern = pattern.with_context(|| {
        format!("--named {name:?}: no control group is called so, and for the name of a process")
    })?;
    Ok(Targets::Named(pattern))
}

fn each_once(typed: &[String]) -> anyhow::Result<Vec<i32>> {
    let mut pids = Vec::new();
    for typed in typed {
        let pid = pid(typed)?;
        if !pids.contains(&pid) {
            pids.push(pid);
        }
    }
    Ok(pids)
}
