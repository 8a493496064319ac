//! Descendants of processes: their living children, the children of these, and so on.

use std::collections::{HashMap, HashSet};

use super::proc_fs::Stat;
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
