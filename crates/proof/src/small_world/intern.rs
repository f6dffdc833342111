//! Large values, each kept once and called by a number.

use std::hash::Hash;
use std::rc::Rc;

use super::digest::FastMap;

/// The values, numbered in the order they came; the first is the default and number 0.
#[derive(Debug)]
pub(super) struct Interner<T> {
    numbers: FastMap<Rc<T>, u32>,
    values: Vec<Rc<T>>,
}

impl<T: Default + Eq + Hash> Interner<T> {
    pub(super) fn new() -> Self {
        let mut new = Self {
            numbers: FastMap::default(),
            values: Vec::new(),
        };
        new.number(T::default());
        new
    }

    pub(super) fn number(&mut self, value: T) -> u32 {
        if let Some(number) = self.numbers.get(&value) {
            return *number;
        }
        let (number, value) = (self.values.len() as u32, Rc::new(value));
        self.values.push(Rc::clone(&value));
        self.numbers.insert(value, number);
        number
    }

    pub(super) fn get(&self, number: u32) -> Rc<T> {
        Rc::clone(&self.values[number as usize])
    }

    pub(super) fn at(&self, number: u32) -> &T {
        &self.values[number as usize]
    }
}
