//! The stage in which callbacks and messages get types of their own.

use std::collections::HashMap;

use foldhash::fast::RandomState;
use tracer_common::event_type::{EventTypeId, TRACE_EVENT_NAME_MAX};
use tracer_common::kernel::typed_data;
use tracer_engine::EventTypes;
use tracer_engine::event::MonotonicNs;
use tracer_text::self_describing::Typed;

use super::graph::{address, signed};
use super::{Graph, PREFIX};
use crate::consumer::{Consumer, FlushReason, TraceLosses};
use crate::event_view::EventView;
use crate::gap::Gap;
use crate::summary::{Summary, WriteLosses};

/// The first identifier of the types that are made here, where it is free: programs' own types have
/// lower ones, but for those of programs that have thousands.
const FIRST: u32 = 4096;

/// Most types that are made: callbacks beyond keep the type that all have.
const MOST_TYPES: u32 = 4096;

/// Words in front of the topic in the names of the types of messages: of one that is published,
/// and of one that is taken.
pub const DELIVERY: [&[u8]; 2] = [b"ros2 published ", b"ros2 taken "];

/// Where the key of a message is in the data of these, from and to: the time of its source.
pub const DELIVERY_KEYS: [(usize, usize); 2] = [
    key(&["rmw_publisher_handle", "message"], "timestamp"),
    key(&["rmw_subscription_handle", "message"], "source_timestamp"),
];

/// Returns where a field of eight bytes is behind fields of eight bytes each.
const fn key(before: &[&str], name: &str) -> (usize, usize) {
    let mut at = typed_data::START + typed_data::HEAD + name.len();
    let mut rest = before;
    while let [first, others @ ..] = rest {
        at += typed_data::HEAD + first.len() + 8;
        rest = others;
    }
    (at, at + 8)
}

/// Gives all events to a consumer: those of callbacks as `NODE TOPIC begin` and `NODE TOPIC end`,
/// those of messages as [`DELIVERY`] says, all others as they are.
#[derive(Debug)]
pub struct Callbacks<C> {
    to: C,
    graph: Graph,
    /// All types that the consumer knows; empty as long as there are no robots.
    types: EventTypes,
    has_robots: bool,
    /// Types that were made, by their names.
    made: HashMap<[Vec<u8>; 2], [EventTypeId; 2], RandomState>,
    /// Callbacks that are known, with the names of their types.
    known: HashMap<(i32, u64), String, RandomState>,
    /// Callbacks of a process that are called the same, in their order.
    alike: HashMap<(i32, String), Vec<u64>, RandomState>,
}

/// Type that an event gets of two: that of the beginning, or that of the end.
#[derive(Clone, Copy)]
enum Side {
    Begin,
    End,
}

impl Side {
    /// Returns its one of two.
    fn choose<T>(self, [begin, end]: &[T; 2]) -> &T {
        match self {
            Self::Begin => begin,
            Self::End => end,
        }
    }
}

impl<C: Consumer> Callbacks<C> {
    /// Returns the stage before a consumer.
    pub fn before(to: C) -> Self {
        Self {
            to,
            graph: Graph::default(),
            types: EventTypes::default(),
            has_robots: false,
            made: HashMap::default(),
            known: HashMap::default(),
            alike: HashMap::default(),
        }
    }

    /// Returns the type of an event of robots, and its name; `None` where it keeps its own.
    fn retyped(&mut self, view: &EventView<'_>) -> Option<(EventTypeId, Vec<u8>)> {
        let event = view.name.strip_prefix(PREFIX)?;
        let data = view.event.data;
        let typed = Typed::parse_event(view.name, data)?;
        let pid = view.event.header.pid;
        match event {
            b"callback_start" => self.callback(pid, address(typed, "callback")?, Side::Begin),
            b"callback_end" => self.callback(pid, address(typed, "callback")?, Side::End),
            b"rmw_publish" => {
                let handle = address(typed, "rmw_publisher_handle")?;
                let stamp = signed(typed, "timestamp")?;
                self.message((pid, handle), stamp, data, Side::Begin)
            }
            b"rmw_take" => {
                let handle = address(typed, "rmw_subscription_handle")?;
                let stamp = signed(typed, "source_timestamp")?;
                (signed(typed, "taken")? != 0).then_some(())?;
                self.message((pid, handle), stamp, data, Side::End)
            }
            _ => {
                if self.graph.learn(pid, event, typed) {
                    // Handles are used again.
                    self.forget_names(pid);
                }
                None
            }
        }
    }

    fn callback(&mut self, pid: i32, callback: u64, side: Side) -> Option<(EventTypeId, Vec<u8>)> {
        let name = match self.known.get(&(pid, callback)) {
            Some(name) => name.clone(),
            None => {
                let name = self.name(pid, callback);
                // What is not remembered is found anew.
                if self.known.len() < usize::try_from(MOST_TYPES).unwrap_or(0) {
                    self.known.insert((pid, callback), name.clone());
                }
                name
            }
        };
        let names = [" begin", " end"].map(|word| format!("{name}{word}").into_bytes());
        self.type_of(names, side)
    }

    /// Returns the name of a callback, which has a number where others of its process are called
    /// the same.
    fn name(&mut self, pid: i32, callback: u64) -> String {
        let name = shortened(self.graph.callback(pid, callback));
        if self.alike.len() >= usize::try_from(MOST_TYPES).unwrap_or(0) {
            return name;
        }
        let alike = self.alike.entry((pid, name.clone())).or_default();
        let index = alike.iter().position(|known| *known == callback);
        let index = index.unwrap_or_else(|| {
            alike.push(callback);
            alike.len() - 1
        });
        match index {
            0 => name,
            index => format!("{name} #{}", index + 1),
        }
    }

    fn message(
        &mut self,
        (pid, handle): (i32, u64),
        stamp: i64,
        data: &[u8],
        side: Side,
    ) -> Option<(EventTypeId, Vec<u8>)> {
        let (from, to) = *side.choose(&DELIVERY_KEYS);
        // Without a time of its source, or where that is elsewhere, a message is not followed.
        let is_there = data.get(from..to)? == stamp.to_ne_bytes();
        (is_there && stamp != 0).then_some(())?;
        let topic = self.graph.topic(pid, handle)?;
        let names = DELIVERY.map(|before| [before, topic.as_bytes()].concat());
        self.type_of(names, side)
    }

    /// Returns the type of a side of two that are called so, and its name. Both are made together.
    fn type_of(&mut self, names: [Vec<u8>; 2], side: Side) -> Option<(EventTypeId, Vec<u8>)> {
        let ids = match self.made.get(&names) {
            Some(ids) => *ids,
            None => {
                let count = u32::try_from(self.made.len()).unwrap_or(u32::MAX);
                let first = FIRST.saturating_add(count.saturating_mul(2));
                if first >= FIRST + MOST_TYPES {
                    return None;
                }
                let [begin, end] = &names;
                let ids = [(begin, first), (end, first + 1)];
                let ids = ids.map(|(name, id)| self.types.define_user(name, Some(EventTypeId(id))));
                self.made.insert(names.clone(), ids);
                self.to.learn_types(&self.types);
                ids
            }
        };
        Some((*side.choose(&ids), side.choose(&names).clone()))
    }

    fn forget_names(&mut self, pid: i32) {
        self.known.retain(|(of, _), _| *of != pid);
    }

    fn forget(&mut self, pid: i32) {
        if self.graph.lacks(pid) {
            return;
        }
        self.graph.forget(pid);
        self.forget_names(pid);
        self.alike.retain(|(of, _), _| *of != pid);
    }
}

/// Returns a name that leaves space for words behind it in the name of a type.
fn shortened(name: String) -> String {
    const MOST: usize = TRACE_EVENT_NAME_MAX - " #99 begin".len();
    const MARK: &str = "…";
    if name.len() <= MOST {
        return name;
    }
    let end = name.floor_char_boundary(MOST - MARK.len());
    format!("{}{MARK}", name.get(..end).unwrap_or_default())
}

impl<C: Consumer> Consumer for Callbacks<C> {
    fn begin(&mut self) {
        self.to.begin();
    }

    fn learn_types(&mut self, types: &EventTypes) {
        if !self.has_robots {
            self.has_robots = has_robots(types);
        }
        if !self.has_robots {
            return self.to.learn_types(types);
        }
        self.types = types.clone();
        for (names, ids) in &mut self.made {
            for (name, id) in names.iter().zip(ids) {
                *id = self.types.define_user(name, Some(*id));
            }
        }
        self.to.learn_types(&self.types);
    }

    fn gap(&mut self, gap: &Gap) {
        self.to.gap(gap);
    }

    fn count_losses(&mut self, losses: &TraceLosses) -> anyhow::Result<()> {
        self.to.count_losses(losses)
    }

    fn event(&mut self, view: &EventView<'_>) -> anyhow::Result<()> {
        if self.has_robots {
            if let Some((event_type, name)) = self.retyped(view) {
                let mut renamed = *view;
                renamed.event.header.event_type = event_type;
                renamed.name = &name;
                return self.to.event(&renamed);
            }
            let header = &view.event.header;
            if matches!(header.event_type, EventTypeId::EXIT | EventTypeId::EXEC) {
                self.forget(header.pid);
            }
        }
        self.to.event(view)
    }

    fn idle(&mut self, now: MonotonicNs) {
        self.to.idle(now);
    }

    fn flush(&mut self, reason: FlushReason) {
        self.to.flush(reason);
    }

    fn is_done(&self) -> bool {
        self.to.is_done()
    }

    fn complete(&mut self) -> Option<WriteLosses> {
        self.to.complete()
    }

    fn finish(self: Box<Self>, summary: &Summary) -> anyhow::Result<()> {
        Box::new(self.to).finish(summary)
    }
}

/// Tells whether robots have event types here.
fn has_robots(types: &EventTypes) -> bool {
    let first = types.next_from(EventTypeId::UNNAMED_USEREVENT);
    let next = |id: &EventTypeId| types.next_from(EventTypeId(id.0.saturating_add(1)));
    std::iter::successors(first, next)
        .filter_map(|id| types.name(id))
        .any(|name| name.starts_with(PREFIX))
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;

    use tracer_common::event_type::FIRST_USER_EVENT;
    use tracer_engine::event::{Event, EventHeader, Truncation};

    use super::super::graph::tests::{MadeField, beginnings, data};
    use super::*;

    /// Names of events, and whether the consumer knew the type before.
    type Seen = Rc<RefCell<Vec<(String, bool)>>>;

    #[derive(Default)]
    struct Consumed {
        types: EventTypes,
        seen: Seen,
    }

    impl Consumer for Consumed {
        fn learn_types(&mut self, types: &EventTypes) {
            self.types = types.clone();
        }

        fn event(&mut self, view: &EventView<'_>) -> anyhow::Result<()> {
            let is_known = self.types.name(view.event.header.event_type) == Some(view.name);
            let name = String::from_utf8(view.name.to_vec()).unwrap();
            self.seen.borrow_mut().push((name, is_known));
            Ok(())
        }
    }

    /// A stage, and the types that a trace has.
    struct Scene {
        stage: Callbacks<Consumed>,
        types: EventTypes,
        seen: Seen,
    }

    impl Scene {
        fn new() -> Self {
            let consumed = Consumed::default();
            let seen = Rc::clone(&consumed.seen);
            Self {
                stage: Callbacks::before(consumed),
                types: EventTypes::default(),
                seen,
            }
        }

        fn event(&mut self, pid: i32, name: &str, data: &[u8]) {
            let name = format!("ros2:{name}");
            let is_new = self.types.id(name.as_bytes()).is_none();
            let event_type = self.types.define_user(name.as_bytes(), None);
            if is_new {
                self.stage.learn_types(&self.types);
            }
            let header = EventHeader {
                time: MonotonicNs(1),
                event_type,
                pid,
                tid: pid,
                cpu: None,
                thread_id: 0,
                program_address: 0,
                truncation: Truncation::None,
            };
            let event = Event { header, data };
            let view = EventView {
                name: name.as_bytes(),
                ..EventView::bare(event, b"node")
            };
            self.stage.event(&view).unwrap();
        }

        fn begin(&mut self, pid: i32) {
            for (name, data) in beginnings() {
                self.event(pid, name, &data);
            }
        }

        fn callback(&mut self, pid: i32, callback: u64) {
            let data = data(&[MadeField::Address("callback", callback)]);
            self.event(pid, "callback_start", &data);
            self.event(pid, "callback_end", &data);
        }

        /// Takes the names of the events since the last call, all of types that were known.
        fn names(&self) -> Vec<String> {
            let seen = std::mem::take(&mut *self.seen.borrow_mut());
            assert!(seen.iter().all(|(_, is_known)| *is_known), "{seen:?}");
            seen.into_iter().map(|(name, _)| name).collect()
        }
    }

    #[test]
    fn callbacks_have_types_that_are_called_after_them() {
        let mut scene = Scene::new();
        scene.begin(9);
        scene.names();
        scene.callback(9, 5);
        assert_eq!(
            scene.names(),
            [
                "/robot/listener /chatter begin",
                "/robot/listener /chatter end"
            ]
        );
        let pairs = tracer_analysis::Pairs::among(&scene.stage.to.types, |_, _| true);
        let all = pairs.all();
        let stems: Vec<_> = all.iter().map(|(stem, ..)| *stem).collect();
        assert!(
            stems.contains(&&b"/robot/listener /chatter"[..]),
            "{stems:?}"
        );
    }

    #[test]
    fn what_is_called_the_same_in_one_process_has_a_number() {
        let mut scene = Scene::new();
        for pid in [9, 8] {
            scene.begin(pid);
        }
        let second = [
            MadeField::Address("subscription", 4),
            MadeField::Address("callback", 50),
        ];
        scene.event(9, "rclcpp_subscription_callback_added", &data(&second));
        scene.names();
        for (pid, callback) in [(9, 5), (9, 50), (9, 5), (8, 5)] {
            scene.callback(pid, callback);
        }
        let names = scene.names();
        let begins: Vec<_> = names.iter().step_by(2).collect();
        assert_eq!(
            begins,
            [
                "/robot/listener /chatter begin",
                "/robot/listener /chatter #2 begin",
                "/robot/listener /chatter begin",
                "/robot/listener /chatter begin",
            ]
        );
    }

    #[test]
    fn messages_are_published_and_taken_by_their_topic() {
        let mut scene = Scene::new();
        scene.begin(9);
        scene.event(
            8,
            "rcl_publisher_init",
            &data(&[
                MadeField::Address("rmw_publisher_handle", 1),
                MadeField::Text("topic_name", "/chatter"),
            ]),
        );
        scene.names();
        let published = data(&[
            MadeField::Address("rmw_publisher_handle", 1),
            MadeField::Address("message", 2),
            MadeField::Signed("timestamp", 77),
        ]);
        let taken = |stamp, taken| {
            data(&[
                MadeField::Address("rmw_subscription_handle", 3),
                MadeField::Address("message", 2),
                MadeField::Signed("source_timestamp", stamp),
                MadeField::Signed("taken", taken),
            ])
        };
        let [at_begin, at_end] = DELIVERY_KEYS;
        assert_eq!(published[at_begin.0..at_begin.1], 77_i64.to_ne_bytes());
        assert_eq!(taken(77, 1)[at_end.0..at_end.1], 77_i64.to_ne_bytes());

        scene.event(8, "rmw_publish", &published);
        scene.event(9, "rmw_take", &taken(77, 1));
        // What was not taken, or has no time, is no message that is followed.
        scene.event(9, "rmw_take", &taken(0, 0));
        scene.event(9, "rmw_take", &taken(0, 1));
        assert_eq!(
            scene.names(),
            [
                "ros2 published /chatter",
                "ros2 taken /chatter",
                "ros2:rmw_take",
                "ros2:rmw_take",
            ]
        );
    }

    #[test]
    fn another_program_has_other_callbacks() {
        let mut scene = Scene::new();
        scene.begin(9);
        scene.callback(9, 5);
        scene.stage.forget(9);
        scene.names();
        scene.callback(9, 5);
        assert_eq!(scene.names(), ["callback 0x5 begin", "callback 0x5 end"]);
    }

    #[test]
    fn any_number_of_callbacks_has_a_bound() {
        let mut scene = Scene::new();
        for callback in 0..u64::from(MOST_TYPES / 2) + 3 {
            scene.callback(9, callback);
        }
        let names = scene.names();
        assert_eq!(names[0], "callback 0x0 begin");
        assert_eq!(names.last().unwrap(), "ros2:callback_end");
        assert!(scene.stage.made.len() <= usize::try_from(MOST_TYPES / 2).unwrap());
        let id = scene.stage.to.types.id(b"callback 0x0 begin").unwrap();
        assert_eq!(id.0, FIRST);
        const { assert!(FIRST > FIRST_USER_EVENT + 1024) };
    }

    #[test]
    fn a_type_of_the_trace_keeps_its_identifier() {
        let mut scene = Scene::new();
        scene.begin(9);
        scene.callback(9, 5);
        let taken = EventTypeId(FIRST);
        assert_eq!(scene.types.define_user(b"other", Some(taken)), taken);
        scene.stage.learn_types(&scene.types);
        assert_eq!(scene.stage.to.types.name(taken), Some(&b"other"[..]));
        scene.names();
        scene.callback(9, 5);
        assert_eq!(scene.names().len(), 2);
    }

    #[test]
    fn long_names_leave_space_for_their_words() {
        let name = shortened("/é".repeat(80));
        assert!(name.ends_with('…') && name.len() + " #99 begin".len() <= TRACE_EVENT_NAME_MAX);
        assert_eq!(shortened("/a /b".to_owned()), "/a /b");
    }
}
