//! Memory of other processes.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Unit of reading: where a page is not there, the pages before it are read.
const PAGE: usize = 4096;

/// Reads memory of process `pid`, from `address` on. Returns the number of bytes read. Another
/// process may have to supply a page (`userfaultfd`, FUSE): ask as
/// [`bounded_proc`](crate::bounded_proc) does.
pub fn read(pid: i32, address: u64, to: &mut [u8]) -> usize {
    // While the process maps a page that does not come, a thread that reads by
    // `process_vm_readv()` cannot even be killed, and its process not end.
    let Ok(memory) = File::open(format!("/proc/{pid}/mem")) else {
        return 0;
    };
    let mut done = 0;
    while done < to.len() {
        let Some(rest) = to.get_mut(done..) else {
            break;
        };
        let Some(at) = address.checked_add(done as u64) else {
            break;
        };
        let in_page = usize::try_from(at % PAGE as u64).unwrap_or(0);
        let length = rest.len().min(PAGE - in_page);
        match rest.get_mut(..length).map(|page| memory.read_at(page, at)) {
            Some(Ok(read)) if read > 0 => done += read,
            Some(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
            _ => break,
        }
    }
    done
}

/// Returns a reader of the words of process `pid`, by [`read`].
pub fn words(pid: i32) -> impl Fn(u64) -> Option<u64> {
    move |address| {
        let mut word = [0; 8];
        let read = read(pid, address, &mut word);
        (read == word.len()).then(|| u64::from_ne_bytes(word))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_up_to_where_it_ends() {
        let pid = i32::try_from(std::process::id()).unwrap();
        let bytes: Vec<u8> = (0..=255).cycle().take(3 * PAGE).collect();
        let mut read_bytes = vec![0; 3 * PAGE];
        assert_eq!(read(pid, bytes.as_ptr() as u64, &mut read_bytes), 3 * PAGE);
        assert_eq!(read_bytes, bytes);
        assert_eq!(read(pid, 8, &mut read_bytes), 0);
        assert_eq!(read(pid, u64::MAX - 1, &mut read_bytes), 0);
        assert_eq!(read(0, bytes.as_ptr() as u64, &mut read_bytes), 0);
    }
}
