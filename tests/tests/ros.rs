//! ROS 2 itself: two nodes of `rclpy` with `libtracetools.so` preloaded, beside what they have
//! counted.
//!
//! `cargo xtask test --ros` runs it: ROS is a quarter of a gigabyte.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use tests::log_reader::text;
use tests::{dist, tools};

/// Messages at each rate.
const MESSAGES: usize = 1_000;

/// Messages a second; 0 for as fast as they can be published.
const RATES: [&str; 4] = ["100", "1000", "5000", "0"];

const TOPIC: &str = "/tracer_test_chatter";

fn interpreter() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let interpreter = here.join("../target/ros/bin/python");
    assert!(
        interpreter.exists(),
        "ROS is not installed; run: cargo xtask test --ros"
    );
    interpreter
}

/// Traces both nodes at this rate, and returns what they have said and the events.
fn traced(folder: &Path, rate: &str) -> (String, Vec<Value>) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs/robots/nodes.py");
    let library = dist::folder()
        .unwrap()
        .join("lib/posixtrace/libtracetools.so");
    let log = format!("log-{rate}");
    let output = Command::new(dist::tracer_user().unwrap())
        .current_dir(folder)
        .args(["run", "--log", &log, "--"])
        .arg(interpreter())
        .arg(script)
        .args([&MESSAGES.to_string(), rate])
        .env("LD_PRELOAD", library)
        // No other machine hears of it, and no other test.
        .envs([("ROS_LOCALHOST_ONLY", "1"), ("ROS_DOMAIN_ID", "87")])
        .env("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST")
        .env("ROS_HOME", folder)
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}");
    assert!(told.contains(" 0 lost"), "{told}");
    let read = Command::new(dist::tracer_user().unwrap())
        .current_dir(folder)
        .args(["read", "--format", "json", &log])
        .output()
        .unwrap();
    let lines = String::from_utf8(read.stdout).unwrap();
    let events = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap());
    let of_ros = events.filter(|event: &Value| {
        let event_type = event.get("type").and_then(Value::as_str);
        event_type.is_some_and(|name| name.starts_with("ros2:"))
    });
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    (said, of_ros.collect())
}

/// Returns the events of this type of which a field has this value.
fn having<'a>(events: &'a [Value], name: &str, field: &str, value: &Value) -> Vec<&'a Value> {
    let is_one = |event: &&Value| text(event, "type") == name && event["data"][field] == *value;
    events.iter().filter(is_one).collect()
}

#[test]
#[ignore = "needs root, and ROS"]
fn nodes_of_ros_are_counted_as_they_count_themselves() {
    let folder = tempfile::tempdir().unwrap();
    for rate in RATES {
        let (said, events) = traced(folder.path(), rate);
        assert!(said.contains(&format!("published {MESSAGES} ")), "{said}");
        assert!(said.contains(&format!("taken {MESSAGES}\n")), "{said}");

        let topic = Value::from(TOPIC);
        let publishers = having(&events, "ros2:rcl_publisher_init", "topic_name", &topic);
        let subscriptions = having(&events, "ros2:rcl_subscription_init", "topic_name", &topic);
        assert_eq!((publishers.len(), subscriptions.len()), (1, 1), "{rate}");
        let handle = &publishers[0]["data"]["publisher_handle"];
        let published = having(&events, "ros2:rcl_publish", "publisher_handle", handle);
        assert_eq!(published.len(), MESSAGES, "{rate}");

        // Each message is taken once, in the order in which it was published.
        let stamps = |events: &[&Value], field: &str| -> Vec<i64> {
            events
                .iter()
                .map(|event| event["data"][field].as_i64().unwrap())
                .collect()
        };
        let handle = &publishers[0]["data"]["rmw_publisher_handle"];
        let sent = having(&events, "ros2:rmw_publish", "rmw_publisher_handle", handle);
        let handle = &subscriptions[0]["data"]["rmw_subscription_handle"];
        let mut taken = having(&events, "ros2:rmw_take", "rmw_subscription_handle", handle);
        taken.retain(|event| event["data"]["taken"] == 1);
        let sent = stamps(&sent, "timestamp");
        assert_eq!(sent.len(), MESSAGES, "{rate}");
        assert_eq!(sent, stamps(&taken, "source_timestamp"), "{rate}");
        views_have_each_message(folder.path(), &format!("log-{rate}"));
    }
}

/// Checks that the page has a lane for each node, with its messages, and `top` the deliveries.
fn views_have_each_message(folder: &Path, log: &str) {
    let tool = |arguments: &[&str]| {
        let mut tool = Command::new(dist::tracer_user().unwrap());
        let output = tool.current_dir(folder).args(arguments).output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{told}");
        output.stdout
    };
    tool(&["report", log, "-o", "page.html", "--force"]);
    let page = tools::report(&folder.join("page.html")).unwrap();
    for (node, does) in [("/talker", "published"), ("/listener", "taken")] {
        let mut nodes = page["nodes"].as_array().unwrap().iter();
        let lane = nodes.find(|lane| lane["label"] == node).unwrap();
        let messages = lane["messages"].as_array().unwrap();
        let wanted = format!("ros2 {does} {TOPIC}");
        let count = messages.iter().filter(|name| **name == *wanted).count();
        assert_eq!(count, MESSAGES, "{node}");
    }
    let top = ["top", log, "--once", "--window", "all", "--format", "json"];
    let screen: Value = serde_json::from_slice(&tool(&top)).unwrap();
    let mut spans = screen["spans"].as_array().unwrap().iter();
    let delivery = format!("{TOPIC} delivery");
    let row = spans.find(|row| row["name"] == *delivery).unwrap();
    assert_eq!(row["took"]["count"], MESSAGES, "{row}");
}
