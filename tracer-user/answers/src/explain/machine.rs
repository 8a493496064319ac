//! Use of the whole machine during a trace, as the kernel counts it.

use crate::queries::words::share;

/// Use of the machine between two moments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MachineUse {
    /// Part of the time of all CPUs in which these were idle, in thousandths.
    pub idle: u64,
    /// Pages that came from the swap space.
    pub swapped_in: u64,
    /// Pages that went there.
    pub swapped_out: u64,
}

/// Counters of the kernel since it was started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MachineCounters {
    all: u64,
    idle: u64,
    swapped_in: u64,
    swapped_out: u64,
}

impl MachineCounters {
    /// Parses `/proc/stat` and `/proc/vmstat`; `None` where something is missing.
    #[must_use]
    pub fn parse(stat: &str, vmstat: &str) -> Option<Self> {
        let cpus = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
        // What guests use is within the first two.
        let ticks = cpus.split_whitespace().take(8);
        let ticks: Vec<u64> = ticks.map(|tick| tick.parse().ok()).collect::<Option<_>>()?;
        let counter = |name: &str| {
            let mut lines = vmstat.lines().filter_map(|line| line.split_once(' '));
            let (_, count) = lines.find(|(of, _)| *of == name)?;
            count.trim().parse::<u64>().ok()
        };
        Some(Self {
            all: ticks.iter().sum(),
            // Idle, and idle while a thread waits for a device.
            idle: ticks.get(3)?.saturating_add(*ticks.get(4)?),
            swapped_in: counter("pswpin")?,
            swapped_out: counter("pswpout")?,
        })
    }

    /// Returns what the machine was used for since `before`; `None` where no time has passed by
    /// these counters.
    #[must_use]
    pub fn since(self, before: Self) -> Option<MachineUse> {
        let all = self.all.checked_sub(before.all).filter(|all| *all > 0)?;
        let idle = self.idle.saturating_sub(before.idle).min(all);
        Some(MachineUse {
            idle: idle * 1000 / all,
            swapped_in: self.swapped_in.saturating_sub(before.swapped_in),
            swapped_out: self.swapped_out.saturating_sub(before.swapped_out),
        })
    }
}

impl MachineUse {
    /// Returns it in words.
    #[must_use]
    pub fn words(&self) -> String {
        let idle = share(self.idle, 1000);
        let swapped = match (self.swapped_in, self.swapped_out) {
            (0, 0) => "nothing swapped".to_owned(),
            (came, went) => format!("{came} pages from the swap space, {went} to it"),
        };
        format!("CPUs idle {idle}, {swapped}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counters(cpus: &str, swapped: &str) -> Option<MachineCounters> {
        let stat = format!("cpu  {cpus}\ncpu0 1 2 3 4 5 6 7 8 9 10\nintr 1\n");
        MachineCounters::parse(&stat, swapped)
    }

    #[test]
    fn what_is_idle_is_a_part_of_the_time_of_all_processors() {
        let before = counters("10 0 10 100 5 0 0 0 0 0", "pswpin 3\npswpout 4\n").unwrap();
        let after = counters("20 0 20 160 25 0 0 0 9 9", "nr_x 1\npswpin 3\npswpout 6\n").unwrap();
        let used = after.since(before).unwrap();
        // Sixty ticks, and twenty that wait for a device, of a hundred.
        let words = "CPUs idle 80 %, 0 pages from the swap space, 2 to it";
        assert_eq!((used.idle, used.words().as_str()), (800, words));
        assert_eq!(after.since(after), None);
        assert!(
            MachineUse {
                swapped_out: 0,
                ..used
            }
            .words()
            .ends_with("nothing swapped")
        );
    }

    #[test]
    fn what_is_missing_is_not_guessed() {
        assert_eq!(counters("1 2 3", "pswpin 3\npswpout 4\n"), None);
        assert_eq!(counters("1 2 3 4 5 6 7 8", "pswpin 3\n"), None);
        assert_eq!(counters("1 2 3 x 5 6 7 8", "pswpin 3\npswpout 4\n"), None);
    }
}
