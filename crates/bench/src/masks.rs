//! Owns the masks of client frames.

/// xorshift32: servers must unmask real masks; nobody here must be protected by them.
#[derive(Debug)]
pub struct Masks(u32);

impl Default for Masks {
    fn default() -> Self {
        Masks(0x9e37_79b9)
    }
}

impl Masks {
    pub fn next_mask(&mut self) -> [u8; 4] {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 17;
        self.0 ^= self.0 << 5;
        self.0.to_be_bytes()
    }
}
