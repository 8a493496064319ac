//! Descendants of processes: their living children, the children of these, and so on.

use std::collections::{HashMap, HashSet};
use std::fs;

use super::proc_fs::{self, Stat};
use super::targets::all_processes;

/// Returns the descendants of `pids` that live, without `pids` themselves. A process that is
/// adopted, since its parent has ended, counts as a child of the adopter.
pub fn find_descendants(pids: &[i32]) -> Vec<i32> {
    let mut children: HashMap<i32, Vec<i32>> = HashMap::new();
    for pid in all_processes() {
        if let Ok(Some(stat)) = Stat::read(pid)
            && !stat.has_ended()
        {
            children.entry(stat.parent).or_default().push(pid);
        }
    }
    below(pids, &children)
}

/// Traces the descendants of `pids`, which are traced with the children that they make from now on.
/// `trace` traces those of the processes that it is given that are not traced yet, in the same way,
/// and returns these. Returns all of them.
///
/// Each is traced before its children are listed: so those that it has made before are in the list,
/// as long as it lives, and the others are traced from their start. A process that is adopted, or
/// that the kernel leaves out of a list, is found by a walk over all processes. One that a walk
/// misses was made during that by one that was not traced yet, which the walk finds: so all
/// descendants are traced once a walk finds no other.
///
/// # Errors
///
/// Those of `trace`.
pub fn trace_all(
    pids: &[i32],
    mut trace: impl FnMut(&[i32]) -> anyhow::Result<Vec<i32>>,
) -> anyhow::Result<Vec<i32>> {
    let mut all = Vec::new();
    let mut last = pids.to_vec();
    loop {
        let is_walk = last.is_empty();
        let found = if is_walk {
            find_descendants(pids)
        } else {
            last.iter().flat_map(|pid| children(*pid)).collect()
        };
        last = trace(&found)?;
        if is_walk && last.is_empty() {
            return Ok(all);
        }
        all.extend_from_slice(&last);
    }
}

/// Returns the living children that the kernel lists for a process, without this one: it may leave
/// some out, and kernels without `CONFIG_PROC_CHILDREN` list none.
fn children(pid: i32) -> Vec<i32> {
    let own = i32::try_from(std::process::id()).unwrap_or(0);
    let lists = proc_fs::threads(pid).into_iter().map(|tid| {
        let path = format!("/proc/{pid}/task/{tid}/children");
        fs::read_to_string(path).unwrap_or_default()
    });
    let mut children = Vec::new();
    for list in lists {
        let listed = list.split_ascii_whitespace();
        children.extend(listed.filter_map(|child| child.parse::<i32>().ok()));
    }
    children.retain(|child| *child != own && !proc_fs::has_ended(*child));
    children
}

/// Returns the processes below `pids` in the tree.
fn below(pids: &[i32], children: &HashMap<i32, Vec<i32>>) -> Vec<i32> {
    let own = i32::try_from(std::process::id()).unwrap_or(0);
    // Processes are read one after the other: a pid that is used again may seem its own ancestor.
    let mut seen: HashSet<i32> = pids.iter().copied().chain([own]).collect();
    let mut waiting: Vec<i32> = pids.to_vec();
    let mut found = Vec::new();
    while let Some(pid) = waiting.pop() {
        for child in children.get(&pid).into_iter().flatten() {
            if seen.insert(*child) {
                waiting.push(*child);
                found.push(*child);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn descendants_are_found_once_and_this_process_never() {
        let own = i32::try_from(std::process::id()).unwrap();
        let children = HashMap::from([
            (1, vec![2, 3, own]),
            (3, vec![4]),
            (4, vec![1, 3]),
            (5, vec![6]),
        ]);
        let mut found = below(&[1, 2], &children);
        found.sort_unstable();
        assert_eq!(found, [3, 4]);
        assert!(below(&[7], &children).is_empty());
    }

    #[test]
    fn each_is_traced_before_its_children_are_listed_and_once() {
        let mut shell = Command::new("sh")
            .args(["-c", "sh -c 'sleep 60; true'; true"])
            .stderr(std::process::Stdio::null())
            .spawn()
            .unwrap();
        let shell_pid = i32::try_from(shell.id()).unwrap();
        while find_descendants(&[shell_pid]).len() < 2 {
            std::thread::yield_now();
        }
        let mut traced = vec![shell_pid];
        let mut asked = 0;
        let all = trace_all(&[shell_pid], |found| {
            asked += 1;
            let mut new = found.to_vec();
            new.retain(|pid| !traced.contains(pid));
            for pid in &new {
                let parent = Stat::read(*pid).unwrap().unwrap().parent;
                assert!(traced.contains(&parent), "{pid}");
            }
            traced.extend(&new);
            Ok(new)
        });
        for pid in traced.iter().skip(1) {
            // SAFETY: a process that this test has started, and has not waited for.
            unsafe { libc::kill(*pid, libc::SIGKILL) };
        }
        shell.wait().unwrap();
        assert_eq!(all.unwrap(), traced[1..]);
        // Two children, the lists of three processes, and the walk that finds no other.
        assert_eq!((traced.len(), asked), (3, 4));
    }

    #[test]
    fn a_child_of_a_child_is_a_descendant() {
        // The shell waits for its child and does not become it, since another command follows.
        let mut shell = Command::new("sh")
            .args(["-c", "sleep 60; true"])
            .stderr(std::process::Stdio::null())
            .spawn()
            .unwrap();
        let shell_pid = i32::try_from(shell.id()).unwrap();
        let found = loop {
            let found = find_descendants(&[shell_pid]);
            if !found.is_empty() {
                break found;
            }
            std::thread::yield_now();
        };
        // Its own parent is this process, which is left out, with what it has made.
        let below_this = find_descendants(&[i32::try_from(std::process::id()).unwrap()]);
        for pid in &found {
            // SAFETY: a process that this test has started, and has not waited for.
            unsafe { libc::kill(*pid, libc::SIGKILL) };
        }
        shell.wait().unwrap();
        assert_eq!(found.len(), 1);
        assert!(below_this.contains(&found[0]) && below_this.contains(&shell_pid));
    }
}
