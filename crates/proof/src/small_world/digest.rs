//! Hashing: a state becomes 128 bits, keys become fast.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hash, Hasher};

use super::store::State;

/// Maps whose keys are made by us, so that nobody looks for collisions.
pub(super) type FastMap<K, V> = HashMap<K, V, BuildHasherDefault<Mixer>>;
/// The same for sets.
pub(super) type FastSet<K> = HashSet<K, BuildHasherDefault<Mixer>>;

/// 128 bits of a state.
pub(super) fn digest(state: &State) -> u128 {
    let mut hasher = Mixer::default();
    state.hash(&mut hasher);
    u128::from(hasher.one) << 64 | u128::from(hasher.two)
}

/// Two lanes of multiply and fold.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Mixer {
    one: u64,
    two: u64,
}

impl Mixer {
    fn mix(&mut self, word: u64) {
        let fold = |a: u64, b: u64| {
            let product = u128::from(a) * u128::from(b);
            (product >> 64) as u64 ^ product as u64
        };
        self.one = fold(
            self.one ^ word ^ 0x2d35_8dcc_aa6c_78a5,
            0x9e37_79b9_7f4a_7c15,
        ) ^ self.two.rotate_left(23);
        self.two = fold(
            self.two ^ word ^ 0x8bb8_4b93_962e_acc9,
            0xd6e8_feb8_6659_fd93,
        )
        .wrapping_add(self.one);
    }
}

impl Hasher for Mixer {
    fn finish(&self) -> u64 {
        self.one
    }

    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let word = chunk
                .iter()
                .fold(0, |word, byte| word << 8 | u64::from(*byte));
            self.mix(word ^ (bytes.len() as u64) << 56);
        }
    }

    fn write_u8(&mut self, word: u8) {
        self.mix(word.into());
    }

    fn write_u16(&mut self, word: u16) {
        self.mix(word.into());
    }

    fn write_u32(&mut self, word: u32) {
        self.mix(word.into());
    }

    fn write_u64(&mut self, word: u64) {
        self.mix(word);
    }

    fn write_usize(&mut self, word: usize) {
        self.mix(word as u64);
    }
}

/// What is kept is a digest already.
#[derive(Default)]
pub(super) struct Already(u64);

impl Hasher for Already {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u128(&mut self, word: u128) {
        self.0 = word as u64;
    }
}
