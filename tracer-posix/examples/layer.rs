//! A program that speaks by `tracing`, and is traced like any other.
//!
//! ```text
//! cargo run --release -p tracer-posix --features tracing --example layer
//! tracer-user attach --no-system $(pidof layer)
//! ```

use std::time::Duration;

use tracing::{info, info_span};
use tracing_subscriber::prelude::*;

fn main() {
    tracing_subscriber::registry()
        .with(tracer_posix::layer())
        .init();
    println!("this is process {}", std::process::id());
    for id in 0_u32.. {
        let _request = info_span!("request", id).entered();
        std::thread::sleep(Duration::from_millis(200));
        info!(bytes = id * 10, "answered");
        info!(name: "checkpoint", id);
    }
}
