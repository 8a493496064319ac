//! Nodes of processes, and what belongs to them.

use std::collections::HashMap;

use foldhash::fast::RandomState;
use tracer_text::self_describing::{Typed, TypedValue};

/// Most handles that are known: a hostile program may begin any number of nodes.
const MOST_HANDLES: usize = 262_144;

/// Bytes of a name that are kept.
const MOST_NAME: usize = 256;

type Map<T> = HashMap<u64, T, RandomState>;

/// Nodes, topics and callbacks of all processes, as their events say it.
#[derive(Debug, Default)]
pub struct Graph {
    processes: HashMap<i32, Process, RandomState>,
    handles: usize,
}

/// Names and owners by handles: addresses in a process.
#[derive(Debug, Default)]
struct Process {
    nodes: Map<String>,
    /// Publishers and subscriptions of the middleware: their nodes and topics.
    topics: Map<(Option<u64>, String)>,
    /// Subscriptions and services: their nodes, and the topics or names.
    ends: Map<(u64, String)>,
    /// Objects of the C++ library: their subscriptions.
    subscriptions: Map<u64>,
    timers: Map<Timer>,
    callbacks: Map<Owner>,
    symbols: Map<String>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Timer {
    period_ns: Option<i64>,
    node: Option<u64>,
}

#[derive(Clone, Copy, Debug)]
enum Owner {
    Subscription(u64),
    Service(u64),
    Timer(u64),
}

impl Graph {
    /// Learns from an event of a process: whether it says anything of the graph. `event` is its
    /// name behind the prefix.
    pub fn learn(&mut self, pid: i32, event: &[u8], typed: Typed<'_>) -> bool {
        if self.handles >= MOST_HANDLES {
            return false;
        }
        let Some(news) = news(event, typed) else {
            return false;
        };
        let process = self.processes.entry(pid).or_default();
        let before = process.handles();
        process.take(news);
        self.handles += process.handles().saturating_sub(before);
        true
    }

    /// Forgets a process: it has ended, or runs another program.
    pub fn forget(&mut self, pid: i32) {
        if let Some(process) = self.processes.remove(&pid) {
            self.handles = self.handles.saturating_sub(process.handles());
        }
    }

    /// Tells whether there is nothing of this process.
    #[must_use]
    pub fn lacks(&self, pid: i32) -> bool {
        !self.processes.contains_key(&pid)
    }

    /// Returns what a callback is called: after its node and topic, service or timer, as far as
    /// these are known; else after its function; else after its address.
    #[must_use]
    pub fn callback(&self, pid: i32, callback: u64) -> String {
        let process = self.processes.get(&pid);
        let known = process.and_then(|process| process.callback(callback));
        known.unwrap_or_else(|| format!("callback {callback:#x}"))
    }

    /// Returns the topic of a publisher or a subscription of the middleware.
    #[must_use]
    pub fn topic(&self, pid: i32, handle: u64) -> Option<&str> {
        let (_, topic) = self.processes.get(&pid)?.topics.get(&handle)?;
        Some(topic)
    }

    /// Returns the name of a node by its handle.
    #[must_use]
    pub fn node(&self, pid: i32, handle: u64) -> Option<&str> {
        let nodes = &self.processes.get(&pid)?.nodes;
        nodes.get(&handle).map(String::as_str)
    }

    /// Returns the node that has a callback.
    #[must_use]
    pub fn node_of_callback(&self, pid: i32, callback: u64) -> Option<&str> {
        let process = self.processes.get(&pid)?;
        let owner = process.callbacks.get(&callback)?;
        self.node(pid, process.node_of(*owner)?)
    }

    /// Returns the node that has a publisher or a subscription of the middleware.
    #[must_use]
    pub fn node_of_topic(&self, pid: i32, handle: u64) -> Option<&str> {
        let (node, _) = self.processes.get(&pid)?.topics.get(&handle)?;
        self.node(pid, (*node)?)
    }
}

impl Process {
    fn handles(&self) -> usize {
        [
            self.nodes.len(),
            self.topics.len(),
            self.ends.len(),
            self.subscriptions.len(),
            self.timers.len(),
            self.callbacks.len(),
            self.symbols.len(),
        ]
        .into_iter()
        .sum()
    }

    fn take(&mut self, news: News) {
        match news {
            News::Node(handle, name) => {
                self.nodes.insert(handle, name);
            }
            News::Publisher { node, rmw, topic } => {
                self.topics.insert(rmw, (node, topic));
            }
            News::Subscription {
                handle,
                node,
                rmw,
                topic,
            } => {
                self.topics.insert(rmw, (Some(node), topic.clone()));
                self.ends.insert(handle, (node, topic));
            }
            News::Service { handle, node, name } => {
                self.ends.insert(handle, (node, name));
            }
            News::Object { object, handle } => {
                self.subscriptions.insert(object, handle);
            }
            // The address may have been another timer's.
            News::Timer { handle, period_ns } => {
                let timer = Timer {
                    period_ns: Some(period_ns),
                    node: None,
                };
                self.timers.insert(handle, timer);
            }
            News::TimerNode { handle, node } => {
                self.timers.entry(handle).or_default().node = Some(node);
            }
            News::Callback { callback, owner } => {
                self.callbacks.insert(callback, owner);
            }
            News::Symbol { callback, symbol } => {
                self.symbols.insert(callback, symbol);
            }
        }
    }

    fn callback(&self, callback: u64) -> Option<String> {
        let of_owner = self.callbacks.get(&callback);
        of_owner
            .and_then(|owner| self.owned(*owner))
            .or_else(|| self.symbols.get(&callback).cloned())
    }

    /// Returns the subscription or service of an owner, with its node and its topic or name.
    fn end(&self, owner: Owner) -> Option<&(u64, String)> {
        match owner {
            Owner::Subscription(object) => self.ends.get(self.subscriptions.get(&object)?),
            Owner::Service(handle) => self.ends.get(&handle),
            Owner::Timer(_) => None,
        }
    }

    fn node_of(&self, owner: Owner) -> Option<u64> {
        match owner {
            Owner::Timer(handle) => self.timers.get(&handle)?.node,
            Owner::Subscription(_) | Owner::Service(_) => Some(self.end(owner)?.0),
        }
    }

    fn owned(&self, owner: Owner) -> Option<String> {
        let what = match owner {
            Owner::Subscription(_) | Owner::Service(_) => self.end(owner)?.1.clone(),
            Owner::Timer(handle) => {
                let timer = self.timers.get(&handle)?;
                let period = timer.period_ns.map_or_else(String::new, period);
                format!("timer{period}")
            }
        };
        let node = self.node_of(owner);
        match node.and_then(|node| self.nodes.get(&node)) {
            Some(node) => Some(format!("{node} {what}")),
            // "timer" alone says nothing.
            None if matches!(owner, Owner::Timer(_)) => None,
            None => Some(what),
        }
    }
}

/// Returns a period as people say it, behind a space: ` 100ms`.
fn period(ns: i64) -> String {
    const UNITS: [(i64, &str); 3] = [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us")];
    let unit = UNITS.into_iter().find(|(of, _)| ns != 0 && ns % of == 0);
    let (of, word) = unit.unwrap_or((1, "ns"));
    format!(" {}{word}", ns / of)
}

/// Something that an event says of the graph.
enum News {
    Node(u64, String),
    Publisher {
        node: Option<u64>,
        rmw: u64,
        topic: String,
    },
    Subscription {
        handle: u64,
        node: u64,
        rmw: u64,
        topic: String,
    },
    Service {
        handle: u64,
        node: u64,
        name: String,
    },
    Object {
        object: u64,
        handle: u64,
    },
    Timer {
        handle: u64,
        period_ns: i64,
    },
    TimerNode {
        handle: u64,
        node: u64,
    },
    Callback {
        callback: u64,
        owner: Owner,
    },
    Symbol {
        callback: u64,
        symbol: String,
    },
}

fn news(event: &[u8], typed: Typed<'_>) -> Option<News> {
    let handle = |field| address(typed, field);
    let text = |field| text(typed, field);
    Some(match event {
        b"rcl_node_init" => {
            let (space, name) = (text("namespace")?, text("node_name")?);
            let space = space.trim_end_matches('/');
            News::Node(handle("node_handle")?, format!("{space}/{name}"))
        }
        b"rcl_publisher_init" => News::Publisher {
            node: handle("node_handle"),
            rmw: handle("rmw_publisher_handle")?,
            topic: text("topic_name")?,
        },
        b"rcl_subscription_init" => News::Subscription {
            handle: handle("subscription_handle")?,
            node: handle("node_handle")?,
            rmw: handle("rmw_subscription_handle")?,
            topic: text("topic_name")?,
        },
        b"rcl_service_init" => News::Service {
            handle: handle("service_handle")?,
            node: handle("node_handle")?,
            name: text("service_name")?,
        },
        b"rclcpp_subscription_init" => News::Object {
            object: handle("subscription")?,
            handle: handle("subscription_handle")?,
        },
        b"rcl_timer_init" => News::Timer {
            handle: handle("timer_handle")?,
            period_ns: signed(typed, "period")?,
        },
        b"rclcpp_timer_link_node" => News::TimerNode {
            handle: handle("timer_handle")?,
            node: handle("node_handle")?,
        },
        b"rclcpp_subscription_callback_added" => News::Callback {
            callback: handle("callback")?,
            owner: Owner::Subscription(handle("subscription")?),
        },
        b"rclcpp_service_callback_added" => News::Callback {
            callback: handle("callback")?,
            owner: Owner::Service(handle("service_handle")?),
        },
        b"rclcpp_timer_callback_added" => News::Callback {
            callback: handle("callback")?,
            owner: Owner::Timer(handle("timer_handle")?),
        },
        b"rclcpp_callback_register" => News::Symbol {
            callback: handle("callback")?,
            symbol: text("symbol")?,
        },
        _ => return None,
    })
}

fn field<'a>(typed: Typed<'a>, name: &str) -> Option<TypedValue<'a>> {
    let mut fields = typed.iter();
    fields.find_map(|(of, value)| (of == name).then_some(value))
}

/// Returns the address in a field.
pub(super) fn address(typed: Typed<'_>, name: &str) -> Option<u64> {
    match field(typed, name)? {
        TypedValue::Address(address) => Some(address),
        _ => None,
    }
}

/// Returns the signed integer in a field.
pub(super) fn signed(typed: Typed<'_>, name: &str) -> Option<i64> {
    match field(typed, name)? {
        TypedValue::Signed(value) => Some(value),
        _ => None,
    }
}

fn text(typed: Typed<'_>, name: &str) -> Option<String> {
    match field(typed, name)? {
        TypedValue::Text { bytes, .. } => {
            let front = bytes.get(..MOST_NAME).unwrap_or(bytes);
            Some(String::from_utf8_lossy(front).into_owned())
        }
        _ => None,
    }
}

#[cfg(test)]
pub(super) mod tests {
    use tracer_common::kernel::{probe_kind, typed_data};
    use tracer_text::self_describing::Encoder;

    use super::*;

    /// A field of an event, in tests.
    pub enum MadeField<'a> {
        Address(&'a str, u64),
        Signed(&'a str, i64),
        Text(&'a str, &'a str),
    }
    use MadeField::{Address, Signed, Text};

    /// Returns the data of an event.
    pub fn data(fields: &[MadeField<'_>]) -> Vec<u8> {
        let mut out = Encoder::new(probe_kind::PROGRAMS_OWN);
        for field in fields {
            match field {
                Address(name, value) => out.value(name, typed_data::ADDRESS, &value.to_ne_bytes()),
                Signed(name, value) => out.value(name, typed_data::SIGNED, &value.to_ne_bytes()),
                Text(name, text) => out.text(name, text.as_bytes(), false),
            }
        }
        out.finish()
    }

    pub fn typed(data: &[u8]) -> Typed<'_> {
        Typed::parse_event(b"ros2:x", data).unwrap()
    }

    /// Returns what a node with a subscription and a timer says as it begins.
    pub fn beginnings() -> Vec<(&'static str, Vec<u8>)> {
        vec![
            (
                "rcl_node_init",
                data(&[
                    Address("node_handle", 1),
                    Text("node_name", "listener"),
                    Text("namespace", "/robot"),
                ]),
            ),
            (
                "rcl_subscription_init",
                data(&[
                    Address("subscription_handle", 2),
                    Address("node_handle", 1),
                    Address("rmw_subscription_handle", 3),
                    Text("topic_name", "/chatter"),
                ]),
            ),
            (
                "rclcpp_subscription_init",
                data(&[
                    Address("subscription_handle", 2),
                    Address("subscription", 4),
                ]),
            ),
            (
                "rclcpp_subscription_callback_added",
                data(&[Address("subscription", 4), Address("callback", 5)]),
            ),
            (
                "rcl_timer_init",
                data(&[Address("timer_handle", 6), Signed("period", 100_000_000)]),
            ),
            (
                "rclcpp_timer_callback_added",
                data(&[Address("timer_handle", 6), Address("callback", 7)]),
            ),
            (
                "rclcpp_callback_register",
                data(&[Address("callback", 7), Text("symbol", "Node::tick()")]),
            ),
        ]
    }

    #[test]
    fn callbacks_are_called_after_their_node_and_topic() {
        let mut graph = Graph::default();
        for (event, data) in beginnings() {
            assert!(graph.learn(9, event.as_bytes(), typed(&data)), "{event}");
        }
        assert_eq!(graph.callback(9, 5), "/robot/listener /chatter");
        // As long as it has no node, its function says more.
        assert_eq!(graph.callback(9, 7), "Node::tick()");
        let link = data(&[Address("timer_handle", 6), Address("node_handle", 1)]);
        assert!(graph.learn(9, b"rclcpp_timer_link_node", typed(&link)));
        assert_eq!(graph.callback(9, 7), "/robot/listener timer 100ms");
        assert_eq!(graph.topic(9, 3), Some("/chatter"));
        let nodes = [5, 7].map(|callback| graph.node_of_callback(9, callback));
        assert_eq!(nodes, [Some("/robot/listener"); 2]);
        assert_eq!(graph.node_of_topic(9, 3), Some("/robot/listener"));
        assert_eq!(graph.node_of_callback(8, 5), None, "another process");

        assert_eq!(graph.callback(8, 5), "callback 0x5", "another process");
        let take = data(&[Address("message", 1)]);
        assert!(!graph.learn(9, b"rcl_take", typed(&take)));
        graph.forget(9);
        assert_eq!(
            (graph.callback(9, 5), graph.handles),
            ("callback 0x5".into(), 0)
        );
    }

    #[test]
    fn periods_are_in_the_largest_unit_that_has_them_whole() {
        let said = [1_000_000_000, 2_500_000, 40, 0, -1_000].map(period);
        assert_eq!(said, [" 1s", " 2500us", " 40ns", " 0ns", " -1us"]);
    }
}
