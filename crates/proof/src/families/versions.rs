//! Every version that there was of something.

use std::rc::Rc;

/// All versions of the objects of one kind, oldest first.
#[derive(Debug)]
pub(super) struct Versions<T> {
    old: Vec<Rc<T>>,
    now: Rc<T>,
}

impl<T: Default> Default for Versions<T> {
    fn default() -> Self {
        Self {
            old: Vec::new(),
            now: Rc::default(),
        }
    }
}

impl<T: Clone> Versions<T> {
    /// What there is.
    pub(super) fn now(&self) -> &T {
        &self.now
    }

    /// What there will be from now on.
    pub(super) fn change(&mut self) -> &mut T {
        self.old.push(self.now.clone());
        Rc::make_mut(&mut self.now)
    }

    /// The version of this number; the last, if there is none.
    pub(super) fn at(&self, number: usize) -> Rc<T> {
        self.old.get(number).unwrap_or(&self.now).clone()
    }

    /// The number of the last version.
    pub(super) fn last(&self) -> usize {
        self.old.len()
    }
}
