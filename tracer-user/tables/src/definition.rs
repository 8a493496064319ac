//! All tables.

use super::columns::{Column, ColumnType as Of};

/// Definition of a table that is made of a trace.
#[derive(Debug, PartialEq, Eq)]
pub struct TableDefinition {
    /// Its name.
    pub name: &'static str,
    /// Subject of a row, for people.
    pub about: &'static str,
    /// Columns of its own. [`ORIGIN`] follows them in every table.
    own: &'static [Column],
}

impl TableDefinition {
    /// Returns the table of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        TABLES.iter().copied().find(|table| table.name == name)
    }

    /// Returns the table of events, which is the first.
    #[must_use]
    pub fn events() -> &'static Self {
        &EVENTS
    }

    /// Returns all columns, in order.
    pub fn columns(&self) -> impl Iterator<Item = &'static Column> + use<> {
        self.own.iter().chain(ORIGIN)
    }

    /// Returns the number of columns before those of the origin.
    #[must_use]
    pub fn own_columns(&self) -> usize {
        self.own.len()
    }
}

/// Columns that every table ends with: by them rows of several logs and hosts are told apart and
/// joined. Each has one value in all rows of a log.
pub const ORIGIN: &[Column] = &[
    Column::optional("host", Of::Name, "Name of the host, as the reader was told"),
    Column::optional(
        "boot_id",
        Of::Name,
        "Boot of the host, as the reader was told: `ns` of one boot is one clock",
    ),
    Column::new(
        "trace_id",
        Of::Name,
        "Trace: 16 hexadecimal digits, the same for each reading of a log",
    ),
];

const TIME: Column = Column::new("time", Of::Time, "Date of its beginning");
const NS: Column = Column::ns("ns", "Its beginning on the monotonic clock of the host");
const PID: Column = Column::new("pid", Of::I32, "Process");
const TID: Column = Column::new("tid", Of::I32, "Thread");
const COMM: Column = Column::new(
    "comm",
    Of::Name,
    "Name of the thread; empty where it is not known",
);

const STATE: Column = Column::new(
    "state",
    Of::Name,
    "running, runnable (waits for a CPU), blocked, stopped, or unknown",
);
const WAIT: Column = Column::optional(
    "wait",
    Of::Name,
    "Why a runnable thread has no CPU: new, woken, preempted, yielded, throttled, out_of_budget, \
     out_of_real_time, outranked",
);
const INSIDE: Column = Column::optional(
    "inside",
    Of::Name,
    "Where a blocked thread waits: the system call, page fault, exit, kernel",
);
const IO_WAIT: Column = Column::optional(
    "io_wait",
    Of::Bool,
    "Whether a blocked thread waits for a device",
);
const FUNCTION: Column = Column::optional(
    "function",
    Of::Name,
    "Function of the program in which it waits, where stacks were recorded",
);
const LOCK: Column = Column::optional(
    "lock",
    Of::U64,
    "Address of the lock that it waits for, where locks were recorded",
);
const WAKER: Column = Column::optional(
    "waker",
    Of::Name,
    "What ended the wait: thread, irq, softirq, timer",
);
const WAKER_PID: Column = Column::optional("waker_pid", Of::I32, "Process of the waker");
const WAKER_TID: Column = Column::optional("waker_tid", Of::I32, "Thread of the waker");
const WAKER_COMM: Column = Column::optional("waker_comm", Of::Name, "Name of the waker's thread");
const BEHIND_PID: Column = Column::optional(
    "behind_pid",
    Of::I32,
    "Process that had the CPU last for which a runnable thread waited",
);
const BEHIND_TID: Column = Column::optional("behind_tid", Of::I32, "Thread of that process");
const BEHIND_COMM: Column = Column::optional("behind_comm", Of::Name, "Name of that thread");

const OTEL_TRACE_ID: Column = Column::optional(
    "otel_trace_id",
    Of::Text,
    "Trace of OpenTelemetry that the thread worked for, where that was recorded (--trace-context)",
);
const OTEL_SPAN_ID: Column = Column::optional(
    "otel_span_id",
    Of::Text,
    "Span of that trace that the thread worked for",
);

static EVENTS: TableDefinition = TableDefinition {
    name: "events",
    about: "An event: what `tracer-user read` shows",
    // Columns are added at the end: files that were written before have these.
    own: &[
        Column::new("time", Of::Time, "Date of the event"),
        Column::ns("ns", "Time on the monotonic clock of the host"),
        Column::new("type", Of::Name, "Event type"),
        Column::new("class", Of::Name, "user or system"),
        PID,
        TID,
        COMM,
        Column::optional("cpu", Of::U32, "CPU on which it was recorded"),
        Column::new(
            "prog_address",
            Of::U64,
            "Address of the trace point or system call in the program; 0 where not known",
        ),
        Column::new(
            "thread_id",
            Of::U64,
            "`pthread_t` of the thread; 0 where not known",
        ),
        Column::new(
            "truncated",
            Of::Bool,
            "Whether some of its data was not recorded",
        ),
        Column::new("data", Of::Json, "Fields of its data, as an object"),
        Column::new("raw", Of::Bytes, "Data as it was recorded"),
        Column::optional_ns(
            "duration_ns",
            "Of a system call that ends: how long it took, where its beginning was recorded",
        ),
        Column::optional(
            "stack",
            Of::Json,
            "Functions that its thread was in, the innermost first, where stacks were recorded",
        ),
        Column::optional(
            "stack_ends",
            Of::Name,
            "Why the stack ends where it does, where that is known",
        ),
        OTEL_TRACE_ID,
        OTEL_SPAN_ID,
    ],
};

/// All tables.
pub static TABLES: &[&TableDefinition] = &[
    &EVENTS,
    &TableDefinition {
        name: "threads",
        about: "A thread: how long it did what, over the whole log",
        own: &[
            PID,
            TID,
            Column::new(
                "comm",
                Of::Name,
                "Its last name; empty where it is not known",
            ),
            Column::optional("command", Of::Text, "Command line of its process"),
            Column::ns("running_ns", "Time on a CPU"),
            Column::ns("runnable_ns", "Time that it waited for a CPU"),
            Column::ns("blocked_ns", "Time that it waited for something else"),
            Column::ns("stopped_ns", "Time that it was stopped"),
            Column::ns("unknown_ns", "Time of which nothing is known"),
            Column::ns(
                "throttled_ns",
                "Part of `runnable_ns`: its time was used up (`cpu.max`)",
            ),
            Column::new(
                "preempted",
                Of::U64,
                "Number of times that it had to give way",
            ),
            Column::new("migrations", Of::U64, "Number of changes of its CPU"),
        ],
    },
    &TableDefinition {
        name: "states",
        about: "An interval in which a thread was in one state; a thread's intervals leave no time \
                out. In the order of their ends",
        own: &[
            TIME,
            NS,
            Column::ns("duration_ns", "Length of the interval"),
            PID,
            TID,
            COMM,
            STATE,
            Column::optional(
                "cpu",
                Of::U32,
                "CPU on which it ran, or for which it waited",
            ),
            Column::new(
                "is_over",
                Of::Bool,
                "Whether the thread went on with something else; else the trace ended",
            ),
            WAIT,
            INSIDE,
            IO_WAIT,
            FUNCTION,
            LOCK,
            WAKER,
            WAKER_PID,
            WAKER_TID,
            WAKER_COMM,
            BEHIND_PID,
            BEHIND_TID,
            BEHIND_COMM,
        ],
    },
    &TableDefinition {
        name: "calls",
        about: "A system call, its entry and its exit joined. In the order of their ends",
        own: &[
            Column::optional(
                "time",
                Of::Time,
                "Date of its entry, where that was recorded",
            ),
            Column::optional_ns("ns", "Its entry on the monotonic clock of the host"),
            Column::optional_ns(
                "duration_ns",
                "How long it took, where entry and exit were recorded",
            ),
            PID,
            TID,
            COMM,
            Column::new("name", Of::Name, "System call"),
            Column::new("number", Of::I32, "Number of the system call"),
            Column::new("compat", Of::Bool, "Whether a program of 32 bits made it"),
            Column::optional(
                "arguments",
                Of::Json,
                "Arguments by name, as they were at its entry",
            ),
            Column::optional(
                "filled",
                Of::Json,
                "Arguments by name that the call has filled in, as they were at its exit",
            ),
            Column::optional(
                "ret",
                Of::I64,
                "Value that it returned; null where it did not return, or its exit was lost",
            ),
            Column::optional("error", Of::Name, "Name of the error that it returned"),
            Column::optional("result", Of::Text, "Value that it returned, in words"),
            Column::optional(
                "cpu",
                Of::U32,
                "CPU on which it returned, or else was entered",
            ),
            OTEL_TRACE_ID,
            OTEL_SPAN_ID,
        ],
    },
    &TableDefinition {
        name: "spans",
        about: "A span: a time with a beginning and an end, and what its own threads did meanwhile. \
                In the order of their ends",
        own: &[
            Column::new("span", Of::U64, "Number within the log, for `path`"),
            TIME,
            NS,
            Column::ns("duration_ns", "Length of the span"),
            Column::new("name", Of::Name, "Name of the span"),
            Column::new("pid", Of::I32, "Process that ended it"),
            Column::new("tid", Of::I32, "Thread that ended it"),
            Column::new("comm", Of::Name, "Name of that thread"),
            Column::new("begun_pid", Of::I32, "Process that began it"),
            Column::new("begun_tid", Of::I32, "Thread that began it"),
            Column::ns("running_ns", "Its threads had a CPU"),
            Column::ns("runnable_ns", "They waited for a CPU"),
            Column::ns("blocked_ns", "They waited for something else"),
            Column::ns("stopped_ns", "They were stopped"),
            Column::ns("unpolled_ns", "No thread worked on it"),
            Column::ns("unknown_ns", "Nothing is known"),
            OTEL_TRACE_ID,
            OTEL_SPAN_ID,
        ],
    },
    &TableDefinition {
        name: "path",
        about: "A segment of the critical path of a span: the segments of a span add up to its \
                length, up to 10,000 of them",
        own: &[
            Column::new("span", Of::U64, "Number of the span, as in `spans`"),
            Column::new(
                "segment",
                Of::U32,
                "Number within the path, in the order of time",
            ),
            TIME,
            NS,
            Column::ns("duration_ns", "Length of the segment"),
            Column::new("name", Of::Name, "Name of the span"),
            Column::new(
                "depth",
                Of::U32,
                "How many wake-ups it lies behind; 0: the span's own threads",
            ),
            PID,
            TID,
            COMM,
            Column::new(
                "state",
                Of::Name,
                "running, runnable, blocked, stopped, waking (another CPU was asked to wake it), \
                 unmade (not there yet), unpolled (no thread worked on it), or unknown",
            ),
            Column::optional(
                "still",
                Of::Name,
                "Of a wait without an end: trace_end or path_end, whichever came first",
            ),
            WAIT,
            INSIDE,
            IO_WAIT,
            FUNCTION,
            LOCK,
            Column::optional(
                "waker",
                Of::Name,
                "What ended the wait, or made the thread, or worked on it next: thread, irq, \
                 softirq, timer",
            ),
            WAKER_PID,
            WAKER_TID,
            WAKER_COMM,
            BEHIND_PID,
            BEHIND_TID,
            BEHIND_COMM,
        ],
    },
    &TableDefinition {
        name: "stacks",
        about: "A function of the stack of an event, the innermost first",
        own: &[
            Column::new("stack", Of::U64, "Number of the stack within the log"),
            Column::new(
                "frame",
                Of::U32,
                "Number of the function within it; 0: the innermost",
            ),
            Column::new("time", Of::Time, "Date of the event"),
            Column::ns("ns", "Time on the monotonic clock of the host"),
            Column::new("type", Of::Name, "Event type"),
            PID,
            TID,
            COMM,
            Column::new("address", Of::U64, "Address in the function"),
            Column::optional(
                "function",
                Of::Name,
                "Name of the function, where it is known",
            ),
            Column {
                unit: "bytes",
                ..Column::optional("offset", Of::U64, "Distance from the function's beginning")
            },
            Column::optional("file", Of::Name, "File of the function; [anon] without one"),
            Column::optional("build_id", Of::Name, "Build identifier of the file"),
            Column::new(
                "is_kernel",
                Of::Bool,
                "Whether it is a function of the kernel",
            ),
            Column::new(
                "is_inlined",
                Of::Bool,
                "Whether the compiler has put it into the next one",
            ),
        ],
    },
    &TableDefinition {
        name: "waits",
        about: "Waits of one thread for one lock and one holder, summed up (`--locks`)",
        own: &[
            Column::optional(
                "lock",
                Of::U64,
                "Address of the lock; null for those beyond the limit",
            ),
            Column::optional("lock_pid", Of::I32, "Process whose address it is"),
            Column::optional(
                "program",
                Of::U32,
                "Number of programs that the process had run before",
            ),
            Column::new("kind", Of::Name, "Type of the lock"),
            Column::optional(
                "function",
                Of::Name,
                "Function in which the lock was first waited for, where stacks were recorded",
            ),
            Column::optional("pid", Of::I32, "Process of the thread that waited"),
            Column::optional("tid", Of::I32, "Thread that waited"),
            Column::optional("comm", Of::Name, "Name of that thread"),
            Column::optional(
                "holder_pid",
                Of::I32,
                "Process that had the lock, where known",
            ),
            Column::optional(
                "holder_tid",
                Of::I32,
                "Thread that had the lock, where known",
            ),
            Column::optional("holder_comm", Of::Name, "Name of that thread"),
            Column::optional(
                "waker_comm",
                Of::Name,
                "Name of the thread that ended the waits, where the holder is not known",
            ),
            Column::new("waits", Of::U64, "Number of waits"),
            Column::ns("duration_ns", "How long together"),
            Column::ns("longest_ns", "How long the longest was"),
            Column::new("confirmed", Of::U64, "Waits that the holder ended itself"),
        ],
    },
    &TableDefinition {
        name: "losses",
        about: "A loss: events that are missing, by cause. None is missing where there is no row",
        own: &[
            Column::optional(
                "time",
                Of::Time,
                "Date of the next event; null behind the last one",
            ),
            Column::optional_ns("ns", "Time of the next event on the monotonic clock"),
            Column::new(
                "cause",
                Of::Name,
                "Cause: its name as in the summary of a trace",
            ),
            Column::optional(
                "events",
                Of::U64,
                "Number of missing events; null where it is not known (damage)",
            ),
            Column {
                unit: "bytes",
                ..Column::optional("bytes", Of::U64, "Of damage: bytes that could not be read")
            },
            Column::optional("packets", Of::U64, "Of damage: packets that are missing"),
        ],
    },
];
