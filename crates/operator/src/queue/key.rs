//! What a queue holds.

use std::{hash::Hash, sync::Arc};

use carillon_plan::ObjectKey;

/// What a queue holds.
pub trait Key: Clone + Eq + Hash + Send + 'static {
    /// The namespace whose share of the workers it needs.
    fn namespace(&self) -> &str;
}

impl Key for Arc<ObjectKey> {
    fn namespace(&self) -> &str {
        &self.namespace
    }
}
