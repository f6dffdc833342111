//! Names of what has changed, for many who look at different times.

use std::collections::VecDeque;
use std::sync::Arc;

/// The last changes, each with its number.
#[derive(Debug, Default)]
pub struct Journal {
    /// The number of the last change.
    last: u64,
    changes: VecDeque<Arc<str>>,
}

impl Journal {
    /// Notes a change. The oldest is forgotten when there are more than `most`.
    pub(crate) fn note(&mut self, name: &Arc<str>, most: usize) {
        self.last += 1;
        self.changes.push_back(name.clone());
        while self.changes.len() > most {
            self.changes.pop_front();
        }
    }

    /// The number of the last change.
    pub fn last(&self) -> u64 {
        self.last
    }

    /// What has changed after this number; `None`: that is not known any more.
    pub fn after(&self, seen: u64) -> Option<Vec<Arc<str>>> {
        let new = usize::try_from(self.last.checked_sub(seen)?).ok()?;
        let known = self.changes.len().checked_sub(new)?;
        Some(self.changes.range(known..).cloned().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_looks_too_seldom_is_told_that_it_does_not_know() {
        let mut journal = Journal::default();
        let note = |journal: &mut Journal, name: &str| journal.note(&name.into(), 2);
        let names = |found: Option<Vec<Arc<str>>>| found.map(|all| all.join(" "));
        assert_eq!(names(journal.after(0)).as_deref(), Some(""));
        note(&mut journal, "a");
        note(&mut journal, "b");
        assert_eq!(names(journal.after(0)).as_deref(), Some("a b"));
        assert_eq!(names(journal.after(1)).as_deref(), Some("b"));
        note(&mut journal, "c");
        assert_eq!(journal.last(), 3);
        assert_eq!(journal.after(0), None);
        assert_eq!(names(journal.after(1)).as_deref(), Some("b c"));
        assert_eq!(names(journal.after(3)).as_deref(), Some(""));
        assert_eq!(journal.after(4), None, "that is no number of this journal");
    }
}
