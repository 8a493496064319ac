//! What loading leaves behind.

/// Gives memory that was freed back to the system. Loading takes a good ten megabytes for the
/// kernel's type information, in small pieces that the allocator would keep for ever.
pub fn give_back_what_is_free() {
    #[cfg(target_env = "gnu")]
    // SAFETY: takes no pointers, and changes nothing that is in use.
    unsafe {
        libc::malloc_trim(0)
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Kilobytes of resident memory that belong to no file.
    fn anonymous() -> u64 {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("RssAnon:"));
        line.unwrap()
            .split_whitespace()
            .next()
            .unwrap()
            .parse()
            .unwrap()
    }

    #[test]
    #[cfg(target_env = "gnu")]
    fn small_pieces_that_were_freed_are_given_back() {
        let pieces: Vec<Vec<u8>> = (0..200_000).map(|_| vec![1; 200]).collect();
        // A few that stay, far from each other, keep the allocator from shortening the heap itself.
        let kept: Vec<Vec<u8>> = pieces.into_iter().step_by(1000).collect();
        let before = anonymous();
        give_back_what_is_free();
        let after = anonymous();
        drop(kept);

        assert!(after + 20_000 < before, "{before} kB, then {after} kB");
    }
}
