//! Keys, in words.

/// Keys that work everywhere.
pub const KEYS: [(&str, &str); 17] = [
    ("t s Tab", "threads, spans"),
    ("Up Down PgUp PgDn g G", "select a line"),
    ("Enter", "open the thread, or the path of the slowest span"),
    ("Esc", "back; drop the filter"),
    ("< >", "sort by the column to the left, to the right"),
    ("r", "the least first"),
    ("o", "by process, or all threads alike"),
    ("c", "choose columns"),
    ("/", "filter by name or id; in a thread: search its events"),
    ("& n", "in a thread: filter its events; search on"),
    ("p", "in a thread: pause its events"),
    ("w", "sum up the last second, ten seconds, or all"),
    ("f Space", "freeze what is shown; Space of a log: pause"),
    ("? h F1", "these keys"),
    ("Ctrl-Z Ctrl-L", "suspend; draw anew"),
    ("q Ctrl-C", "end"),
    (
        "mouse",
        "a heading: sort; a line: select, open; the wheel: move",
    ),
];

/// Keys that move the time of a log.
pub const PLAY: [(&str, &str); 6] = [
    ("Space", "pause, play"),
    (". ,", "a step of 100 ms forth, back"),
    ("] [", "5 s forth, back"),
    ("+ - 1", "twice as fast, half as fast, as fast as it was"),
    ("0", "from the start"),
    ("e", "to the end"),
];

/// Parts of bars.
pub const PARTS: [&str; 6] = [
    "running", "runnable", "blocked", "stopped", "unpolled", "unknown",
];
