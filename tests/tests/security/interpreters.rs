//! Clients that say anything of the interpreters of Python that their processes have.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs::File;
use std::os::fd::{AsFd as _, AsRawFd as _, FromRawFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::thread;

use tests::attacker::ATTACKER;
use tests::rights::missing_right;
use tests::target::{Target, values_after};
use tracer_common::event_type::EventTypeId;
use tracer_common::kernel::{PYTHON_PROCESS_WORDS, wanted};
use tracer_engine::EventSet;
use tracer_posix::agent::protocol::{Answer, Ask, Detail, VERSION};
use tracer_posix::descriptors::send_with_files;
use tracer_posix::wire::{framed, read_message};

use crate::serve::{SOON, Service, address};

/// Interpreters that are said of one process.
const ROUNDS: u64 = 500;

/// Script that makes calls for each line on its input, and says how many it has made.
const CALLS: &str = "import os, sys
file = os.open('/proc/self/exe', os.O_RDONLY)
made = 0
print('ready', flush=True)
for line in sys.stdin:
    for n in range(20): os.posix_fadvise(file, n, 1, 0)
    made += 20
    print('made', made, flush=True)
    print('ready', flush=True)
";

struct Client {
    connection: UnixStream,
    /// Descriptors that prove its right to its process.
    proof: Vec<OwnedFd>,
}

impl Client {
    fn new(service: &Service, pid: i32) -> Self {
        let connection = UnixStream::connect(address(service.folder.path())).unwrap();
        connection.set_read_timeout(Some(SOON)).unwrap();
        // SAFETY: takes integers only.
        let process = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
        let process = i32::try_from(process).unwrap();
        assert!(process >= 0);
        // SAFETY: just opened, and no other value owns it.
        let process = unsafe { OwnedFd::from_raw_fd(process) };
        let memory = File::open(format!("/proc/{pid}/mem"));
        // One that may not open it tries another file.
        let memory = memory.or_else(|_refused| File::open("/dev/null"));
        Self {
            connection,
            proof: vec![process, memory.unwrap().into()],
        }
    }

    fn ask(&mut self, ask: &Ask) -> Answer {
        let message = framed(ask).unwrap();
        let files = match ask {
            Ask::Hello { .. } | Ask::Contexts { .. } | Ask::Interpreter { .. } => &self.proof[..],
            _ => &[],
        };
        let files: Vec<_> = files.iter().map(|file| file.as_raw_fd()).collect();
        send_with_files(self.connection.as_fd(), &message, &files).unwrap();
        read_message(&mut self.connection).unwrap()
    }

    /// Begins a stream of system calls with their stacks.
    fn begin(&mut self, python_frames: u32) {
        let calls = wanted::bit(EventTypeId::SYSCALL_ENTER);
        let detail = Box::new(Detail {
            types: calls,
            calls: [[u64::MAX; 16]; 2],
            stack_types: calls,
            user_frames: 1,
            python_frames,
            contexts: true,
            ..Detail::default()
        });
        let hello = Ask::Hello {
            version: VERSION,
            pid: 0,
            inherit: false,
            capacity: 1 << 20,
            keeps_oldest: false,
        };
        let mut filter = EventSet::EMPTY;
        filter.insert(EventTypeId::SWITCH_IN);
        let control = Ask::Control {
            running: true,
            filter: *filter.words(),
        };
        for ask in [Ask::Record { detail }, hello, control] {
            let answer = self.ask(&ask);
            assert!(matches!(answer, Answer::Done), "{answer:?}");
        }
    }

    fn say(&mut self, process: Option<[u64; PYTHON_PROCESS_WORDS]>) -> Answer {
        let process = process.map(Box::new);
        self.ask(&Ask::Interpreter { pid: 0, process })
    }

    /// Returns the number of events since the last time.
    fn collect(&mut self) -> usize {
        let mut count = 0;
        loop {
            let Answer::Events {
                events, has_more, ..
            } = self.ask(&Ask::Collect)
            else {
                panic!("no events");
            };
            count += events.len();
            if !has_more {
                return count;
            }
        }
    }
}

fn refused(answer: Answer) -> i32 {
    match answer {
        Answer::Refused { error, .. } => error,
        answer => panic!("{answer:?}"),
    }
}

fn program() -> Target {
    let mut program = Command::new("/usr/bin/python3");
    Target::start(program.args(["-c", CALLS])).unwrap().0
}

#[test]
#[ignore = "loads eBPF"]
fn whatever_a_client_says_of_an_interpreter_does_no_harm() {
    if missing_right().is_some() {
        return;
    }
    let service = Service::start().unwrap();
    let mut target = program();
    let mut client = Client::new(&service, target.pid());
    client.begin(64);
    let maps = std::fs::read_to_string(format!("/proc/{}/maps", target.pid())).unwrap();
    let first = |line: &str| u64::from_str_radix(line.split('-').next()?, 16).ok();
    let addresses: Vec<u64> = maps.lines().filter_map(first).collect();
    let mut random = 1_u64;
    let mut next = || {
        // A generator of Lehmer's kind: the same numbers each time.
        random = random.wrapping_mul(0xda94_2042_e4dd_58b5).wrapping_add(1);
        random >> 16
    };
    let mut events = 0;
    for _ in 0..ROUNDS {
        let mut words: [u64; PYTHON_PROCESS_WORDS] = std::array::from_fn(|_| next());
        // Addresses that are there, mostly; a version that there is; offsets, many of them small.
        for word in &mut words[..4] {
            let index = usize::try_from(next()).unwrap() % addresses.len();
            *word = addresses[index] + next() % 4096;
        }
        words[4] = (1 << 32) | (8 + next() % 7);
        for word in &mut words[5..] {
            *word &= [u64::MAX, 0x00f8_00f8_00f8_00f8][usize::try_from(next() % 2).unwrap()];
        }
        let answer = client.say(Some(words));
        assert!(matches!(answer, Answer::Done), "{answer:?}");
        target.ask("").unwrap();
        events += client.collect();
    }
    let answer = client.say(None);
    assert!(matches!(answer, Answer::Done), "{answer:?}");
    let said = target.ask("").unwrap();
    let said = values_after(&said, "made").unwrap();
    assert_eq!(said, [[20 * (ROUNDS + 1)]]);
    events += client.collect();
    // Each call, and nearly each with a stack.
    assert!(events as u64 > 30 * ROUNDS, "{events}");
    assert!(target.end().unwrap().success());
}

#[test]
#[ignore = "loads eBPF"]
fn an_interpreter_is_taken_where_frames_of_python_are_recorded_of_a_process_that_was_asked_for() {
    if missing_right().is_some() {
        return;
    }
    let service = Service::start().unwrap();
    let target = program();
    let words = Some([1; PYTHON_PROCESS_WORDS]);
    let mut early = Client::new(&service, target.pid());
    assert_eq!(refused(early.say(words)), libc::EINVAL);
    let mut without = Client::new(&service, target.pid());
    without.begin(0);
    assert_eq!(refused(without.say(words)), libc::EINVAL);
    let mut of_another = Client::new(&service, target.pid());
    of_another.begin(1);
    let other = program();
    of_another.proof = Client::new(&service, other.pid()).proof;
    assert_eq!(refused(of_another.say(words)), libc::ESRCH);
    // The conversation goes on.
    of_another.proof = Client::new(&service, target.pid()).proof;
    assert!(matches!(of_another.say(words), Answer::Done));
}

/// Makes this thread one of a user and a group without any other right.
fn become_user(user: u32) {
    let calls = [
        // SAFETY: takes integers and a null; the calls change the thread that makes them alone.
        unsafe { libc::syscall(libc::SYS_setgroups, 0, 0) },
        // SAFETY: as above.
        unsafe { libc::syscall(libc::SYS_setresgid, user, user, user) },
        // SAFETY: as above.
        unsafe { libc::syscall(libc::SYS_setresuid, user, user, user) },
    ];
    assert_eq!(calls, [0; 3]);
}

#[test]
#[ignore = "loads eBPF"]
fn a_member_of_the_group_has_no_memory_of_others_read() {
    if missing_right().is_some() {
        return;
    }
    let service = Service::start_with(&format!("[serve]\ngroup = \"{ATTACKER}\"\n")).unwrap();
    let mut target = program();
    let pid = target.pid();
    thread::scope(|scope| {
        let member = scope.spawn(|| {
            become_user(ATTACKER);
            let mut client = Client::new(&service, pid);
            // Every process's events are given.
            client.begin(1);
            for files in [2, 1] {
                client.proof.truncate(files);
                let words = Some([1; PYTHON_PROCESS_WORDS]);
                let of_interpreter = refused(client.say(words));
                let place = Some([0, 8, 0]);
                let of_contexts = refused(client.ask(&Ask::Contexts { pid: 0, place }));
                assert_eq!((of_interpreter, of_contexts), (libc::EPERM, libc::EPERM));
            }
            client
        });
        let mut client = member.join().unwrap();
        target.ask("").unwrap();
        assert!(client.collect() > 20);
    });
}
