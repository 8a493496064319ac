//! Options that bound what recording costs the traced programs.

use anyhow::ensure;

/// Bounds, as typed.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct CostArgs {
    /// Let the recording of system calls cost the traced programs at most this part of their CPU
    /// time, in percent (1 to 100): where recording all of them would cost more, they are recorded
    /// in windows, whose lengths are chosen at random, and between these none costs anything. 100:
    /// all are recorded, as they are without root
    #[arg(long, value_name = "PERCENT", allow_negative_numbers = true)]
    call_cost: Option<String>,
    /// Let the recording of switches, wake-ups, page faults, interrupts and samples cost the traced
    /// programs at most this part of their CPU time, in percent (1 to 100), as --call-cost does:
    /// what threads did between windows is unknown. 100: all are recorded, as they are without root
    #[arg(long, value_name = "PERCENT", allow_negative_numbers = true)]
    switch_cost: Option<String>,
}

impl CostArgs {
    /// Returns the bound of system calls in thousandths.
    ///
    /// # Errors
    ///
    /// It is not one.
    pub fn of_calls(&self) -> anyhow::Result<Option<u32>> {
        let typed = self.call_cost.as_deref();
        typed
            .map(|typed| thousandths("--call-cost", typed))
            .transpose()
    }

    /// Returns the bound of switches in thousandths.
    ///
    /// # Errors
    ///
    /// It is not one.
    pub fn of_switches(&self) -> anyhow::Result<Option<u32>> {
        let typed = self.switch_cost.as_deref();
        typed
            .map(|typed| thousandths("--switch-cost", typed))
            .transpose()
    }
}

fn thousandths(option: &str, typed: &str) -> anyhow::Result<u32> {
    let digits = typed.strip_suffix('%').unwrap_or(typed).trim();
    let percent = digits.parse::<u32>().unwrap_or(0);
    ensure!(
        (1..=100).contains(&percent),
        "{option} {typed:?} is no part of the CPU time; give a whole number of percent from 1 to \
         100, such as 3"
    );
    Ok(percent * 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_is_a_number_of_percent() {
        let of = |typed: &str| {
            let args = CostArgs {
                call_cost: Some(typed.to_owned()),
                switch_cost: Some(typed.to_owned()),
            };
            let bounds = (args.of_calls().ok(), args.of_switches().ok());
            assert_eq!(bounds.0, bounds.1);
            bounds.0.flatten()
        };
        assert_eq!(
            (of("3"), of("3 %"), of("100")),
            (Some(30), Some(30), Some(1000))
        );
        for typed in ["0", "101", "-1", "", "2.5", "four", "99999999999"] {
            assert_eq!(of(typed), None, "{typed}");
        }
        assert_eq!(CostArgs::default().of_calls().unwrap(), None);
    }
}
