//! Finds types that contain themselves. No compiler writes such types, and following them would not
//! end.

use super::raw::{kind, read_type, read_u32};

/// State of a type in the search.
#[derive(Clone, Copy)]
enum Seen {
    NotYet,
    /// Type that is being searched, or that contains the type that is.
    Around,
    Whole,
}

/// Step on the way from the outermost type inwards: the index of a type, and the number of its part
/// that is looked at next.
struct Step {
    index: usize,
    next: usize,
}

/// Finds a type that contains itself: as a member, as an entry of an array, under another name, or
/// deeper. Returns where the type begins. A type that is only pointed to is not contained. Each
/// type is searched once.
pub(super) fn type_in_itself(types: &[u8], starts: &[usize]) -> Option<usize> {
    let mut seen = vec![Seen::NotYet; starts.len()];
    let mut way = Vec::new();
    for outermost in 0..starts.len() {
        enter(outermost, &mut seen, &mut way);
        while let Some(Step { index, next }) = way.last_mut() {
            let (outer, step) = (*index, *next);
            *next += 1;
            let start = starts.get(outer).copied().unwrap_or(types.len());
            match contained(types, start, step) {
                Some(inner) if enter(inner, &mut seen, &mut way) => return Some(start),
                Some(_) => {}
                None => {
                    way.pop();
                    if let Some(seen) = seen.get_mut(outer) {
                        *seen = Seen::Whole;
                    }
                }
            }
        }
    }
    None
}

/// Continues the search with a type, if the type exists and was not searched yet. Returns whether
/// the search is inside this type already.
fn enter(index: usize, seen: &mut [Seen], way: &mut Vec<Step>) -> bool {
    match seen.get_mut(index) {
        Some(Seen::Around) => return true,
        Some(seen @ Seen::NotYet) => {
            *seen = Seen::Around;
            way.push(Step { index, next: 0 });
        }
        Some(Seen::Whole) | None => {}
    }
    false
}

/// Returns the index of part `step` of the type that begins at `start`; `None` after the last part.
fn contained(types: &[u8], start: usize, step: usize) -> Option<usize> {
    let outer = read_type(types, start)?;
    let id = match outer.kind {
        kind::STRUCT | kind::UNION if step < outer.length => {
            let member = outer.rest.checked_add(step.checked_mul(12)?)?;
            read_u32(types, member.checked_add(4)?)?
        }
        kind::ARRAY if step == 0 => read_u32(types, outer.rest)?,
        kind::TYPEDEF | kind::VOLATILE | kind::CONST | kind::RESTRICT | kind::TYPE_TAG
            if step == 0 =>
        {
            outer.size_or_type
        }
        _ => return None,
    };
    // `void` (0) has no index: it becomes an index that no type has.
    Some(usize::try_from(id).map_or(usize::MAX, |id| id.wrapping_sub(1)))
}
