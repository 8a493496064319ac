//! Answers: statistics, reasons, this moment, flame graphs, the report, the live view, triggers.

mod compare;
mod contexts;
mod explain;
mod far_ends;
mod first_look;
mod first_thread;
mod flames;
mod given_way;
mod locks;
mod many_processes;
mod now;
mod recorded_in_part;
mod report;
mod report_in_browser;
mod report_of_trace;
mod robots;
mod slow;
mod stat;
mod switch_windows;
mod timehist;
mod top;
mod top_terminal;
mod trigger;
mod waits_at;
mod works_for;
