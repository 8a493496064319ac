//! Details of waits, each with a number that goes along with the wait.

use std::sync::Arc;

use foldhash::HashMap;
use tracer_analysis::{FunctionId, Reason};

use super::WaitClass;

/// Details that are told apart; waits beyond have only their kind.
const MOST_DETAILS: usize = 8192;

/// Detail of a wait.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct WaitDetail {
    /// Kind of the wait.
    pub class: WaitClass,
    /// Object of the wait, as harmless text: a file, an address, a name that is looked up.
    pub object: Option<Arc<str>>,
    /// Whether it is that of the same call of its process at another time: the call itself was not
    /// recorded.
    pub is_inferred: bool,
}

/// The details, by number.
#[derive(Debug, Default)]
pub struct Details {
    all: Vec<WaitDetail>,
    known: HashMap<WaitDetail, FunctionId>,
}

impl Details {
    /// Returns the number of a detail; none where there are too many.
    pub fn number(&mut self, detail: WaitDetail) -> FunctionId {
        if let Some(known) = self.known.get(&detail) {
            return *known;
        }
        if self.all.len() >= MOST_DETAILS {
            return match detail.object {
                Some(_) => self.of_class(detail),
                None => FunctionId::NONE,
            };
        }
        self.all.push(detail.clone());
        let number = FunctionId(u32::try_from(self.all.len()).unwrap_or(0));
        self.known.insert(detail, number);
        number
    }

    fn of_class(&self, detail: WaitDetail) -> FunctionId {
        let bare = WaitDetail {
            object: None,
            ..detail
        };
        self.known.get(&bare).copied().unwrap_or(FunctionId::NONE)
    }

    /// Returns the detail of a wait.
    #[must_use]
    pub fn get(&self, reason: Reason) -> WaitDetail {
        let index = usize::try_from(reason.function.0).unwrap_or(usize::MAX);
        let known = index.checked_sub(1).and_then(|index| self.all.get(index));
        known.cloned().unwrap_or_else(|| WaitDetail {
            class: WaitClass::of_reason(reason),
            ..WaitDetail::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn details_are_numbered_up_to_a_limit_and_then_only_by_their_kind() {
        let mut details = Details::default();
        let detail = |object: Option<&str>| WaitDetail {
            class: WaitClass::Lock,
            object: object.map(Arc::from),
            is_inferred: false,
        };
        let bare = details.number(detail(None));
        let reason = |function| Reason {
            function,
            ..Reason::default()
        };
        assert_eq!(details.get(reason(bare)), detail(None));
        assert_eq!(details.get(reason(FunctionId::NONE)), WaitDetail::default());
        assert_eq!(
            details.get(reason(FunctionId(u32::MAX))),
            WaitDetail::default()
        );
        for nth in 0..MOST_DETAILS {
            details.number(detail(Some(&nth.to_string())));
        }
        let beyond = details.number(detail(Some("one too many")));
        assert_eq!(beyond, bare);
    }
}
