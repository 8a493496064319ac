//! Rights to trace, as the kernel has them: whether a process can open another's `/proc/PID/mem`
//! for reading, which is what a client of the service has to show, against `PTRACE_SEIZE`, which is
//! what `strace -p` asks for. Pairs are made by chance, from a fixed seed.
//!
//! Where both differ, and must:
//!
//! - `open` asks for the user, group and effective capabilities that a process has for files
//!   (`PTRACE_MODE_ATTACH_FSCREDS`), `PTRACE_SEIZE` for the real ones and the permitted
//!   capabilities (`PTRACE_MODE_ATTACH_REALCREDS`). A process that has one kind of each has one
//!   answer.
//! - A file also has an owner and a mode: `/proc/PID/mem` is its user's (root's where memory may
//!   not be dumped) and 0600. A process that may trace another user's by `CAP_SYS_PTRACE` alone
//!   cannot open it without `CAP_DAC_READ_SEARCH`. So `open` is never less strict. Such a tracer
//!   shows the service its right by a call instead.
//! - A process opens its own; it cannot seize itself, nor what has another tracer, nor what ends.
//!   No pair here is like that.
//!
//! The service is asked as well: it gives nothing that the kernel does not let be traced, and
//! everything that the kernel does, but for what its rule withholds ([`Stricter`]).

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, ensure};
use tests::attacker::{ATTACKER, VICTIM};
use tests::dist;
use tests::rights::missing_right;

use crate::serve::{Service, address};

/// Pairs whose tracer has one user, one group and one set of capabilities.
const PAIRS: usize = 280;

/// Pairs whose tracer has others for files than it really has.
const SPLIT_PAIRS: usize = 120;

/// Pairs of which the service is asked too, those with each of Yama's scopes beyond 0, and the seed
/// of what they are.
const SERVICE_PAIRS: usize = 200;
const YAMA_PAIRS: usize = 70;
const SERVICE_SEED: u64 = 11;

const DAC_OVERRIDE: u64 = 1 << 1;
const DAC_READ_SEARCH: u64 = 1 << 2;
const NET_RAW: u64 = 1 << 13;
const SYS_PTRACE: u64 = 1 << 19;

const SCOPE: &str = "/proc/sys/kernel/yama/ptrace_scope";

/// Numbers that look like chance, and are the same each time.
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        // The constants are those of Knuth's generator; its upper half is good.
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005);
        self.0 = self.0.wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }

    fn pick<T: Copy>(&mut self, all: &[T]) -> T {
        let index = usize::try_from(self.next()).unwrap_or(0) % all.len();
        all[index]
    }

    fn percent(&mut self, percent: u64) -> bool {
        self.next() % 100 < percent
    }

    /// Real, effective, saved and that for files: mostly one.
    fn ids(&mut self, mixed: u64) -> [u32; 4] {
        let one = self.pick(&[ATTACKER, ATTACKER, VICTIM, VICTIM, 0]);
        if !self.percent(mixed) {
            return [one; 4];
        }
        let all = [ATTACKER, VICTIM, 0];
        let effective = self.pick(&all);
        [self.pick(&all), effective, self.pick(&all), effective]
    }
}

/// Rights of a process.
#[derive(Clone, Copy, Debug)]
struct Rights {
    users: [u32; 4],
    groups: [u32; 4],
    group: i64,
    permitted: u64,
    effective: u64,
    dumpable: i32,
    namespace: char,
}

impl Rights {
    fn of_target(chance: &mut Chance) -> Self {
        let permitted = chance.pick(&[0, 0, 0, NET_RAW, SYS_PTRACE]);
        Self {
            users: chance.ids(25),
            groups: chance.ids(15),
            group: chance.pick(&[-1, i64::from(ATTACKER), i64::from(VICTIM)]),
            permitted,
            effective: if chance.percent(50) { permitted } else { 0 },
            dumpable: chance.pick(&[1, 1, 1, 0, -1]),
            namespace: chance.pick(&['n', 'n', 'n', 'l', 'e']),
        }
    }

    /// Returns the rights of a process with one user, and the group of the same number.
    fn of_one_user(user: u32, capabilities: u64, namespace: char) -> Self {
        Self {
            users: [user; 4],
            groups: [user; 4],
            group: -1,
            permitted: capabilities,
            effective: capabilities,
            dumpable: 1,
            namespace,
        }
    }

    /// Returns a tracer with one kind of each.
    fn of_tracer(chance: &mut Chance, target: &Self) -> Self {
        let permitted = chance.pick(&[
            0,
            0,
            0,
            SYS_PTRACE,
            SYS_PTRACE | DAC_READ_SEARCH,
            SYS_PTRACE | DAC_OVERRIDE,
            DAC_READ_SEARCH,
            NET_RAW | DAC_OVERRIDE,
        ]);
        // In a namespace that its user made only one id is known, and others cannot be had.
        let namespaces: &[char] = if target.namespace == 'e' {
            &['n', 'n', 'j', 'j', 'l', 'e']
        } else {
            &['n', 'n', 'n', 'n', 'l', 'e']
        };
        let like = chance.percent(50) && target.users[0] == target.users[1];
        Self {
            users: if like {
                [target.users[0]; 4]
            } else {
                chance.ids(0)
            },
            groups: if like && chance.percent(80) {
                [target.groups[0]; 4]
            } else {
                chance.ids(0)
            },
            group: chance.pick(&[-1, i64::from(ATTACKER), i64::from(VICTIM)]),
            permitted,
            effective: permitted,
            dumpable: 1,
            namespace: chance.pick(namespaces),
        }
    }

    /// Returns it with others for files than it really has.
    fn split(self, chance: &mut Chance) -> Self {
        let other = |[one, ..]: [u32; 4]| if one == ATTACKER { VICTIM } else { ATTACKER };
        let (user, group) = (other(self.users), other(self.groups));
        let mut split = self;
        match chance.next() % 3 {
            _ if self.permitted != 0 && chance.percent(50) => split.effective = 0,
            // Really the other one.
            0 => {
                split.users[0] = user;
                split.groups[0] = group;
            }
            // Files as the other one.
            _ => {
                split.users[3] = user;
                split.groups[3] = group;
            }
        }
        split
    }

    fn text(&self) -> String {
        let list = |ids: [u32; 4]| ids.map(|id| id.to_string()).join(",");
        format!(
            "{}:{}:{}:{:x}:{:x}:{}:{}",
            list(self.users),
            list(self.groups),
            self.group,
            self.permitted,
            self.effective,
            self.dumpable,
            self.namespace
        )
    }

    fn is_split(&self) -> bool {
        self.users[0] != self.users[3]
            || self.groups[0] != self.groups[3]
            || self.effective != self.permitted
    }

    /// Tells whether it is one of its user alone: the rule by which the kernel's events of a
    /// process are given to a user.
    fn is_plain(&self) -> bool {
        let is_one = |ids: [u32; 4]| ids.iter().all(|id| *id == ids[0]);
        let has_one = is_one(self.users) && is_one(self.groups);
        has_one && self.permitted == 0 && self.dumpable == 1 && self.namespace == 'n'
    }

    /// Tells whether it may read a file of mode 0600 that is this user's.
    fn may_read(&self, owner: u32) -> bool {
        let is_able = self.effective & (DAC_OVERRIDE | DAC_READ_SEARCH) != 0;
        self.users[3] == owner || is_able && self.namespace != 'l'
    }
}

/// Process that has made the conversation with the service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Conversation {
    /// The tracer.
    Own,
    /// One without the tracer's capabilities, as far as the kernel has noted it.
    Lent,
}

impl Conversation {
    fn word(self) -> Option<&'static str> {
        (self == Self::Lent).then_some("lent")
    }
}

/// Two processes, and what the kernel says of them.
#[derive(Debug)]
struct Pair {
    target: Rights,
    tracer: Rights,
    #[expect(dead_code, reason = "shown where an answer is wrong")]
    relation: char,
    may_open: bool,
    may_seize: bool,
    owner: u32,
    /// The service's answer, where it was asked.
    is_granted: Option<bool>,
}

impl Pair {
    fn ask(
        program: &Path,
        (target, tracer): (Rights, Rights),
        relation: char,
        service: Option<(&Path, Conversation)>,
    ) -> anyhow::Result<Self> {
        let mut command = Command::new("timeout");
        command.args(["--kill-after=1", "20"]).arg(program);
        command.args([target.text(), tracer.text(), relation.to_string()]);
        command.args(service.map(|(socket, _)| socket));
        command.args(service.and_then(|(_, conversation)| conversation.word()));
        let output = command.output()?;
        let (said, errors) = (
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr),
        );
        ensure!(output.status.success(), "{command:?}: {errors}");
        let words: Vec<_> = said.split_whitespace().collect();
        let [
            "open",
            open,
            "seize",
            seize,
            "owner",
            owner,
            "granted",
            granted,
        ] = words[..]
        else {
            anyhow::bail!("{command:?}: {said}");
        };
        let refused = [0, libc::EACCES, libc::EPERM];
        let [open, seize] = [open, seize].map(|word| word.parse::<i32>().unwrap_or(-1));
        ensure!(
            refused.contains(&open) && refused.contains(&seize),
            "{command:?}: {said}"
        );
        Ok(Self {
            target,
            tracer,
            relation,
            may_open: open == 0,
            may_seize: seize == 0,
            owner: owner.parse().context("its owner")?,
            is_granted: service.map(|_| granted == "1"),
        })
    }
}

/// Sets Yama's scope, and takes that back however the test ends.
struct Scope(String);

impl Scope {
    /// Returns nothing where the kernel has no Yama.
    fn hold() -> Option<Self> {
        std::fs::read_to_string(SCOPE).ok().map(Self)
    }

    fn set(&self, scope: u32) {
        let set = std::fs::write(SCOPE, scope.to_string());
        set.unwrap_or_else(|error| panic!("{SCOPE}, {scope} instead of {}: {error}", self.0));
    }
}

/// Returns the values of Yama's scope that are tried.
fn scopes(scope: Option<&Scope>) -> &'static [u32] {
    // 3 cannot be taken back before the machine starts anew: only where that is wanted.
    let may_stay = std::env::var_os("TRACER_YAMA_FOR_GOOD").is_some();
    match scope {
        None => {
            eprintln!("this kernel has no Yama: {SCOPE} is not there");
            &[0]
        }
        Some(_) if may_stay => &[0, 1, 2, 3],
        Some(_) => &[0, 1, 2],
    }
}

impl Drop for Scope {
    fn drop(&mut self) {
        let _ = std::fs::write(SCOPE, &self.0);
    }
}

/// Counts what there was.
#[derive(Debug, Default)]
struct Found {
    allowed: usize,
    refused: usize,
    /// Allowed to trace, and refused the file for its owner and mode alone.
    by_mode: usize,
    only_opened: usize,
    only_seized: usize,
    /// Of one user, by the rule of the agent.
    by_rule: usize,
}

impl Found {
    /// Notes an answer for a tracer with one kind of each, which is the same twice.
    fn note(&mut self, pair: &Pair, scope: u32) {
        let (target, tracer) = (&pair.target, &pair.tracer);
        let is_same = (target.users, target.groups) == (tracer.users, tracer.groups);
        if is_same && target.is_plain() && tracer.namespace == 'n' {
            let is_allowed = pair.may_open && pair.may_seize;
            assert!(is_allowed || scope > 0, "the rule shows too much: {pair:?}");
            self.by_rule += 1;
        }
        match (pair.may_open, pair.may_seize) {
            (true, true) => self.allowed += 1,
            (false, false) => self.refused += 1,
            (false, true) => {
                assert!(!pair.tracer.may_read(pair.owner), "{pair:?}");
                self.by_mode += 1;
            }
            (true, false) => panic!("who may not trace can open: {pair:?}"),
        }
    }

    /// Notes an answer for a tracer that has other rights for files than it really has.
    fn note_split(&mut self, pair: &Pair) {
        assert!(pair.tracer.is_split(), "{pair:?}");
        self.only_opened += usize::from(pair.may_open && !pair.may_seize);
        self.only_seized += usize::from(!pair.may_open && pair.may_seize);
    }
}

fn ask_all(program: &Path, seed: u64, scope: u32) -> Found {
    let mut chance = Chance(seed);
    let mut found = Found::default();
    for index in 0..PAIRS + SPLIT_PAIRS {
        let target = Rights::of_target(&mut chance);
        let tracer = Rights::of_tracer(&mut chance, &target);
        let relation = chance.pick(&['s', 's', 'd', 'p']);
        let ask = |tracer| {
            let pair = Pair::ask(program, (target, tracer), relation, None);
            pair.expect("an answer")
        };
        if index < PAIRS {
            found.note(&ask(tracer), scope);
        } else {
            found.note_split(&ask(tracer.split(&mut chance)));
        }
    }
    found
}

#[test]
#[ignore = "needs root: makes processes of other users"]
fn who_can_open_a_process_s_memory_is_who_may_trace_it() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    tests::attacker::open_to_all(folder.path()).unwrap();
    let program = dist::compile("who_may_trace", folder.path()).unwrap();
    let scope = Scope::hold();
    for (seed, value) in (1..).zip(scopes(scope.as_ref())) {
        if let Some(scope) = &scope {
            scope.set(*value);
        }
        let found = ask_all(&program, seed, *value);
        eprintln!("Yama {value}: {found:?}");
        let is_even = found.allowed + found.refused + found.by_mode == PAIRS;
        assert!(is_even && found.allowed + found.refused >= 200, "{found:?}");
        // From 2 on only CAP_SYS_PTRACE helps, and with 3 nothing.
        let (allowed, refused) = match value {
            0 => (60, 60),
            1 => (20, 60),
            2 => (10, 60),
            _ => (0, 200),
        };
        assert!(
            found.allowed >= allowed && found.refused >= refused,
            "{found:?}"
        );
        assert!(found.by_rule >= 10, "{found:?}");
        if *value == 0 {
            // As it must be: see the head of this file.
            assert!(found.by_mode > 0, "{found:?}");
            assert!(found.only_opened > 0 && found.only_seized > 0, "{found:?}");
        }
    }
}

/// Reasons for which the service refuses what `ptrace` allows: what is counted of each.
#[derive(Debug, Default)]
struct Stricter {
    /// A user namespace of the tracer's own, where it has not the right to trace all.
    by_namespace: usize,
    /// The target has capabilities, which the tracer has too.
    by_target: usize,
}

impl Stricter {
    fn note(&mut self, pair: &Pair) {
        let (target, tracer) = (&pair.target, &pair.tracer);
        let of_one_user = (target.users, target.groups) == (tracer.users, tracer.groups);
        let sees_all = tracer.effective & SYS_PTRACE != 0 && tracer.namespace == 'n';
        let to = if tracer.namespace != 'n' {
            &mut self.by_namespace
        } else {
            assert!(
                !sees_all && of_one_user && target.permitted != 0,
                "{pair:?}"
            );
            &mut self.by_target
        };
        *to += 1;
    }
}

#[test]
#[ignore = "loads eBPF"]
fn the_service_gives_what_ptrace_allows_but_for_what_its_rule_withholds() {
    if missing_right().is_some() {
        return;
    }
    let service = Service::start().unwrap();
    let socket = address(service.folder.path());
    let program = dist::compile("who_may_trace", service.folder.path()).unwrap();
    let scope = Scope::hold();
    // More of them by hand.
    let seeds = std::env::var("TRACER_SEEDS").ok();
    let seeds = seeds.and_then(|seeds| seeds.parse().ok()).unwrap_or(0);
    for seed in 0..seeds {
        let asked = Asked::all(&program, &socket, 100 + seed, SERVICE_PAIRS);
        eprintln!("seed {}, {SERVICE_PAIRS} pairs: {asked:?}", 100 + seed);
    }
    for (seed, value) in (SERVICE_SEED..).zip(scopes(scope.as_ref())) {
        if let Some(scope) = &scope {
            scope.set(*value);
        }
        let count = if *value == 0 {
            SERVICE_PAIRS
        } else {
            YAMA_PAIRS
        };
        let asked = Asked::all(&program, &socket, seed, count);
        eprintln!("Yama {value}, seed {seed}, {count} pairs: {asked:?}");
        // From 2 on only CAP_SYS_PTRACE helps, and with 3 nothing.
        let (same, given, ordinary) = match value {
            0 => (200, 40, 10),
            1 => (55, 3, 3),
            2 => (54, 1, 3),
            _ => (70, 0, 3),
        };
        assert!(
            asked.same >= same && asked.given >= given && asked.ordinary >= ordinary,
            "{asked:?}"
        );
    }
}

#[test]
#[ignore = "loads eBPF"]
fn what_is_in_a_user_namespace_is_given_to_its_maker_and_to_who_may_trace_all_in_it() {
    if missing_right().is_some() {
        return;
    }
    let service = Service::start().unwrap();
    let socket = address(service.folder.path());
    let program = dist::compile("who_may_trace", service.folder.path()).unwrap();
    let scope = Scope::hold();
    if let Some(scope) = &scope {
        scope.set(0);
    }
    let one = Rights::of_one_user;
    let own = one(ATTACKER, SYS_PTRACE | NET_RAW, 'l');
    let undumpable = Rights { dumpable: 0, ..own };
    let [outside, another, root] = [ATTACKER, VICTIM, 0].map(|user| one(user, 0, 'n'));
    for (target, tracer, is_allowed) in [
        (own, outside, true),
        (one(ATTACKER, 0, 'l'), outside, true),
        (one(0, SYS_PTRACE, 'l'), root, true),
        // Its memory counts outside, where it was executed.
        (undumpable, outside, false),
        (own, another, false),
        (own, root, false),
        // Made by root: the ids are the tracer's own there.
        (one(ATTACKER, 0, 'e'), outside, false),
        // A namespace beside it, of the same owner.
        (own, one(ATTACKER, 0, 'l'), false),
        (own, own, false),
        // In it, with the right to trace all there; root has made it.
        (
            one(VICTIM, NET_RAW, 'e'),
            one(ATTACKER, SYS_PTRACE, 'j'),
            true,
        ),
        (one(VICTIM, 0, 'e'), one(ATTACKER, NET_RAW, 'j'), false),
        (one(VICTIM, 0, 'n'), one(ATTACKER, SYS_PTRACE, 'e'), false),
        (one(VICTIM, 0, 'e'), one(ATTACKER, SYS_PTRACE, 'e'), false),
    ] {
        let service = Some((socket.as_path(), Conversation::Own));
        let pair = Pair::ask(&program, (target, tracer), 's', service).unwrap();
        let answers = (pair.may_seize, pair.is_granted);
        assert_eq!(answers, (is_allowed, Some(is_allowed)), "{pair:?}");
    }
}

#[test]
#[ignore = "loads eBPF"]
fn who_may_trace_all_is_given_all_only_in_a_conversation_of_its_own() {
    if missing_right().is_some() {
        return;
    }
    let service = Service::start().unwrap();
    let socket = address(service.folder.path());
    let program = dist::compile("who_may_trace", service.folder.path()).unwrap();
    let scope = Scope::hold();
    if let Some(scope) = &scope {
        scope.set(0);
    }
    let one = Rights::of_one_user;
    let [tracer, root] = [ATTACKER, 0].map(|user| one(user, SYS_PTRACE | DAC_READ_SEARCH, 'n'));
    let targets = [
        one(VICTIM, 0, 'n'),
        one(0, 0, 'n'),
        one(VICTIM, NET_RAW, 'n'),
        one(VICTIM, 0, 'l'),
        Rights {
            dumpable: 0,
            ..one(VICTIM, 0, 'n')
        },
    ];
    let pairs = targets.into_iter().map(|target| (target, tracer));
    for pair in pairs.chain([(one(VICTIM, 0, 'n'), root)]) {
        for (conversation, is_granted) in [(Conversation::Own, true), (Conversation::Lent, false)] {
            let service = Some((socket.as_path(), conversation));
            let pair = Pair::ask(&program, pair, 's', service).unwrap();
            assert!(pair.may_open && pair.may_seize, "{pair:?}");
            assert_eq!(
                pair.is_granted,
                Some(is_granted),
                "{conversation:?} {pair:?}"
            );
        }
    }
    // All capabilities of a namespace of one's own are none of the machine's.
    let within = one(ATTACKER, SYS_PTRACE | DAC_READ_SEARCH, 'l');
    let service = Some((socket.as_path(), Conversation::Own));
    let pair = Pair::ask(&program, (one(VICTIM, 0, 'n'), within), 's', service).unwrap();
    assert_eq!(
        (pair.may_seize, pair.is_granted),
        (false, Some(false)),
        "{pair:?}"
    );
}

/// Answers of the service.
#[derive(Debug, Default)]
struct Asked {
    /// Pairs with the kernel's answer, and of these the ones that are given.
    same: usize,
    given: usize,
    /// Pairs without special rights, outside of user namespaces.
    ordinary: usize,
    stricter: Stricter,
}

impl Asked {
    fn all(program: &Path, socket: &Path, seed: u64, count: usize) -> Self {
        let mut chance = Chance(seed);
        let mut asked = Self::default();
        for _ in 0..count {
            let target = Rights::of_target(&mut chance);
            let tracer = Rights::of_tracer(&mut chance, &target);
            let relation = chance.pick(&['s', 's', 'd', 'p']);
            let service = Some((socket, Conversation::Own));
            let pair = Pair::ask(program, (target, tracer), relation, service);
            asked.note(&pair.expect("an answer"));
        }
        asked
    }

    fn note(&mut self, pair: &Pair) {
        let is_granted = pair.is_granted == Some(true);
        assert!(pair.may_seize || !is_granted, "ptrace refuses: {pair:?}");
        if pair.may_seize == is_granted {
            self.same += 1;
            self.given += usize::from(is_granted);
        } else {
            self.stricter.note(pair);
        }
        let is_ordinary = |rights: &Rights| rights.permitted == 0 && rights.namespace == 'n';
        if is_ordinary(&pair.target) && is_ordinary(&pair.tracer) {
            assert!(pair.may_seize == is_granted, "{pair:?}");
            self.ordinary += 1;
        }
    }
}
