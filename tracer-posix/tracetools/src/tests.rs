//! Tests of the table and of what the functions emit.

use std::collections::BTreeMap;
use std::ffi::{CString, c_void};
use std::ptr;

use tracer_common::kernel::{probe_kind, typed_data};

use crate::argument::{Address, CText, Count, Gid, Signed, Truth, Unrecorded, Unsigned};
use crate::posix::tests::take;
use crate::record::MOST_BYTES;
use crate::tracepoints::{
    EVENTS, rcl_init, rcl_node_init, rcl_publisher_init, rclcpp_callback_register,
    rclcpp_construct_ring_buffer, rclcpp_executor_get_next_ready, rclcpp_publish,
    rmw_publisher_init, rmw_take,
};

/// Events as the headers of `libtracetools` 8.6 describe them: name, fields, and the types that
/// LTTng gives them.
const UPSTREAM: &str = include_str!("../upstream.txt");

/// Fields of an event, read byte by byte: name, type, bits, bytes of an element, value.
type Read = Vec<(String, u8, u8, u8, Vec<u8>)>;

fn read(data: &[u8]) -> Read {
    let word = |at: usize| u16::from_ne_bytes([data[at], data[at + 1]]);
    assert_eq!(word(0), probe_kind::PROGRAMS_OWN);
    assert_eq!(data[4..8], [0; 4]);
    let mut rest = &data[typed_data::START..];
    let mut fields = Vec::new();
    for _ in 0..word(2) {
        let [kind, bits, name_bytes, unit, low, high] = *rest.first_chunk().unwrap();
        let (name, after) = rest[typed_data::HEAD..].split_at(name_bytes.into());
        let (value, after) = after.split_at(u16::from_ne_bytes([low, high]).into());
        let name = String::from_utf8(name.to_vec()).unwrap();
        fields.push((name, kind, bits, unit, value.to_vec()));
        rest = after;
    }
    assert!(rest.is_empty());
    fields
}

/// Takes the one event that was emitted.
fn emitted() -> (String, Read) {
    let mut events = take();
    assert_eq!(events.len(), 1);
    let (name, data) = events.pop().unwrap();
    (name, read(&data))
}

fn pointer(address: usize) -> Address {
    Address(ptr::without_provenance::<c_void>(address))
}

#[test]
fn events_and_fields_are_those_of_the_original() {
    let type_of = |word: &str| match word {
        "string" => typed_data::TEXT,
        "address" => typed_data::ADDRESS,
        "int" | "int64_t" => typed_data::SIGNED,
        "size_t" | "uint64_t" => typed_data::UNSIGNED,
        "uint8_t[16]" => typed_data::UNSIGNED | typed_data::ARRAY,
        other => panic!("{other}"),
    };
    let mut upstream = BTreeMap::new();
    for line in UPSTREAM.lines() {
        let mut words = line.split(' ');
        let name = format!("ros2:{}", words.next().unwrap());
        let fields = words.map(|word| word.split_once(':').unwrap());
        let fields: Vec<_> = fields
            .map(|(field, of)| (field.to_owned(), type_of(of)))
            .collect();
        upstream.insert(name, fields);
    }
    let mut ours = BTreeMap::new();
    for event in EVENTS {
        let fields = event.fields.iter();
        let fields = fields.map(|(field, kind)| ((*field).to_owned(), *kind));
        ours.insert(event.name.to_str().unwrap().to_owned(), fields.collect());
    }
    assert_eq!(ours.len(), 40);
    assert_eq!(ours, upstream);
}

#[test]
fn values_are_recorded_as_they_are_passed() {
    // SAFETY: no argument leads anywhere.
    unsafe {
        rmw_take::trace(
            pointer(0x1234_5678_9abc),
            pointer(7),
            Signed(-5),
            Truth(true),
        );
    }
    let (name, fields) = emitted();
    assert_eq!(name, "ros2:rmw_take");
    let address = 0x1234_5678_9abc_u64.to_ne_bytes().to_vec();
    assert_eq!(
        fields[0],
        (
            "rmw_subscription_handle".into(),
            typed_data::ADDRESS,
            0,
            8,
            address
        )
    );
    assert_eq!(fields[1].4, 7_u64.to_ne_bytes());
    assert_eq!(fields[2].4, (-5_i64).to_ne_bytes());
    let taken = 1_i32.to_ne_bytes().to_vec();
    assert_eq!(fields[3], ("taken".into(), typed_data::SIGNED, 0, 4, taken));

    // SAFETY: as above.
    unsafe { rclcpp_construct_ring_buffer::trace_enabled(pointer(1), Unsigned(u64::MAX)) }
    assert_eq!(emitted().1[1].4, [0xff; 8]);
    // SAFETY: as above.
    unsafe { rclcpp_executor_get_next_ready::trace() }
    assert_eq!(
        emitted(),
        ("ros2:rclcpp_executor_get_next_ready".into(), vec![])
    );
    // SAFETY: as above.
    unsafe { rclcpp_publish::trace(Unrecorded(ptr::null()), pointer(3)) }
    let (_, fields) = emitted();
    assert_eq!((fields.len(), fields[0].0.as_str()), (1, "message"));
}

#[test]
fn texts_and_gids_are_copied_and_null_is_unread() {
    let (node, space) = (c"talker", c"/");
    // SAFETY: texts that end with nulls.
    unsafe {
        rcl_node_init::trace(
            pointer(1),
            pointer(2),
            CText(node.as_ptr()),
            CText(space.as_ptr()),
        )
    }
    let (_, fields) = emitted();
    let texts: Vec<_> = fields[2..].iter().map(|field| field.4.as_slice()).collect();
    assert_eq!(texts, [b"talker".as_slice(), b"/"]);

    // SAFETY: a null text is none.
    unsafe {
        let topic = CText(ptr::null());
        rcl_publisher_init::trace(pointer(1), pointer(2), pointer(3), topic, Count(10));
    }
    let (_, fields) = emitted();
    assert_eq!((fields[3].2, fields[3].4.len()), (typed_data::UNREAD, 0));
    assert_eq!(fields[4].4, 10_usize.to_ne_bytes());

    let gid = std::array::from_fn(|index| u8::try_from(index).unwrap());
    for (given, bits) in [(&raw const gid, 0), (ptr::null(), typed_data::UNREAD)] {
        // SAFETY: a GID, or null.
        unsafe { rmw_publisher_init::trace(pointer(1), Gid(given)) }
        let (_, fields) = emitted();
        assert_eq!(fields[1].2, bits);
        assert_eq!(fields[1].4, if bits == 0 { &gid[..] } else { b"" });
    }

    // SAFETY: no argument leads anywhere.
    unsafe { rcl_init::trace(pointer(1)) }
    let (_, fields) = emitted();
    assert_eq!((&*fields[1].0, &*fields[1].4), ("version", &b"8.6.0"[..]));
}

#[test]
fn a_long_text_says_that_there_is_more_of_it() {
    for (bytes, is_whole) in [(900, true), (5_000, false)] {
        let symbol = CString::new(vec![b'x'; bytes]).unwrap();
        // SAFETY: a text that ends with a null.
        unsafe { rclcpp_callback_register::trace(pointer(1), CText(symbol.as_ptr())) }
        let (_, data) = take().pop().unwrap();
        assert!(data.len() <= MOST_BYTES && (is_whole || data.len() == MOST_BYTES));
        let text = read(&data).pop().unwrap();
        assert_eq!(text.2 == 0, is_whole);
        assert_eq!(text.4.len() == bytes, is_whole);
    }
}
