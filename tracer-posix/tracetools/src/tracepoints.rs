//! The table of events, and the functions that are made of it.
//!
//! Each event has three functions, as `libtracetools` 8.6 declares them: `ros_trace_NAME()`
//! records it, `ros_trace_enabled_NAME()` tells whether that does anything, and
//! `ros_trace_do_NAME()` is for those that have asked before.

use std::ffi::CStr;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;

use tracer_common::kernel::typed_data;

use crate::argument::{
    Address, CText, Count, Gid, PassedValue, Signed, Truth, Unrecorded, Unsigned,
};
use crate::posix;
use crate::record::{Out, most_text};

/// Version of the interface: what `ros2:rcl_init` says.
pub const VERSION: &CStr = c"8.6.0";

/// Event of the interface.
#[derive(Debug)]
pub struct RosEvent {
    /// The name of its type.
    pub name: &'static CStr,
    /// The names of its fields, each with its type: one of
    /// [`typed_data`].
    pub fields: &'static [(&'static str, u8)],
    /// The identifier of its type in this process; 0 before it was opened.
    id: AtomicU32,
}

impl RosEvent {
    const fn new(name: &'static CStr, fields: &'static [(&'static str, u8)]) -> Self {
        Self {
            name,
            fields,
            id: AtomicU32::new(0),
        }
    }

    /// Returns the identifier of its type. All are opened when the library is loaded; one that
    /// comes before that, from the constructor of another library, opens its own.
    #[inline(always)]
    fn id(&self) -> u32 {
        match self.id.load(Relaxed) {
            0 => self.open(),
            id => id,
        }
    }

    #[cold]
    fn open(&self) -> u32 {
        let id = posix::open(self.name).unwrap_or(0);
        self.id.store(id, Relaxed);
        id
    }
}

/// Opens the types of all events.
#[cfg(not(test))]
extern "C" fn open_all() {
    for event in EVENTS {
        event.open();
    }
}

#[cfg(not(test))]
#[used]
// SAFETY: a function of the C convention without arguments, which the loader calls once, after the
// library with the functions that it calls is ready.
#[unsafe(link_section = ".init_array")]
static OPEN_ALL: extern "C" fn() = open_all;

/// Tells that events are compiled in: what programs ask before they say that tracing works.
// SAFETY: no other symbol of this name is linked; `tracetools.h` declares this signature.
#[unsafe(no_mangle)]
pub extern "C" fn ros_trace_compile_status() -> bool {
    true
}

/// Returns how many bytes the fields have, but for texts.
const fn fixed_bytes(fields: &[(&str, Option<u8>, usize)]) -> usize {
    let mut bytes = 0;
    let mut rest = fields;
    while let [(name, kind, value), after @ ..] = rest {
        if kind.is_some() {
            bytes += typed_data::HEAD + name.len() + *value;
        }
        rest = after;
    }
    bytes
}

/// Returns how many of these are true.
const fn count(of: &[bool]) -> u16 {
    let mut count = 0;
    let mut rest = of;
    while let [one, after @ ..] = rest {
        count += *one as u16;
        rest = after;
    }
    count
}

/// Keeps the fields that are recorded.
#[cfg_attr(
    not(test),
    expect(clippy::indexing_slicing, reason = "the compiler alone runs it")
)]
const fn recorded<const N: usize>(
    of: &[(&'static str, Option<u8>, usize)],
) -> [(&'static str, u8); N] {
    let mut kept = [("", 0); N];
    let mut next = 0;
    let mut rest = of;
    while let [(name, kind, _), after @ ..] = rest {
        if let Some(kind) = kind {
            kept[next] = (*name, *kind);
            next += 1;
        }
        rest = after;
    }
    kept
}

/// Makes the functions of each event. A field that no argument gives stands behind a `+`.
macro_rules! events {
    ($(
        $(#[$doc:meta])*
        $name:ident ($($field:ident: $type:ty),*) $(+ $constant:ident = $value:expr)?;
    )*) => {
        /// All events.
        pub static EVENTS: &[&RosEvent] = &[$(&$name::EVENT),*];

        $(
            $(#[$doc])*
            pub mod $name {
                use super::*;

                const ALL: &[(&str, Option<u8>, usize)] = &[
                    $((stringify!($field), <$type>::KIND, <$type>::BYTES),)*
                    $((stringify!($constant), CText::KIND, $value.to_bytes().len()),)?
                ];
                const COUNT: u16 = count(&[
                    $(<$type>::KIND.is_some(),)* $(!$value.is_empty(),)?
                ]);
                const TEXTS: u16 = count(&[
                    $(<$type>::IS_TEXT,)* $(!$value.is_empty(),)?
                ]);
                const MOST_TEXT: usize = most_text(fixed_bytes(ALL), TEXTS as usize);

                /// The event.
                pub static EVENT: RosEvent = RosEvent::new(
                    match CStr::from_bytes_with_nul(
                        concat!("ros2:", stringify!($name), "\0").as_bytes(),
                    ) {
                        Ok(name) => name,
                        Err(_) => c"",
                    },
                    const { &recorded::<{ COUNT as usize }>(ALL) },
                );

                /// Records the event where a stream wants it.
                ///
                /// # Safety
                ///
                /// Texts end with a null, and GIDs are readable, or they are null.
                // SAFETY: no other symbol of this name is linked; `tracetools.h` declares this
                // signature.
                #[unsafe(export_name = concat!("ros_trace_", stringify!($name)))]
                pub unsafe extern "C-unwind" fn trace($($field: $type),*) {
                    if posix::is_traced() {
                        // SAFETY: as the caller promises.
                        unsafe { record($($field),*) }
                    }
                }

                /// Tells whether the event may be recorded.
                // SAFETY: as above.
                #[unsafe(export_name = concat!("ros_trace_enabled_", stringify!($name)))]
                pub extern "C-unwind" fn enabled() -> bool {
                    posix::is_traced()
                }

                /// Records the event, for those that have asked whether it may be.
                ///
                /// # Safety
                ///
                /// As for [`trace`].
                // SAFETY: as above.
                #[unsafe(export_name = concat!("ros_trace_do_", stringify!($name)))]
                pub unsafe extern "C-unwind" fn trace_enabled($($field: $type),*) {
                    // SAFETY: as the caller promises.
                    unsafe { record($($field),*) }
                }

                #[cold]
                #[inline(never)]
                unsafe extern "C-unwind" fn record($($field: $type),*) {
                    let mut out = Out::new(MOST_TEXT);
                    out.begin(COUNT);
                    $(
                        // SAFETY: as the caller promises.
                        unsafe { $field.push(&mut out, stringify!($field)) };
                    )*
                    $(
                        // SAFETY: a text that ends with a null.
                        unsafe { CText($value.as_ptr()).push(&mut out, stringify!($constant)) };
                    )?
                    posix::emit(EVENT.id(), out.data());
                }
            }
        )*
    };
}

events! {
    /// A process begins to use ROS.
    rcl_init(context_handle: Address) + version = VERSION;
    /// A node begins.
    rcl_node_init(node_handle: Address, rmw_handle: Address, node_name: CText, namespace: CText);
    /// A publisher of the middleware begins.
    rmw_publisher_init(rmw_publisher_handle: Address, gid: Gid);
    /// A publisher begins: of which node, for which topic.
    rcl_publisher_init(
        publisher_handle: Address,
        node_handle: Address,
        rmw_publisher_handle: Address,
        topic_name: CText,
        queue_depth: Count
    );
    /// The C++ library publishes a message.
    rclcpp_publish(_publisher_handle: Unrecorded, message: Address);
    /// The C++ library publishes a message within the process.
    rclcpp_intra_publish(publisher_handle: Address, message: Address);
    /// A message is published.
    rcl_publish(publisher_handle: Address, message: Address);
    /// The middleware publishes a message, with this time of its source.
    rmw_publish(rmw_publisher_handle: Address, message: Address, timestamp: Signed);
    /// A subscription of the middleware begins.
    rmw_subscription_init(rmw_subscription_handle: Address, gid: Gid);
    /// A subscription begins: of which node, to which topic.
    rcl_subscription_init(
        subscription_handle: Address,
        node_handle: Address,
        rmw_subscription_handle: Address,
        topic_name: CText,
        queue_depth: Count
    );
    /// A subscription has an object of the C++ library.
    rclcpp_subscription_init(subscription_handle: Address, subscription: Address);
    /// A callback is that of a subscription's object.
    rclcpp_subscription_callback_added(subscription: Address, callback: Address);
    /// The middleware has taken a message, or found none.
    rmw_take(
        rmw_subscription_handle: Address,
        message: Address,
        source_timestamp: Signed,
        taken: Truth
    );
    /// A message is taken.
    rcl_take(message: Address);
    /// The C++ library takes a message.
    rclcpp_take(message: Address);
    /// A service begins: of which node, by which name.
    rcl_service_init(
        service_handle: Address,
        node_handle: Address,
        rmw_service_handle: Address,
        service_name: CText
    );
    /// A callback is that of a service.
    rclcpp_service_callback_added(service_handle: Address, callback: Address);
    /// The middleware has taken a request, or found none.
    rmw_take_request(
        rmw_service_handle: Address,
        request: Address,
        client_gid: Gid,
        sequence_number: Signed,
        taken: Truth
    );
    /// The middleware sends a response.
    rmw_send_response(
        rmw_service_handle: Address,
        response: Address,
        client_gid: Gid,
        sequence_number: Signed,
        timestamp: Signed
    );
    /// A client of the middleware begins.
    rmw_client_init(rmw_client_handle: Address, gid: Gid);
    /// A client begins: of which node, of which service.
    rcl_client_init(
        client_handle: Address,
        node_handle: Address,
        rmw_client_handle: Address,
        service_name: CText
    );
    /// The middleware sends a request.
    rmw_send_request(rmw_client_handle: Address, request: Address, sequence_number: Signed);
    /// The middleware has taken a response, or found none.
    rmw_take_response(
        rmw_client_handle: Address,
        response: Address,
        sequence_number: Signed,
        source_timestamp: Signed,
        taken: Truth
    );
    /// A timer begins, with this period in nanoseconds.
    rcl_timer_init(timer_handle: Address, period: Signed);
    /// A callback is that of a timer.
    rclcpp_timer_callback_added(timer_handle: Address, callback: Address);
    /// A timer is that of a node.
    rclcpp_timer_link_node(timer_handle: Address, node_handle: Address);
    /// A callback is this function.
    rclcpp_callback_register(callback: Address, symbol: CText);
    /// A callback starts.
    callback_start(callback: Address, is_intra_process: Truth);
    /// A callback ends.
    callback_end(callback: Address);
    /// A node has a life cycle.
    rcl_lifecycle_state_machine_init(node_handle: Address, state_machine: Address);
    /// A node goes from one state to another.
    rcl_lifecycle_transition(state_machine: Address, start_label: CText, goal_label: CText);
    /// An executor looks for what is ready.
    rclcpp_executor_get_next_ready();
    /// An executor waits for work, for so many nanoseconds at most.
    rclcpp_executor_wait_for_work(timeout: Signed);
    /// An executor executes what a timer or a subscription is ready for.
    rclcpp_executor_execute(handle: Address);
    /// A buffer within the process is that of a subscription.
    rclcpp_ipb_to_subscription(ipb: Address, subscription: Address);
    /// A buffer is behind the one within the process.
    rclcpp_buffer_to_ipb(buffer: Address, ipb: Address);
    /// A buffer has space for so many messages.
    rclcpp_construct_ring_buffer(buffer: Address, capacity: Unsigned);
    /// A message goes into a buffer.
    rclcpp_ring_buffer_enqueue(
        buffer: Address,
        index: Unsigned,
        size: Unsigned,
        overwritten: Truth
    );
    /// A message is taken out of a buffer.
    rclcpp_ring_buffer_dequeue(buffer: Address, index: Unsigned, size: Unsigned);
    /// A buffer is cleared.
    rclcpp_ring_buffer_clear(buffer: Address);
}
