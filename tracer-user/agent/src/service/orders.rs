//! Orders that conversations give the service.

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;
use tracer_common::kernel::{ContextPlace, PythonProcess};
use tracer_posix::agent::protocol::Detail;

use super::rooms::{RoomHold, RoomKey, RoomName};
use crate::Hub;

/// Something to do. A conversation gives one at a time, so that they are bounded by the
/// connections.
pub enum Order {
    /// Bring everything up to now.
    Newest,
    /// Open the recording of this detail, for a user who wants it.
    Open {
        detail: Detail,
        user: u32,
        reply: oneshot::Sender<Result<(RoomName, Hub, RoomHold), String>>,
    },
    /// Trace a process.
    Trace {
        room: RoomKey,
        pid: i32,
        reply: oneshot::Sender<Result<(), String>>,
    },
    /// Note what a client has found in a process.
    Note {
        room: RoomKey,
        pid: i32,
        found: Found,
        reply: oneshot::Sender<Result<(), String>>,
    },
    /// Record what the subscriptions want by now.
    Adjust {
        room: RoomKey,
        reply: oneshot::Sender<()>,
    },
    /// Trace those of these processes no longer that no subscription has.
    Release { room: RoomKey, pids: Vec<i32> },
}

/// Finding of a client in a process, whose files the service does not open.
#[derive(Clone, Copy, Debug)]
pub enum Found {
    /// The place where it has the contexts of its threads.
    Contexts(Option<ContextPlace>),
    /// The interpreter of Python that it has.
    Interpreter(Option<PythonProcess>),
}

impl Found {
    /// Returns the finding that there is none.
    pub fn nothing(self) -> Self {
        match self {
            Self::Contexts(_) => Self::Contexts(None),
            Self::Interpreter(_) => Self::Interpreter(None),
        }
    }

    /// Tells whether recordings of this detail need it.
    pub fn is_of(self, detail: &Detail) -> bool {
        match self {
            Self::Contexts(_) => detail.contexts,
            Self::Interpreter(_) => detail.python_frames > 0,
        }
    }
}

/// Sender of orders.
#[derive(Clone, Debug)]
pub struct Orders(UnboundedSender<Order>);

impl Orders {
    /// Makes it, and what receives its orders.
    pub fn new() -> (Self, UnboundedReceiver<Order>) {
        let (sender, receiver) = unbounded_channel();
        (Self(sender), receiver)
    }

    /// Has everything up to now brought. Returns whether it will come.
    pub fn ask_for_newest(&self) -> bool {
        self.0.send(Order::Newest).is_ok()
    }

    /// Has the recording of a detail opened.
    ///
    /// # Errors
    ///
    /// Why it cannot be, in words.
    pub async fn open(
        &self,
        detail: Detail,
        user: u32,
    ) -> Result<(RoomName, Hub, RoomHold), String> {
        let (reply, replied) = oneshot::channel();
        let order = Order::Open {
            detail,
            user,
            reply,
        };
        self.0.send(order).map_err(|_ended| ends())?;
        replied.await.map_err(|_ended| ends())?
    }

    /// Has a process traced that a subscription has, with the programs loaded where they are not.
    ///
    /// # Errors
    ///
    /// Why it cannot be, in words.
    pub async fn trace(&self, room: RoomKey, pid: i32) -> Result<(), String> {
        let (reply, replied) = oneshot::channel();
        let order = Order::Trace { room, pid, reply };
        self.0.send(order).map_err(|_ended| ends())?;
        replied.await.map_err(|_ended| ends())?
    }

    /// Has it noted what a client has found in a process.
    ///
    /// # Errors
    ///
    /// Why it cannot be, in words.
    pub async fn note_found(&self, room: RoomKey, pid: i32, found: Found) -> Result<(), String> {
        let (reply, replied) = oneshot::channel();
        let order = Order::Note {
            room,
            pid,
            found,
            reply,
        };
        self.0.send(order).map_err(|_ended| ends())?;
        replied.await.map_err(|_ended| ends())?
    }

    /// Has recorded what the subscriptions want by now.
    pub async fn adjust(&self, room: RoomKey) {
        let (reply, replied) = oneshot::channel();
        if self.0.send(Order::Adjust { room, reply }).is_ok() {
            // Where it is not answered the service ends.
            let _ = replied.await;
        }
    }

    /// Has processes traced no longer that no subscription has.
    pub fn release(&self, room: RoomKey, pids: Vec<i32>) {
        // Where it is not received the service ends, and with it all that it traces.
        let _ = self.0.send(Order::Release { room, pids });
    }
}

fn ends() -> String {
    "the service ends; try again".to_owned()
}
