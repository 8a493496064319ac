//! Memory of other processes.

/// Unit of reading: where a page is not there, the pages before it are read.
const PAGE: usize = 4096;

/// Reads memory of process `pid`, from `address` on. Returns the number of bytes read. Another
/// process may have to supply a page (`userfaultfd`, FUSE): ask as
/// [`bounded_proc`](crate::bounded_proc) does.
pub fn read(pid: i32, address: u64, to: &mut [u8]) -> usize {
    let mut done = 0;
    while done < to.len() {
        let Some(rest) = to.get_mut(done..) else {
            break;
        };
        let Some(at) = address.checked_add(done as u64) else {
            break;
        };
        // Up to the end of the page, as a call reads all of what it is given or nothing.
        let in_page = usize::try_from(at % PAGE as u64).unwrap_or(0);
        let length = rest.len().min(PAGE - in_page);
        let local = libc::iovec {
            iov_base: rest.as_mut_ptr().cast(),
            iov_len: length,
        };
        let remote = libc::iovec {
            iov_base: at as *mut libc::c_void,
            iov_len: length,
        };
        // SAFETY: the first has so many bytes, and the kernel checks the other.
        let read =
            unsafe { libc::process_vm_readv(pid, &raw const local, 1, &raw const remote, 1, 0) };
        match usize::try_from(read) {
            Ok(read) if read > 0 => done += read.min(length),
            _ => break,
        }
    }
    done
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
    }
}
