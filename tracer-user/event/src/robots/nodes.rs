//! Nodes that events are of.

use tracer_common::event_type::EventTypeId;
use tracer_text::self_describing::Typed;

use super::graph::address;
use super::{DELIVERY, Graph, PREFIX};
use crate::event_view::EventView;

/// Nodes of all processes, behind the stage [`Callbacks`](super::Callbacks).
#[derive(Debug, Default)]
pub struct Nodes {
    graph: Graph,
}

/// Something that a node does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeEvent<'a> {
    /// It begins.
    Begin,
    /// A callback of it starts: a span of this name.
    Callback(&'a [u8]),
    /// It publishes or takes a message.
    Message,
}

/// Reads the data of an event that has a type by its topic, or by its node and what is its. It is
/// that of the event as the program has emitted it.
#[must_use]
pub fn data_as_emitted<'a>(name: &[u8], untrusted: &'a [u8]) -> Option<Typed<'a>> {
    let is_message = DELIVERY.iter().any(|before| name.starts_with(before));
    let is_border = name.ends_with(b" begin") || name.ends_with(b" end");
    let is_callback = name.starts_with(b"/") && is_border;
    (is_message || is_callback).then(|| Typed::parse_event(PREFIX, untrusted))?
}

impl Nodes {
    /// Learns from an event. Returns which node it is of, and what that does; `None` where it is of
    /// none, or that is not known.
    pub fn look<'a>(&mut self, view: &EventView<'a>) -> Option<(&str, NodeEvent<'a>)> {
        let header = &view.event.header;
        let pid = header.pid;
        if !header.event_type.is_user() {
            if matches!(header.event_type, EventTypeId::EXIT | EventTypeId::EXEC)
                && !self.graph.lacks(pid)
            {
                self.graph.forget(pid);
            }
            return None;
        }
        let name = view.name;
        let typed = || data_as_emitted(name, view.event.data);
        if let Some(event) = name.strip_prefix(PREFIX) {
            let typed = Typed::parse_event(name, view.event.data)?;
            self.graph.learn(pid, event, typed);
            (event == b"rcl_node_init").then_some(())?;
            let node = self.graph.node(pid, address(typed, "node_handle")?)?;
            return Some((node, NodeEvent::Begin));
        }
        let fields = ["rmw_publisher_handle", "rmw_subscription_handle"];
        for (before, field) in DELIVERY.iter().zip(fields) {
            if name.starts_with(before) {
                let node = self.graph.node_of_topic(pid, address(typed()?, field)?)?;
                return Some((node, NodeEvent::Message));
            }
        }
        // Whatever has a node is called after that first.
        let span = name.strip_suffix(b" begin")?;
        let callback = address(typed()?, "callback")?;
        let node = self.graph.node_of_callback(pid, callback)?;
        Some((node, NodeEvent::Callback(span)))
    }
}
