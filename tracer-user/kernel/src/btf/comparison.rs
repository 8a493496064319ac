//! Compares the offsets in the types of two kernels.

use super::offsets::{Global, member};
use tracer_common::kernel::globals::NO_OFFSET;

/// Number of differences that are named.
const NAMED: usize = 3;

/// Describes the first differences between the kernel's own types and others.
#[must_use]
pub fn differences(own: &[Global], others: &[Global]) -> String {
    let different = || own.iter().zip(others).filter(|(own, other)| own != other);
    let named: Vec<String> = different().take(NAMED).map(in_words).collect();
    let more = different().count().saturating_sub(NAMED);
    let mut words = named.join(", ");
    if more > 0 {
        words = format!("{words}, and {more} more");
    }
    words
}

fn in_words((own, other): (&Global, &Global)) -> String {
    let Some(name) = member(own.name) else {
        return format!(
            "{} is {} here and {} there",
            own.name, own.value, other.value
        );
    };
    let at = |global: &Global| match global.value {
        NO_OFFSET => "not".to_owned(),
        offset => format!("at {offset}"),
    };
    format!("{name} is {} here and {} there", at(own), at(other))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn global(name: &'static str, value: u32) -> Global {
        Global { name, value }
    }

    #[test]
    fn what_differs_is_named_by_its_member() {
        let own = [
            global("TASK_PID", 8),
            global("TASK_TGID", 12),
            global("SIGNAL_LIVE", NO_OFFSET),
            global("SEES_STARTS", 1),
            global("CRED_UID", 1),
        ];
        let mut others = own;
        others[0].value = 16;
        others[2].value = 4;
        assert_eq!(
            differences(&own, &others),
            "task_struct.pid is at 8 here and at 16 there, signal_struct.live is not here and at \
             4 there"
        );
        for other in &mut others {
            other.value += 100;
        }
        let words = differences(&own, &others);
        assert!(words.ends_with(", and 2 more"), "{words}");
    }
}
