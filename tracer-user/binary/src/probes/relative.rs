//! Arguments that are variables of the program: `8+table(%rip)`, an address relative to that of the
//! instruction.

/// Suffix that makes an argument relative.
pub const BASE: &str = "(%rip)";

/// Returns the description with each such variable as an integer: its distance from `probe`, the
/// address of the probe. `address_of` knows variables by name; those that it does not know stay as
/// they are.
pub fn resolved(described: &str, probe: u64, address_of: impl Fn(&str) -> Option<u64>) -> String {
    let word = |word: &str| {
        let (size, operand) = word.split_once('@')?;
        let expression = operand.strip_suffix(BASE)?;
        let address = sum(expression, &address_of)?;
        let distance = address.wrapping_sub(probe).cast_signed();
        Some(format!("{size}@{distance}{BASE}"))
    };
    let words = described.split_ascii_whitespace();
    let words = words.map(|typed| word(typed).unwrap_or_else(|| typed.to_owned()));
    words.collect::<Vec<_>>().join(" ")
}

/// Returns the value of `8+table-4`: integers, and at least one variable.
fn sum(expression: &str, address_of: &impl Fn(&str) -> Option<u64>) -> Option<u64> {
    let mut total = 0_u64;
    let mut has_variable = false;
    let mut rest = expression;
    while !rest.is_empty() {
        let (is_negative, unsigned) = match rest.strip_prefix('-') {
            Some(unsigned) => (true, unsigned),
            None => (false, rest.strip_prefix('+').unwrap_or(rest)),
        };
        let end = unsigned.find(['+', '-']).unwrap_or(unsigned.len());
        let (term, after) = unsigned.split_at(end);
        let value = match term.parse() {
            Ok(value) => value,
            Err(_) if is_negative => return None,
            Err(_) => {
                has_variable = true;
                address_of(term)?
            }
        };
        total = if is_negative {
            total.wrapping_sub(value)
        } else {
            total.wrapping_add(value)
        };
        rest = after;
    }
    has_variable.then_some(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(name: &str) -> Option<u64> {
        (name == "table").then_some(0x4000)
    }

    #[test]
    fn variables_become_distances() {
        assert_eq!(
            resolved("-1@table(%rip) 8@8+table(%rip)", 0x4010, at),
            "-1@-16(%rip) 8@-8(%rip)"
        );
        assert_eq!(resolved("4@table-4+1(%rip)", 0, at), "4@16381(%rip)");
    }

    #[test]
    fn what_is_none_or_unknown_stays() {
        for same in [
            "8@%rax",
            "8@other(%rip)",
            "8@-table(%rip)",
            "8@5(%rip)",
            "4@+(%rip)",
        ] {
            assert_eq!(resolved(same, 1, at), same);
        }
    }
}
