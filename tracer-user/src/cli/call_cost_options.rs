//! The option that bounds what recording system calls costs the traced programs.

use anyhow::ensure;

/// Bound, as typed.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct CallCostArgs {
    /// Let the recording of system calls cost the traced programs at most this part of their CPU
    /// time, in percent (1 to 100): where recording all of them would cost more, they are recorded
    /// in windows, whose lengths are chosen at random, and between these none costs anything. 100:
    /// all are recorded, as they are without root
    #[arg(long, value_name = "PERCENT", allow_negative_numbers = true)]
    call_cost: Option<String>,
}

impl CallCostArgs {
    /// Returns the bound in thousandths.
    ///
    /// # Errors
    ///
    /// It is not one.
    pub fn thousandths(&self) -> anyhow::Result<Option<u32>> {
        let Some(typed) = &self.call_cost else {
            return Ok(None);
        };
        let digits = typed.strip_suffix('%').unwrap_or(typed).trim();
        let percent = digits.parse::<u32>().unwrap_or(0);
        ensure!(
            (1..=100).contains(&percent),
            "--call-cost {typed:?} is no part of the CPU time; give a whole number of percent from \
             1 to 100, such as 3"
        );
        Ok(Some(percent * 10))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_is_a_number_of_percent() {
        let of = |typed: &str| {
            let args = CallCostArgs {
                call_cost: Some(typed.to_owned()),
            };
            args.thousandths().ok().flatten()
        };
        assert_eq!(
            (of("3"), of("3 %"), of("100")),
            (Some(30), Some(30), Some(1000))
        );
        for typed in ["0", "101", "-1", "", "2.5", "four", "99999999999"] {
            assert_eq!(of(typed), None, "{typed}");
        }
        assert_eq!(CallCostArgs::default().thousandths().unwrap(), None);
    }
}
