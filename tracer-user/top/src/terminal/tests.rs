use std::fs::File;
use std::io::Read as _;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::process::{Command, Stdio};

use super::*;

/// Variable with which a run of the test takes the terminal and panics, in this thread or in
/// another.
const PANICS: &str = "TRACER_USER_TEST_PANICS";

const NAME: &str = "terminal::tests::a_panic_gives_the_terminal_back";

/// Opens a new terminal: the end of the test, and that of programs.
fn terminal() -> (File, OwnedFd) {
    let (mut ours, mut theirs) = (-1, -1);
    let (name, termios, size) = (
        std::ptr::null_mut(),
        std::ptr::null(),
        libc::winsize {
            ws_row: 24,
            ws_col: 80,
            ws_xpixel: 0,
            ws_ypixel: 0,
        },
    );
    // SAFETY: both descriptors and the size are valid; null is allowed for the rest.
    let made = unsafe { libc::openpty(&mut ours, &mut theirs, name, termios, &size) };
    assert_eq!(made, 0);
    // SAFETY: the descriptor is new, and no other value owns it.
    let ours = unsafe { File::from_raw_fd(ours) };
    // SAFETY: the descriptor is new, and no other value owns it.
    let theirs = unsafe { OwnedFd::from_raw_fd(theirs) };
    (ours, theirs)
}

/// Tells whether lines are edited, and typed characters are echoed.
fn is_as_usual(terminal: &OwnedFd) -> bool {
    let mut termios = MaybeUninit::<libc::termios>::uninit();
    // SAFETY: the descriptor is open, and the memory is large enough.
    let read = unsafe { libc::tcgetattr(terminal.as_raw_fd(), termios.as_mut_ptr()) };
    assert_eq!(read, 0);
    // SAFETY: it was filled.
    let flags = unsafe { termios.assume_init() }.c_lflag;
    flags & libc::ICANON != 0 && flags & libc::ECHO != 0
}

#[test]
fn a_panic_gives_the_terminal_back() {
    match std::env::var(PANICS).as_deref() {
        Ok("here") => {
            let _taken = TerminalSession::take().unwrap();
            panic!("on purpose");
        }
        Ok(_) => {
            let taken = TerminalSession::take().unwrap();
            let other = std::thread::spawn(|| panic!("on purpose"));
            assert!(other.join().is_err());
            // Nothing more is done: the hook alone has given it back.
            std::mem::forget(taken);
            panic!("at last");
        }
        Err(_) => {}
    }
    for who in ["here", "another thread"] {
        let (mut ours, theirs) = terminal();
        assert!(is_as_usual(&theirs));
        let end = || Stdio::from(theirs.try_clone().unwrap());
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", NAME, "--nocapture", "--test-threads=1"]);
        command.env(PANICS, who).env("RUST_BACKTRACE", "0");
        command.stdin(end()).stdout(end()).stderr(end());
        let status = command.status().unwrap();
        assert!(!status.success());
        assert!(is_as_usual(&theirs), "{who}");
        // All of it has been written, and is less than the terminal buffers; it comes in pieces.
        let mut said = String::new();
        while !said.contains("test result: FAILED") {
            let mut piece = [0; 1 << 12];
            let length = ours.read(&mut piece).unwrap();
            said.push_str(&String::from_utf8_lossy(&piece[..length]));
        }
        let at = |words: &str| {
            let found = said.rfind(words);
            found.unwrap_or_else(|| panic!("{who}: no {words:?} in {said:?}"))
        };
        // The cursor is seen, the mouse is the terminal's, and what was there before is there
        // again: what has gone wrong is read below it.
        for sequence in ["\x1b[?25h", "\x1b[?1000l", "\x1b[?1049l"] {
            assert!(at("\x1b[?1049h") < at(sequence), "{who}: {said:?}");
            assert!(at(sequence) < at("on purpose"), "{who}: {said:?}");
        }
    }
}
