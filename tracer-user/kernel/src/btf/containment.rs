//! Types that contain themselves: no compiler writes them, and following them would not end.

use super::raw::{kind, read_type, read_u32};

/// State of a type in the search.
#[derive(Clone, Copy)]
enum Seen {
    NotYet,
    /// Type being looked through, or around the one that is.
    Around,
    Whole,
}

/// Step on the way from the outermost type inwards: the index of a type, and of the next type in
/// it.
struct Step {
    index: usize,
    next: usize,
}

/// Finds where a type begins that contains itself: as a member, as an entry of an array, under
/// another name, or deeper. A type that is only pointed to is not contained. Each type is looked
/// through once.
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

/// Continues with a type, if it is there and was not looked through. Returns whether it is one
/// around the type being looked through.
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

/// Returns the index of a type that is a part of the one that begins at `start`: the first, the
/// second and so on. `None` after the last.
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
    // `void` is no type with an index: there is none so high.
    Some(usize::try_from(id).map_or(usize::MAX, |id| id.wrapping_sub(1)))
}
