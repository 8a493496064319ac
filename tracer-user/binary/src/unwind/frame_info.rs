//! Rules by which a caller is found from a function of a file, from `.eh_frame`.
//!
//! The maker of the file may have made that up. Reading it has limits: the rules for one address
//! are found in a bounded part of it, and what they compute ends after a bounded number of steps.

use std::cell::Cell;

use gimli::{
    BaseAddresses, CfaRule, CieOrFde, CommonInformationEntry, EhFrame, EhFrameOffset, Encoding,
    EndianSlice, Evaluation, EvaluationResult, Location, NativeEndian, RegisterRule, UnwindContext,
    UnwindExpression, UnwindSection, Value,
};

use super::registers::{Memory, Registers};
use crate::probes::UnwindData;

type Slice<'a> = EndianSlice<'a, NativeEndian>;

/// Bytes of an entry: a function of which more is to be said is none that a compiler has made.
const MOST_ENTRY_BYTES: usize = 64 << 10;

/// Bytes of what entries have in common. It is read again for each of them, and it begins with text
/// that is read up to its null: without a limit, a file with one long text and many entries would
/// take hours. Compilers need some thirty bytes.
const MOST_COMMON_BYTES: u32 = 4096;

/// Steps of an expression, of which linkers need a dozen.
const MOST_STEPS: u32 = 100;

/// Expressions of a stack: a signal handler's caller has one for each register.
const MOST_EXPRESSIONS: u32 = 256;

/// Registers with rules.
const MOST_RULES: usize = 64;

/// The encodings of the index that linkers write: offsets of 32 bits from where it begins, behind
/// 12 bytes.
const INDEX_HEAD: [u8; 4] = [1, 0x1b, 0x03, 0x3b];
const INDEX_HEAD_BYTES: usize = 12;

/// Unwind information of a file: how its functions call.
#[derive(Debug)]
pub struct FrameInfo {
    data: UnwindData,
    bases: BaseAddresses,
    /// Start and entry of each function, where the file has no index of them.
    entries: Option<Box<[(u64, usize)]>>,
}

/// Rule that leads from a function to its caller, at an address.
#[derive(Debug)]
pub struct UnwindRule {
    cfa: CfaRule<usize>,
    registers: Vec<(u16, RegisterRule<usize>)>,
    return_register: u16,
    encoding: Encoding,
    /// Code that the kernel calls a signal handler from: the caller was interrupted.
    is_signal: bool,
}

/// Reason for not finding the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Halt {
    /// Outermost function: there is no caller.
    Beginning,
    /// Memory that is not there.
    Memory,
    /// No rule for the code.
    Code,
    /// Rule that makes no sense.
    Damaged,
}

/// Data that the callers of a stack are found from.
#[derive(Debug)]
pub struct UnwindSource<'a> {
    /// The memory of the thread.
    pub memory: Memory<'a>,
    /// Expressions that may still be computed.
    expressions: Cell<u32>,
}

impl<'a> UnwindSource<'a> {
    /// Returns the source with this copied memory.
    pub fn new(memory: Memory<'a>) -> Self {
        Self {
            memory,
            expressions: Cell::new(MOST_EXPRESSIONS),
        }
    }
}

/// The caller of a function.
#[derive(Debug)]
pub struct Caller {
    /// Its registers.
    pub registers: Registers,
    /// Caller that was interrupted and has not called.
    pub was_interrupted: bool,
}

impl FrameInfo {
    /// Builds the rules from the unwind data of a file.
    pub fn new(data: UnwindData) -> Self {
        let mut bases = BaseAddresses::default()
            .set_eh_frame(data.entries.address)
            .set_text(data.text)
            .set_got(data.got);
        if let Some(index) = &data.index {
            bases = bases.set_eh_frame_hdr(index.address);
        }
        let mut info = Self {
            data,
            bases,
            entries: None,
        };
        if info.index().is_none() {
            info.entries = Some(info.read_entries());
        }
        info
    }

    /// Returns the address of what is at this offset in the file.
    pub fn address(&self, offset: u64) -> Option<u64> {
        self.data.address(offset)
    }

    /// Bytes of memory that it takes.
    pub fn bytes(&self) -> u64 {
        let entries = self.entries.as_ref().map_or(0, |entries| entries.len());
        self.data.bytes() + 16 * entries as u64
    }

    /// Returns the number of entries found one by one; `None` where the file has an index of them.
    #[cfg(test)]
    pub fn entries(&self) -> Option<usize> {
        self.entries.as_ref().map(|entries| entries.len())
    }

    fn section(&self) -> EhFrame<Slice<'_>> {
        let mut section = EhFrame::new(&self.data.entries.bytes, NativeEndian);
        section.set_address_size(8);
        section
    }

    /// Returns the rows of the index, and where its offsets count from.
    fn index(&self) -> Option<(&[u8], u64)> {
        let index = self.data.index.as_ref()?;
        let rows = index.bytes.get(INDEX_HEAD_BYTES..)?;
        let count = index.bytes.get(8..INDEX_HEAD_BYTES)?.first_chunk()?;
        let count = usize::try_from(u32::from_ne_bytes(*count)).ok()?;
        let rows = rows.get(..count.checked_mul(8)?)?;
        index
            .bytes
            .starts_with(&INDEX_HEAD)
            .then_some((rows, index.address))
    }

    /// Finds the entry of the function that has an address, or would have it.
    fn entry(&self, address: u64) -> Option<usize> {
        if let Some(entries) = &self.entries {
            let behind = entries.partition_point(|(begin, _)| *begin <= address);
            let (_, offset) = entries.get(behind.checked_sub(1)?)?;
            return Some(*offset);
        }
        let (rows, base) = self.index()?;
        let word = |row: usize, at: usize| {
            let bytes = rows.get(row * 8 + at..)?.first_chunk()?;
            Some(base.wrapping_add_signed(i32::from_ne_bytes(*bytes).into()))
        };
        let (mut from, mut to) = (0, rows.len() / 8);
        while from < to {
            let middle = from + (to - from) / 2;
            if word(middle, 0)? <= address {
                from = middle + 1;
            } else {
                to = middle;
            }
        }
        let entry = word(from.checked_sub(1)?, 4)?;
        usize::try_from(entry.checked_sub(self.data.entries.address)?).ok()
    }

    /// Reads all entries, in order of their functions.
    fn read_entries(&self) -> Box<[(u64, usize)]> {
        let section = self.section();
        let mut found = Vec::new();
        let mut entries = section.entries(&self.bases);
        while let Ok(Some(entry)) = entries.next() {
            if let CieOrFde::Fde(partial) = entry
                && let Ok(whole) = partial.parse(|section, _, at| self.common(section, at))
            {
                found.push((whole.initial_address(), whole.offset()));
            }
        }
        found.sort_unstable();
        found.into()
    }

    /// Reads the part that entries have in common, unless it is larger than a compiler makes it.
    fn common<'a>(
        &'a self,
        section: &EhFrame<Slice<'a>>,
        offset: EhFrameOffset,
    ) -> gimli::Result<CommonInformationEntry<Slice<'a>>> {
        let bytes = self.data.entries.bytes.get(offset.0..);
        let length = bytes.and_then(|bytes| bytes.first_chunk().copied());
        match length.map(u32::from_ne_bytes) {
            Some(length) if length <= MOST_COMMON_BYTES => {
                section.cie_from_offset(&self.bases, offset)
            }
            _ => Err(gimli::Error::NoUnwindInfoForAddress),
        }
    }

    /// Finds the rule that leads from the function at this address to its caller; `None` where the
    /// file has none.
    pub fn rule(&self, address: u64, context: &mut UnwindContext<usize>) -> Option<UnwindRule> {
        let section = self.section();
        let offset = EhFrameOffset(self.entry(address)?);
        let entry = section
            .fde_from_offset(&self.bases, offset, |section, _, at| {
                self.common(section, at)
            })
            .ok()?;
        if entry.entry_len() > MOST_ENTRY_BYTES {
            return None;
        }
        let row = entry
            .unwind_info_for_address(&section, &self.bases, context, address)
            .ok()?;
        let registers = row.registers().take(MOST_RULES);
        let registers = registers.map(|(register, rule)| (register.0, rule.clone()));
        Some(UnwindRule {
            cfa: row.cfa().clone(),
            registers: registers.collect(),
            return_register: entry.cie().return_address_register().0,
            encoding: entry.cie().encoding(),
            is_signal: entry.is_signal_trampoline(),
        })
    }

    /// Finds the caller of the function that has these registers.
    pub fn caller(
        &self,
        rule: &UnwindRule,
        registers: &Registers,
        source: &UnwindSource<'_>,
    ) -> Result<Caller, Halt> {
        let of = Computation {
            info: self,
            rule,
            registers,
            source,
        };
        let frame = of.cfa()?;
        let mut caller = registers.restore_caller(frame);
        let mut returns = caller.get(rule.return_register);
        for (index, rule_of) in &rule.registers {
            let value = of.value(*index, rule_of, frame);
            if *index == rule.return_register {
                if *rule_of == RegisterRule::Undefined {
                    return Err(Halt::Beginning);
                }
                returns = value?;
            }
            // One that is not in the memory that was copied is not known further out; whether it is
            // needed there is another question.
            caller.set(*index, value.unwrap_or(None));
        }
        caller.ip = super::registers::code(returns.ok_or(Halt::Beginning)?);
        if caller.ip == 0 {
            return Err(Halt::Beginning);
        }
        Ok(Caller {
            registers: caller,
            was_interrupted: rule.is_signal,
        })
    }
}

/// Inputs from which the values of a caller's registers are computed.
struct Computation<'a> {
    info: &'a FrameInfo,
    rule: &'a UnwindRule,
    registers: &'a Registers,
    source: &'a UnwindSource<'a>,
}

impl Computation<'_> {
    fn cfa(&self) -> Result<u64, Halt> {
        match &self.rule.cfa {
            CfaRule::RegisterAndOffset { register, offset } => {
                let base = self.registers.get(register.0).ok_or(Halt::Code)?;
                Ok(base.wrapping_add_signed(*offset))
            }
            CfaRule::Expression(expression) => self.expression(expression, None),
        }
    }

    fn value(&self, index: u16, rule: &RegisterRule<usize>, cfa: u64) -> Result<Option<u64>, Halt> {
        let value = match rule {
            RegisterRule::SameValue => self.registers.get(index),
            RegisterRule::Offset(offset) => Some(self.read(cfa.wrapping_add_signed(*offset))?),
            RegisterRule::ValOffset(offset) => Some(cfa.wrapping_add_signed(*offset)),
            RegisterRule::Register(other) => self.registers.get(other.0),
            RegisterRule::Expression(expression) => {
                Some(self.read(self.expression(expression, Some(cfa))?)?)
            }
            RegisterRule::ValExpression(expression) => {
                Some(self.expression(expression, Some(cfa))?)
            }
            _ => None,
        };
        Ok(value)
    }

    fn read(&self, address: u64) -> Result<u64, Halt> {
        self.source.memory.word(address).ok_or(Halt::Memory)
    }

    /// Computes an expression, which begins with this value.
    fn expression(
        &self,
        expression: &UnwindExpression<usize>,
        initial: Option<u64>,
    ) -> Result<u64, Halt> {
        let left = &self.source.expressions;
        left.set(left.get().checked_sub(1).ok_or(Halt::Damaged)?);
        let section = self.info.section();
        let code = expression.get(&section).map_err(|_damage| Halt::Damaged)?;
        let mut evaluation: Evaluation<Slice<'_>> = Evaluation::new(code.0, self.rule.encoding);
        // Without a limit it may go on for ever.
        evaluation.set_max_iterations(MOST_STEPS);
        if let Some(value) = initial {
            evaluation.set_initial_value(value);
        }
        let mut result = evaluation.evaluate();
        loop {
            result = match result.map_err(|_damage| Halt::Damaged)? {
                EvaluationResult::Complete => break,
                EvaluationResult::RequiresRegister { register, .. } => {
                    let value = self.registers.get(register.0).ok_or(Halt::Code)?;
                    evaluation.resume_with_register(Value::Generic(value))
                }
                EvaluationResult::RequiresMemory { address, size, .. } => {
                    let value = self
                        .source
                        .memory
                        .bytes(address, size)
                        .ok_or(Halt::Memory)?;
                    evaluation.resume_with_memory(Value::Generic(value))
                }
                _ => return Err(Halt::Code),
            };
        }
        match evaluation.as_result().last().map(|piece| &piece.location) {
            Some(Location::Address { address }) => Ok(*address),
            Some(Location::Value { value }) => {
                value.to_u64(u64::MAX).map_err(|_damage| Halt::Damaged)
            }
            _ => Err(Halt::Damaged),
        }
    }
}
