//! Choices of a round, which its seed repeats.

/// Pseudorandom values (xorshift).
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % below.max(1)
    }

    pub fn index(&mut self, below: usize) -> usize {
        usize::try_from(self.next(below as u64)).unwrap_or(0)
    }

    pub fn chance(&mut self, of: u64) -> bool {
        self.next(of) == 0
    }
}
