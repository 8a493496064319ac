//! An answer that is found while events happen.

use tracer_engine::EventTypes;

use super::{Choice, Follower, Paths, Question, SpanSpec};
use crate::report::escape::harmless_json;
use crate::report::{Gap, Line, Report, Summary};
use crate::stat::{self, Statistics, Sums};
use crate::why::{self, Why};

/// What is asked of events that are still to happen.
#[derive(Clone, Debug)]
pub enum Asked {
    /// What they sum up to, and these spans.
    Stat(Vec<SpanSpec>),
    /// Why spans take as long as they do; at most 40 lines of it, or all.
    Why(Question, Choice, bool),
}

/// What is asked, and how the answer is shown.
#[derive(Clone, Debug)]
pub struct AnswerSetup {
    /// What is asked.
    pub asked: Asked,
    /// Whether the answer is for programs.
    pub is_json: bool,
}

impl AnswerSetup {
    /// What finds the answer.
    #[must_use]
    pub fn report(&self) -> Box<dyn Report> {
        let finder = match &self.asked {
            Asked::Stat(spans) => Finder::Stat(Box::new(Sums::new(spans.clone()))),
            Asked::Why(question, choice, is_brief) => {
                let paths = Paths::new(question.clone(), *choice);
                Finder::Why(Box::new(paths), *is_brief)
            }
        };
        Box::new(Answer {
            finder: Some(finder),
            is_json: self.is_json,
        })
    }
}

enum Finder {
    Stat(Box<Sums>),
    Why(Box<Paths>, bool),
}

/// The answer, instead of lines of events.
struct Answer {
    /// `None` once it has answered.
    finder: Option<Finder>,
    is_json: bool,
}

impl Answer {
    fn follower(&mut self) -> Option<&mut dyn Follower> {
        Some(match self.finder.as_mut()? {
            Finder::Stat(sums) => &mut **sums,
            Finder::Why(paths, _) => &mut **paths,
        })
    }
}

impl Report for Answer {
    fn learn(&mut self, types: &EventTypes) {
        if let Some(follower) = self.follower() {
            follower.learn(types);
        }
    }

    fn lose(&mut self, gap: Gap) {
        if let Some(follower) = self.follower() {
            follower.lose(gap);
        }
    }

    fn event(&mut self, _: &mut Vec<u8>, line: &Line<'_>) {
        if let Some(follower) = self.follower() {
            follower.event(&line.event, line.comm.unwrap_or_default());
        }
    }

    fn end(&mut self, out: &mut Vec<u8>, summary: &Summary) {
        let shown = match self.finder.take() {
            None => return,
            Some(Finder::Stat(sums)) => {
                let statistics = Statistics::of(*sums, summary);
                if self.is_json {
                    pretty(&stat::json(&statistics))
                } else {
                    stat::text(&statistics)
                }
            }
            Some(Finder::Why(paths, is_brief)) => {
                let why = Why::of(*paths, summary);
                if self.is_json {
                    pretty(&why::json(&why))
                } else {
                    why::text(&why, is_brief)
                }
            }
        };
        out.extend_from_slice(shown.as_bytes());
    }
}

/// An object over several lines.
#[must_use]
pub fn pretty(object: &serde_json::Value) -> String {
    format!("{}\n", harmless_json(&format!("{object:#}")))
}
