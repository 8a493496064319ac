//! The functions of programs and libraries, by where in the file they are.

use std::sync::Arc;

use crate::probes::{Function, vdso_functions};

/// The functions of a file.
#[derive(Debug, Default)]
pub struct Module {
    /// Functions by offset.
    functions: Vec<Function>,
}

impl Module {
    /// Builds a module of these functions.
    pub fn from_functions(mut functions: Vec<Function>) -> Self {
        // Of several names for one address, the one that looks least like an internal one.
        let rank = |function: &Function| {
            let underscores = function.name.bytes().take_while(|byte| *byte == b'_');
            (function.size == 0, underscores.count())
        };
        functions.sort_by(|one, other| {
            let order = one.offset.cmp(&other.offset);
            order
                .then_with(|| rank(one).cmp(&rank(other)))
                .then_with(|| one.name.cmp(&other.name))
        });
        functions.dedup_by_key(|function| function.offset);
        Self { functions }
    }

    /// Returns the functions of the code that the kernel maps into each process.
    pub fn of_vdso() -> Self {
        Self::from_functions(vdso_functions())
    }

    /// Returns the function that has this offset in the file, and where in it that is.
    pub fn find(&self, offset: u64) -> Option<(Arc<str>, u64)> {
        let behind = self.functions.partition_point(|one| one.offset <= offset);
        // One within another, and a mark without a size, may be before it.
        let mut before = self.functions.get(..behind)?.iter().rev().take(16);
        let has = before.clone().find(|one| offset - one.offset < one.size);
        let found = has.or_else(|| before.find(|one| one.size == 0))?;
        Some((demangled(&found.name).into(), offset - found.offset))
    }
}

/// Returns a name as its source has it.
pub fn demangled(name: &str) -> String {
    if let Ok(rust) = rustc_demangle::try_demangle(name) {
        // Without the hash that ends it.
        return format!("{rust:#}");
    }
    if name.starts_with("_Z")
        && let Ok(symbol) = cpp_demangle::Symbol::new(name)
        && let Ok(shown) = symbol.demangle()
    {
        return shown;
    }
    name.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn function(name: &str, offset: u64, size: u64) -> Function {
        Function {
            name: name.to_owned(),
            size,
            offset,
            is_indirect: false,
        }
    }

    #[test]
    fn an_offset_is_in_the_function_that_has_it() {
        let module = Module::from_functions(vec![
            function("__libc_read", 16, 8),
            function("read", 16, 8),
            function("_start", 64, 0),
            function("label", 132, 0),
            function("_ZN3foo3barEi", 128, 8),
        ]);
        let found = |offset| {
            let found = module.find(offset);
            found.map(|(name, offset)| format!("{name}+{offset}"))
        };
        assert_eq!(found(20).as_deref(), Some("read+4"));
        assert_eq!(found(24), None);
        assert_eq!(found(70).as_deref(), Some("_start+6"));
        assert_eq!(found(130).as_deref(), Some("foo::bar(int)+2"));
        assert_eq!(found(134).as_deref(), Some("foo::bar(int)+6"));
        assert_eq!(found(136).as_deref(), Some("label+4"));
        assert_eq!(found(3), None);
    }
}
