//! Requests behind changes. One may be several changes: a pod is marked as deleted, and is gone.

use std::collections::HashMap;
use std::sync::Arc;

use crate::history::{Request, Step};

/// The requests for each object, by its uid.
#[derive(Default)]
pub(crate) struct Requests<'a>(HashMap<&'a str, (u64, Option<&'a Arc<Request>>)>);

impl<'a> Requests<'a> {
    /// Counts the one behind a change of an object; how many there are now.
    pub(crate) fn count(&mut self, uid: &'a str, step: &'a Step) -> u64 {
        let (requests, last) = self.0.entry(uid).or_default();
        let by = step.by.as_ref();
        let is_same = last.zip(by).is_some_and(|(last, by)| Arc::ptr_eq(last, by));
        *requests += u64::from(!is_same);
        *last = by;
        *requests
    }
}
