//! Orders that conversations give the service.

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;

/// Something to do. A conversation gives one at a time, so that they are bounded by the
/// connections.
#[derive(Debug)]
pub enum Order {
    /// Bring everything up to now.
    Newest,
    /// Trace a process.
    Trace {
        pid: i32,
        reply: oneshot::Sender<Result<(), String>>,
    },
    /// Record what the subscriptions want by now.
    Adjust { reply: oneshot::Sender<()> },
    /// Trace those of these processes no longer that no subscription has.
    Release { pids: Vec<i32> },
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

    /// Has a process traced that a subscription has, with the programs loaded where they are not.
    ///
    /// # Errors
    ///
    /// Why it cannot be, in words.
    pub async fn trace(&self, pid: i32) -> Result<(), String> {
        let (reply, replied) = oneshot::channel();
        let order = Order::Trace { pid, reply };
        let ends = || "the service ends; try again".to_owned();
        self.0.send(order).map_err(|_ended| ends())?;
        replied.await.map_err(|_ended| ends())?
    }

    /// Has recorded what the subscriptions want by now.
    pub async fn adjust(&self) {
        let (reply, replied) = oneshot::channel();
        if self.0.send(Order::Adjust { reply }).is_ok() {
            // Where it is not answered the service ends.
            let _ = replied.await;
        }
    }

    /// Has processes traced no longer that no subscription has.
    pub fn release(&self, pids: Vec<i32>) {
        // Where it is not received the service ends, and with it all that it traces.
        let _ = self.0.send(Order::Release { pids });
    }
}
