//! Functions that a probe names: by their names in the file or in the source, or by patterns.

use std::sync::Arc;

use super::binary::{Binary, BinaryError, Function};
use super::find::MAX_PROBES;
use super::find_error::FindProbeError;
use super::instructions;
use super::spec::is_of_source;
use super::types::ValueType;
use crate::stacks::demangled;

/// Returns the name of a function, as stacks show it, where a pattern asks for several.
pub(super) fn name_of_several(symbol: &str, function: &Function) -> Option<String> {
    is_pattern(symbol).then(|| demangled(&function.name))
}

/// Finds functions as [`functions`] does. Those types may be the parameters of a function of C++:
/// `f(int)`.
pub(super) fn typed_functions(
    binaries: &[Arc<Binary>],
    symbol: &str,
    offset: u64,
    types: Option<&[ValueType]>,
) -> Result<Vec<(Arc<Binary>, Function)>, FindProbeError> {
    let found = functions(binaries, symbol, offset);
    let (Err(FindProbeError::NoFunction { .. }), Some(types)) = (&found, types) else {
        return found;
    };
    let types: Vec<&str> = types.iter().map(|of| of.in_source()).collect();
    let shown = format!("{symbol}({})", types.join(", "));
    functions(binaries, &shown, offset).or(found)
}

/// Finds the functions of that name, and the files that they are in.
pub(super) fn functions(
    binaries: &[Arc<Binary>],
    symbol: &str,
    offset: u64,
) -> Result<Vec<(Arc<Binary>, Function)>, FindProbeError> {
    let mut found: Vec<(Arc<Binary>, Function)> = Vec::new();
    for binary in binaries {
        let of_name = binary.functions()?.into_iter();
        let of_name = of_name.filter(|function| is_function(&function.name, symbol));
        let mut of_name: Vec<Function> = of_name.collect();
        // Constructors of a whole object and of a part of it are often one.
        of_name.dedup_by_key(|function| function.offset);
        found.extend(
            of_name
                .into_iter()
                .map(|function| (Arc::clone(binary), function)),
        );
    }
    if is_pattern(symbol) {
        // It asks for functions that can be probed.
        found.retain(|(_, function)| !function.is_indirect);
        if found.len() > MAX_PROBES {
            return Err(FindProbeError::TooMany { asked: found.len() });
        }
    }
    for (binary, function) in &found {
        let file = binary.path().to_owned();
        let symbol = symbol.to_owned();
        if function.is_indirect {
            return Err(FindProbeError::Indirect { file, symbol });
        }
        if offset >= function.size && offset > 0 {
            return Err(FindProbeError::Outside {
                file,
                symbol,
                size: function.size,
                offset,
            });
        }
        if offset > 0 && !begins_at(binary, function, offset)? {
            return Err(FindProbeError::NoInstruction {
                file,
                symbol,
                offset,
            });
        }
    }
    match (found.is_empty(), binaries.first()) {
        (true, Some(binary)) => Err(FindProbeError::NoFunction {
            file: binary.path().to_owned(),
            link: binary.own_name(),
            symbol: symbol.to_owned(),
            is_stripped: binary.is_stripped()?,
        }),
        _ => Ok(found),
    }
}

/// Tells whether `symbol` asks for the function that its file calls `name`: by that name, or by the
/// name in its source, with its parameters or without.
fn is_function(name: &str, symbol: &str) -> bool {
    if name == symbol {
        return true;
    }
    if !(is_of_source(symbol) || is_pattern(symbol) || symbol.contains('(')) {
        return false;
    }
    let shown = demangled(name);
    // Of a function of a template it is what comes back that the name begins with.
    let bare = without_parameters(&shown);
    let bare_of_template = bare.and_then(without_result);
    let shown_of_template = without_result(&shown);
    let names = [Some(&*shown), bare, bare_of_template, shown_of_template];
    let mut names = names.into_iter().flatten();
    if is_pattern(symbol) {
        // A pattern is of names: parameters are for those that it names itself.
        return is_like(name, symbol) || names.any(|name| is_like(name, symbol));
    }
    names.any(|name| name == symbol)
}

/// Tells whether several functions may be meant: `*` stands for any bytes, `?` for one.
pub(super) fn is_pattern(symbol: &str) -> bool {
    let operator = symbol.contains("operator");
    // A pointer is no pattern: `f(char*)`.
    let before = symbol.split('(').next().unwrap_or(symbol);
    !operator && before.contains(['*', '?'])
}

/// Tells whether a name is like a pattern.
fn is_like(name: &str, pattern: &str) -> bool {
    let (name, pattern) = (name.as_bytes(), pattern.as_bytes());
    let (mut at, mut of) = (0, 0);
    // Where the last star is, and how much it stands for.
    let mut star: Option<(usize, usize)> = None;
    while let Some(byte) = name.get(at) {
        match pattern.get(of) {
            Some(b'*') => {
                star = Some((of, at));
                of += 1;
            }
            Some(one) if *one == b'?' || one == byte => {
                at += 1;
                of += 1;
            }
            _ => {
                let Some((at_star, from)) = star else {
                    return false;
                };
                (of, at) = (at_star + 1, from + 1);
                star = Some((at_star, from + 1));
            }
        }
    }
    let rest = pattern.get(of..).unwrap_or_default();
    rest.iter().all(|byte| *byte == b'*')
}

/// Returns `N::f<int>` of `void N::f<int>`; `None` for a name that has no result.
fn without_result(shown: &str) -> Option<&str> {
    let mut depth = 0_usize;
    for (at, byte) in shown.bytes().enumerate() {
        match byte {
            b'<' | b'(' | b'[' | b'{' => depth += 1,
            b'>' | b')' | b']' | b'}' => depth = depth.checked_sub(1)?,
            b' ' if depth == 0 => {
                let rest = shown.get(at + 1..)?;
                let is_operator = shown.get(..at)?.ends_with("operator");
                let is_name = rest.starts_with(|first: char| first.is_alphabetic() || first == '_');
                return (is_name && !is_operator && rest != "const").then_some(rest);
            }
            _ => {}
        }
    }
    None
}

/// Returns `ns::f` of `ns::f(int) const`; `None` for a name that has no parameters, or is a part of
/// a function.
fn without_parameters(shown: &str) -> Option<&str> {
    let shown = shown.strip_suffix(" const").unwrap_or(shown);
    let mut depth = 0_usize;
    for (at, byte) in shown.bytes().enumerate().rev() {
        match byte {
            b')' => depth += 1,
            b'(' if depth == 1 => return shown.get(..at),
            b'(' => depth = depth.checked_sub(1)?,
            _ if depth == 0 => return None,
            _ => {}
        }
    }
    None
}

/// Tells whether an instruction begins there. Beyond 16 MiB into a function it says no.
fn begins_at(binary: &Binary, function: &Function, offset: u64) -> Result<bool, BinaryError> {
    const FARTHEST: usize = 16 << 20;
    const LONGEST_INSTRUCTION: usize = 16;
    match usize::try_from(offset) {
        Ok(offset @ ..=FARTHEST) => {
            let code = binary.code(function, offset + LONGEST_INSTRUCTION)?;
            Ok(instructions::begins_at(&code, offset))
        }
        _ => Ok(false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_of_cpp_may_be_called_as_stacks_show_it() {
        let name = "_ZNK3foo3barEi";
        for (symbol, is_it) in [
            (name, true),
            ("foo::bar(int) const", true),
            ("foo::bar", true),
            ("foo::bar(int)", false),
            ("foo::ba", false),
            ("bar", false),
        ] {
            assert_eq!(is_function(name, symbol), is_it, "{symbol}");
        }
        assert!(is_function("_ZN3foo3barEi", "foo::bar(int)"));
        // `f(int)`, `f(char*)`, `void N::g<long>(long)`, as stacks show them.
        for (name, symbol, is_it) in [
            ("_Z1fi", "f(int)", true),
            ("_Z1fi", "f", false),
            ("_Z1fPc", "f(char*)", true),
            ("_Z1fPc", "f(int)", false),
            ("_ZN1N1gIlEEvT_", "void N::g<long>(long)", true),
            ("_ZN1N1gIlEEvT_", "N::g<long>(long)", true),
            ("_ZN1N1gIlEEvT_", "N::g<long>", true),
            ("_ZN1N1BIlE2goEi", "N::B<long>::go", true),
            ("_ZN1N1BIlE2goEi", "N::B<*>::go", true),
            ("_ZN1N1BIlE2goEi", "N::*", true),
            ("_ZN1N1BIlE2goEi", "*::go", true),
            ("_ZN1N1BIlE2goEi", "*::goes", false),
            ("_ZN1N1BIlE2goEi", "N::?<long>::go", true),
            ("malloc_trim", "malloc*", true),
            ("malloc_trim", "*_tri?", true),
            ("malloc_trim", "malloc", false),
            ("malloc_trim", "m?lloc", false),
        ] {
            assert_eq!(is_function(name, symbol), is_it, "{name} {symbol}");
        }
        assert_eq!(without_parameters("f(int) [clone .cold]"), None);
        assert_eq!(without_parameters("f(void (*)(int))"), Some("f"));
        assert_eq!(without_parameters(")("), None);
    }
}
