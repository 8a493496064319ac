use proptest::prelude::*;
use ratatui::buffer::Buffer;
use ratatui::crossterm::event::{
    KeyCode, KeyEvent, KeyModifiers, MouseButton, MouseEvent, MouseEventKind,
};
use ratatui::layout::Rect;

use super::*;
use tracer_analysis::{CallKey, Inside, Interval, IntervalEnd, Reason, State, Task, Thread, Waker};
use tracer_engine::event::MonotonicNs;

use crate::model::{Opened, SpanRow, Sum, ThreadRow, WaitsFor};

const LOOK: ScreenLook = ScreenLook {
    is_coloured: true,
    is_unicode: true,
};

const SECOND: u64 = 1_000_000_000;

/// Returns a shot of threads that run this long, of two processes.
fn shot(running: &[u64]) -> Arc<Shot> {
    let threads = (1..).zip(running).map(|(tid, running)| ThreadRow {
        thread: Thread {
            pid: 1 + tid % 2,
            tid,
        },
        name: format!("thread-{tid}"),
        process: "server".to_owned(),
        command: "server --port 80".to_owned(),
        sum: Sum {
            running: *running,
            blocked: SECOND.saturating_sub(*running),
            ..Sum::default()
        },
        minute: vec![*running; 60],
        ..ThreadRow::default()
    });
    Arc::new(Shot {
        at: 5 * SECOND,
        span: SECOND,
        threads: threads.collect(),
        spans: vec![SpanRow {
            name: "request".to_owned(),
            count: 7,
            ..SpanRow::default()
        }],
        ..Shot::default()
    })
}

fn screen(running: &[u64]) -> Screen {
    let mut screen = Screen::new(LOOK, Window::Last(SECOND), None);
    screen.show(shot(running));
    screen
}

fn press(screen: &mut Screen, code: KeyCode) -> Todo {
    screen.key(KeyEvent::new(code, KeyModifiers::NONE))
}

fn letters(screen: &mut Screen, keys: &str) {
    for key in keys.chars() {
        press(screen, KeyCode::Char(key));
    }
}

fn drawn(screen: &mut Screen, (width, height): (u16, u16)) -> Vec<String> {
    let mut buffer = Buffer::empty(Rect::new(0, 0, width, height));
    screen.draw(&mut buffer);
    let rows = buffer.content.chunks(width.max(1).into());
    rows.map(|row| row.iter().map(|cell| cell.symbol()).collect())
        .collect()
}

#[test]
fn who_is_selected_stays_so_wherever_it_goes() {
    let mut screen = screen(&[300, 200, 100]);
    letters(&mut screen, "o");
    drawn(&mut screen, (80, 24));
    press(&mut screen, KeyCode::Down);
    let second = screen.thread;
    assert_eq!(second.map(|thread| thread.tid), Some(2));
    screen.show(shot(&[1, 2, 3]));
    let lines = drawn(&mut screen, (80, 24));
    assert!(lines[2].starts_with("thread-3"), "{lines:#?}");
    assert_eq!((screen.thread, screen.threads.selected), (second, 1));
    press(&mut screen, KeyCode::Enter);
    assert_eq!(screen.wish().opened, second);
    press(&mut screen, KeyCode::Esc);
    assert_eq!(screen.wish().opened, None);
}

#[test]
fn threads_are_below_their_process_which_is_their_sum() {
    let mut screen = screen(&[SECOND / 10, SECOND / 5, SECOND / 2]);
    let lines = drawn(&mut screen, (100, 10));
    // It has a name of its own, whichever of its threads are seen.
    assert!(lines[2].starts_with("server 2 "), "{lines:#?}");
    assert!(lines[2].contains(" 60 %"), "{lines:#?}");
    assert!(lines[3].starts_with("  thread-3 3 "), "{lines:#?}");
    assert!(lines[4].starts_with("  thread-1 1 "), "{lines:#?}");
    assert!(lines[5].starts_with("thread-2 1/2 "), "{lines:#?}");
}

#[test]
fn frozen_is_frozen_and_a_filter_is_taken_as_it_is_typed() {
    let mut screen = screen(&[1, 2, 3]);
    letters(&mut screen, "f");
    screen.show(shot(&[9, 9, 9, 9]));
    assert_eq!(screen.shot.threads.len(), 3);
    letters(&mut screen, "f/thread-2");
    screen.show(shot(&[9, 9, 9, 9]));
    let lines = drawn(&mut screen, (80, 24)).concat();
    assert!(lines.contains("thread-2") && !lines.contains("thread-3"));
    assert!(lines.contains("filter: thread-2_"), "{lines}");
    // What is typed is no command.
    assert_eq!(press(&mut screen, KeyCode::Char('q')), Todo::Nothing);
    press(&mut screen, KeyCode::Esc);
    assert_eq!(press(&mut screen, KeyCode::Char('q')), Todo::Quit);
    assert!(drawn(&mut screen, (80, 24)).concat().contains("thread-4"));
}

#[test]
fn columns_are_sorted_by_keys_and_by_clicks_on_their_headings() {
    let mut screen = screen(&[100, 200, 300]);
    letters(&mut screen, "o");
    let lines = drawn(&mut screen, (80, 24));
    let wait = u16::try_from(lines[1].find("wait").unwrap()).unwrap();
    let click = |column, row| MouseEvent {
        kind: MouseEventKind::Down(MouseButton::Left),
        column,
        row,
        modifiers: KeyModifiers::NONE,
    };
    screen.mouse(click(wait, 1));
    assert_eq!(screen.listing.sort, ThreadColumn::Wait);
    letters(&mut screen, "<");
    assert_eq!(screen.listing.sort, ThreadColumn::Run);
    let run = u16::try_from(lines[1].find(" run").unwrap()).unwrap() + 1;
    screen.mouse(click(run, 1));
    let lines = drawn(&mut screen, (80, 24));
    assert!(lines[2].starts_with("thread-1"), "{lines:#?}");
    screen.mouse(click(3, 4));
    assert_eq!(screen.thread.map(|thread| thread.tid), Some(3));
    screen.mouse(click(3, 4));
    assert_eq!(screen.view, View::Thread(Thread { pid: 2, tid: 3 }));
}

#[test]
fn a_column_that_was_chosen_is_shown_even_where_there_is_little_space() {
    let mut screen = screen(&[100]);
    letters(&mut screen, "c");
    for _ in 0..4 {
        press(&mut screen, KeyCode::Down);
    }
    letters(&mut screen, " q");
    let lines = drawn(&mut screen, (50, 10));
    assert!(lines[1].contains("running"), "{lines:#?}");
    assert!(lines[2].contains("100 ns"), "{lines:#?}");
}

proptest! {
    /// Checks that the screen is drawn whatever key is pressed and however large it is.
    #[test]
    fn any_key_on_any_screen_is_harmless(
        keys in prop::collection::vec(
            (prop::option::of(prop::char::range(' ', '~')), 0..12_u8, any::<u16>()), 0..60),
        size in (1..300_u16, 1..80_u16),
        threads in prop::collection::vec(any::<u64>(), 0..40),
        is_log in any::<bool>(),
    ) {
        let play = is_log.then(Play::default);
        let mut screen = Screen::new(LOOK, Window::Last(SECOND), play);
        for (nth, (key, other, at)) in keys.into_iter().enumerate() {
            if nth % 5 == 0 {
                screen.show(shot(&threads[..threads.len() * (nth % 3) / 2]));
            }
            let code = match (key, other) {
                (Some(key), _) => KeyCode::Char(key),
                (None, 0) => KeyCode::Enter,
                (None, 1) => KeyCode::Esc,
                (None, 2) => KeyCode::Up,
                (None, 3) => KeyCode::PageDown,
                (None, 4) => KeyCode::End,
                (None, 5) => KeyCode::Tab,
                (None, 6) => KeyCode::Backspace,
                (None, other) => {
                    let kind = if other % 2 == 0 {
                        MouseEventKind::Down(MouseButton::Left)
                    } else {
                        MouseEventKind::ScrollDown
                    };
                    let (column, row) = (at % 320, at % 90);
                    let modifiers = KeyModifiers::NONE;
                    screen.mouse(MouseEvent { kind, column, row, modifiers });
                    KeyCode::Null
                }
            };
            press(&mut screen, code);
            let _ = screen.wish();
            drawn(&mut screen, size);
        }
    }
}

/// Returns a shot as above, with an opened thread that has had this many events.
fn opened(events: usize) -> Arc<Shot> {
    let lines = (0..events).map(|nth| format!("{nth} tick").into());
    let opened = Opened {
        thread: Thread { pid: 2, tid: 1 },
        name: "thread-1".to_owned(),
        command: String::new(),
        from: MonotonicNs(0),
        to: MonotonicNs(SECOND * events as u64),
        start: MonotonicNs(0),
        track: Vec::new(),
        ticks: Vec::new(),
        lines: lines.collect(),
    };
    let shot = shot(&[1, 2, 3]);
    Arc::new(Shot {
        opened: Some(opened),
        ..(*shot).clone()
    })
}

#[test]
fn hints_are_whole_and_matches_are_counted() {
    let mut screen = screen(&[1, 2, 3]);
    for width in 20..120 {
        let lines = drawn(&mut screen, (width, 10));
        let foot = lines.last().unwrap().trim_end();
        let last = foot.rsplit(' ').next().unwrap();
        assert!(
            [
                "?help",
                "q:end",
                "Enter:open",
                "s:spans",
                "<>:sort",
                "/:filter",
                "c:columns",
                "w:window",
                "f:freeze"
            ]
            .contains(&last),
            "{width}: {foot}"
        );
    }
    letters(&mut screen, "o");
    press(&mut screen, KeyCode::Enter);
    screen.show(opened(12));
    letters(&mut screen, "/1");
    press(&mut screen, KeyCode::Enter);
    let lines = drawn(&mut screen, (80, 24)).join("\n");
    // 1, 10 and 11.
    assert!(lines.contains("events: 12, 3 found with \"1\""), "{lines}");
}

#[test]
fn paused_the_states_stand_still_as_the_events_do() {
    let mut screen = screen(&[1, 2, 3]);
    letters(&mut screen, "o");
    press(&mut screen, KeyCode::Enter);
    screen.show(opened(3));
    letters(&mut screen, "p");
    let before = drawn(&mut screen, (80, 24));
    screen.show(opened(9));
    let after = drawn(&mut screen, (80, 24));
    assert!(before[2].contains("3.000000 s"), "{before:#?}");
    assert_eq!(before[1..23], after[1..23]);
}

#[test]
fn what_a_thread_does_now_is_whole_where_the_screen_is_wide() {
    let blocked = Interval {
        thread: Thread { pid: 7, tid: 7 },
        state: State::Blocked(Reason {
            inside: Inside::Call(CallKey {
                nr: libc::SYS_futex.try_into().unwrap(),
                is_compat: false,
            }),
            ..Reason::default()
        }),
        from: MonotonicNs(0),
        to: MonotonicNs(12_340_000),
        end: IntervalEnd::Open,
        cpu: None,
        waits_since: MonotonicNs(0),
    };
    let mut shot = (*shot(&[1])).clone();
    shot.threads[0].current = Some(blocked);
    shot.threads[0].waits_for = Some(WaitsFor::LastWokenBy(Waker::Thread(Task {
        thread: Thread {
            pid: 123_456,
            tid: 123_789,
        },
        comm: *b"tokio-runtime-w\0",
    })));
    let mut screen = Screen::new(LOOK, Window::Last(SECOND), None);
    screen.show(Arc::new(shot));
    for width in [120, 160] {
        let lines = drawn(&mut screen, (width, 50));
        let words = "futex 12.34 ms, last woken by tokio-runtime-w 123456/123789";
        assert!(lines[2].contains(words), "{width}: {}", lines[2]);
        assert!(lines[1].contains(" run "), "{width}: {}", lines[1]);
    }
    // There is space for what it was started with, too.
    assert!(drawn(&mut screen, (160, 50))[2].contains("server --port 80"));
    assert!(drawn(&mut screen, (80, 24))[2].contains("futex 12.34 ms, last"));
}
