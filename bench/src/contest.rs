//! Runs contestants in turn, A B C A B C, so that whatever else the machine does affects all of
//! them alike.

use std::collections::BTreeMap;

use super::outcome::{Contender, Measure, Outcome, Unit, Verdict};
use super::spread::{Spread, ratios};

/// Result of one run.
#[derive(Clone, Debug, Default)]
pub struct Run {
    /// The value that is compared.
    pub value: f64,
    /// Further figures by name, such as lost events.
    pub facts: BTreeMap<String, f64>,
}

impl Run {
    /// Creates a run that has only its value.
    pub fn new(value: f64) -> Self {
        Self {
            value,
            facts: BTreeMap::new(),
        }
    }

    /// Adds a further figure.
    pub fn with(mut self, fact: &str, value: f64) -> Self {
        self.facts.insert(fact.to_owned(), value);
        self
    }
}

type Runner<'a> = Box<dyn FnMut() -> anyhow::Result<Run> + 'a>;

/// Participant of a contest.
pub struct Contestant<'a> {
    name: String,
    is_ours: bool,
    run: Runner<'a>,
}

/// Goal for the median of all rounds of the compared figure ([`Measure`]).
#[derive(Clone, Copy)]
pub enum Goal {
    /// Our value is at most this.
    Below(f64),
    /// Our value is at least this.
    Above(f64),
    /// Our value is at most this part of the named contestant's, round by round.
    PartOf(&'static str, f64),
    /// Our value is at least this many times the named contestant's, round by round.
    TimesOf(&'static str, f64),
}

/// Contestants, the question they answer, and the goals that this project's are to reach.
pub struct Contest<'a> {
    question: &'static str,
    unit: Unit,
    measure: Measure,
    less_is_better: bool,
    contestants: Vec<Contestant<'a>>,
    missing: Vec<String>,
    goals: Vec<(&'static str, Goal)>,
    is_asked_once: bool,
}

impl<'a> Contest<'a> {
    /// Creates a contest of values of which less is better.
    pub fn new(question: &'static str, unit: Unit) -> Self {
        Self {
            question,
            unit,
            measure: Measure::Value,
            less_is_better: true,
            contestants: Vec::new(),
            missing: Vec::new(),
            goals: Vec::new(),
            is_asked_once: false,
        }
    }

    /// Declares that one round is enough.
    pub fn once(mut self) -> Self {
        self.is_asked_once = true;
        self
    }

    /// Sets a measure other than the value itself.
    pub fn showing(mut self, measure: Measure) -> Self {
        self.measure = measure;
        self
    }

    /// Declares that more is better.
    pub fn more_is_better(mut self) -> Self {
        self.less_is_better = false;
        self
    }

    /// Adds a peer.
    pub fn peer(&mut self, name: &str, run: impl FnMut() -> anyhow::Result<Run> + 'a) {
        self.add(name, false, Box::new(run));
    }

    /// Adds a contestant of this project. The ratios that are shown are of the first one.
    pub fn ours(&mut self, name: &str, run: impl FnMut() -> anyhow::Result<Run> + 'a) {
        self.add(name, true, Box::new(run));
    }

    fn add(&mut self, name: &str, is_ours: bool, run: Runner<'a>) {
        self.contestants.push(Contestant {
            name: name.to_owned(),
            is_ours,
            run,
        });
    }

    /// Names a contestant that cannot take part, and the reason.
    pub fn missing(&mut self, who_and_why: impl Into<String>) {
        self.missing.push(who_and_why.into());
    }

    /// Adds a goal of the contestant `who`.
    pub fn goal(&mut self, who: &'static str, goal: Goal) {
        self.goals.push((who, goal));
    }

    /// Runs all contestants in turn, `rounds` times, or once where that is enough.
    pub fn run(mut self, name: &str, rounds: usize) -> Outcome {
        let mut contenders: Vec<Contender> = self.contestants.iter().map(newcomer).collect();
        let mut facts: Vec<BTreeMap<String, Vec<f64>>> = vec![BTreeMap::new(); contenders.len()];
        for _ in 0..if self.is_asked_once { 1 } else { rounds } {
            for ((contestant, contender), facts) in self
                .contestants
                .iter_mut()
                .zip(&mut contenders)
                .zip(&mut facts)
            {
                match (contestant.run)() {
                    Ok(run) => {
                        contender.values.push(run.value);
                        for (fact, value) in run.facts {
                            facts.entry(fact).or_default().push(value);
                        }
                    }
                    // Keeps the rounds of all in step: a ratio is of one round.
                    Err(error) => {
                        contender.values.push(f64::NAN);
                        contender.failure = Some(format!("{error:#}"));
                    }
                }
            }
        }
        for (contender, facts) in contenders.iter_mut().zip(facts) {
            contender.facts = middles(facts);
        }
        let measured = self.measured(&contenders);
        show(self.measure, &mut contenders, &measured);
        let verdicts = self
            .goals
            .iter()
            .map(|goal| self.judge(&contenders, &measured, *goal))
            .collect();
        Outcome {
            name: name.to_owned(),
            question: self.question.to_owned(),
            unit: self.unit,
            measure: self.measure,
            less_is_better: self.less_is_better,
            contenders,
            missing: self.missing,
            verdicts,
        }
    }

    /// Computes the compared figure of each contestant and round.
    fn measured(&self, contenders: &[Contender]) -> Vec<Vec<f64>> {
        let base = contenders
            .first()
            .map(|first| first.values.clone())
            .unwrap_or_default();
        let of = |(value, base): (&f64, &f64)| match self.measure {
            Measure::Value => *value,
            Measure::Added => value - base,
            Measure::AddedPercent => (value - base) / base * 100.0,
        };
        contenders
            .iter()
            .map(|contender| contender.values.iter().zip(&base).map(of).collect())
            .collect()
    }

    fn judge(
        &self,
        contenders: &[Contender],
        measured: &[Vec<f64>],
        (who, goal): (&'static str, Goal),
    ) -> Verdict {
        let figures = |name: &str| {
            let mut all = contenders.iter().zip(measured);
            let (_, figures) = all.find(|(contender, _)| contender.name == name)?;
            Some(figures)
        };
        let middle = |figures: Vec<f64>| Spread::compute(figures).map(|spread| spread.median);
        let ours = figures(who).cloned().and_then(middle);
        let ratio = |other: &str| middle(ratios(figures(who)?, figures(other)?));
        let what = match self.measure {
            Measure::Value => self.unit.sign(),
            Measure::Added => "ns added",
            Measure::AddedPercent => "% added",
        };
        let (text, measured, holds): (_, _, fn(f64, f64) -> bool) = match goal {
            Goal::Below(most) => (format!("at most {most} {what}"), ours, |a, b| a <= b),
            Goal::Above(least) => (format!("at least {least} {what}"), ours, |a, b| a >= b),
            Goal::PartOf(peer, part) => {
                (format!("at most {part} of {peer}"), ratio(peer), |a, b| {
                    a <= b
                })
            }
            Goal::TimesOf(peer, times) => (
                format!("at least {times} times {peer}"),
                ratio(peer),
                |a, b| a >= b,
            ),
        };
        Verdict {
            goal: format!("{who}: {text}"),
            measured,
            holds: measured.map(|measured| holds(measured, goal.bound())),
        }
    }
}

impl Goal {
    fn bound(self) -> f64 {
        match self {
            Self::Below(bound)
            | Self::Above(bound)
            | Self::PartOf(_, bound)
            | Self::TimesOf(_, bound) => bound,
        }
    }
}

/// Sets what is shown of each contestant beside its values.
fn show(measure: Measure, contenders: &mut [Contender], measured: &[Vec<f64>]) {
    let ours = contenders.iter().position(|contender| contender.is_ours);
    let ours = ours.and_then(|index| measured.get(index));
    for (contender, measured) in contenders.iter_mut().zip(measured) {
        contender.spread = Spread::compute(contender.values.iter().copied());
        if measure != Measure::Value {
            contender.measured = Spread::compute(measured.iter().copied());
        }
        if let (false, Some(ours)) = (contender.is_ours, ours) {
            contender.ratio = Spread::compute(ratios(ours, measured));
        }
        // What was not measured has no value in JSON either.
        contender.values.retain(|value| value.is_finite());
    }
}

fn newcomer(contestant: &Contestant<'_>) -> Contender {
    Contender {
        name: contestant.name.clone(),
        is_ours: contestant.is_ours,
        values: Vec::new(),
        spread: None,
        measured: None,
        ratio: None,
        facts: BTreeMap::new(),
        failure: None,
    }
}

fn middles(facts: BTreeMap<String, Vec<f64>>) -> BTreeMap<String, f64> {
    let middle = |(name, values): (String, Vec<f64>)| Some((name, Spread::compute(values)?.median));
    facts.into_iter().filter_map(middle).collect()
}

#[cfg(test)]
mod tests {
    use anyhow::bail;

    use super::*;

    #[test]
    fn contestants_run_in_turn_and_are_compared_round_by_round() {
        let order = std::cell::RefCell::new(String::new());
        let mut contest = Contest::new("?", Unit::Ns);
        contest.ours("a", || {
            order.borrow_mut().push('a');
            Ok(Run::new(1.0))
        });
        contest.peer("b", || {
            order.borrow_mut().push('b');
            Ok(Run::new(4.0))
        });
        contest.goal("a", Goal::PartOf("b", 0.25));
        contest.goal("a", Goal::Below(0.5));
        let outcome = contest.run("q", 3);

        assert_eq!(*order.borrow(), "ababab");
        assert_eq!(outcome.contenders[1].ratio.unwrap().median, 0.25);
        assert_eq!(outcome.verdicts[0].holds, Some(true));
        assert_eq!(outcome.verdicts[1].holds, Some(false));
    }

    #[test]
    fn what_is_added_is_shown_against_the_first() {
        let mut contest = Contest::new("?", Unit::Ns).showing(Measure::Added);
        contest.peer("none", || Ok(Run::new(100.0)));
        contest.ours("ours", || Ok(Run::new(110.0)));
        contest.peer("peer", || Ok(Run::new(140.0)));
        let outcome = contest.run("q", 5);

        assert_eq!(outcome.contenders[1].measured.unwrap().median, 10.0);
        assert_eq!(outcome.contenders[2].ratio.unwrap().median, 0.25);
        assert_eq!(outcome.contenders[0].ratio, None);
    }

    #[test]
    fn a_goal_may_be_beside_another_of_ours() {
        let mut contest = Contest::new("?", Unit::Ns);
        contest.ours("one", || Ok(Run::new(8.0)));
        contest.ours("other", || Ok(Run::new(4.0)));
        contest.peer("peer", || Ok(Run::new(16.0)));
        contest.goal("other", Goal::PartOf("one", 0.5));
        contest.goal("other", Goal::PartOf("peer", 0.3));
        let outcome = contest.run("q", 5);

        let measured = outcome.verdicts.iter().map(|verdict| verdict.measured);
        assert_eq!(measured.collect::<Vec<_>>(), [Some(0.5), Some(0.25)]);
    }

    #[test]
    fn a_failure_is_shown_and_the_others_go_on() {
        let mut contest = Contest::new("?", Unit::Ns);
        contest.ours("ours", || Ok(Run::new(1.0)));
        contest.peer("peer", || bail!("broken"));
        contest.goal("ours", Goal::PartOf("peer", 1.0));
        let outcome = contest.run("q", 5);

        assert_eq!(outcome.contenders[0].values.len(), 5);
        assert_eq!(outcome.contenders[1].failure.as_deref(), Some("broken"));
        assert_eq!(outcome.verdicts[0].holds, None);
    }
}
