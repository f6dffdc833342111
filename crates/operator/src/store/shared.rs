//! The cache, as its writers and readers share it.

use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::tables::Tables;

/// The shared cache.
#[derive(Clone, Debug)]
pub struct Store(Arc<RwLock<Tables>>);

impl Default for Store {
    fn default() -> Self {
        Self::new()
    }
}

impl Store {
    /// An empty cache.
    pub fn new() -> Self {
        Self(Arc::new(RwLock::new(Tables::default())))
    }

    /// Borrows the tables. Hold it for a plan, not for a request.
    pub fn read(&self) -> RwLockReadGuard<'_, Tables> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, Tables> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}
