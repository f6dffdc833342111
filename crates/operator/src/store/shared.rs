//! The cache, as its writers and readers share it.

use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use tokio::sync::watch;

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

    /// Turns true with the first Job that names us as its manager, and stays so.
    pub fn has_managed_job(&self) -> watch::Receiver<bool> {
        self.read().has_managed_job.subscribe()
    }

    /// Jobs that name nobody to serve them are left to others: of those little is kept.
    pub fn leave_native_jobs(&self) {
        self.write().leaves_native_jobs = true;
    }

    pub(super) fn write(&self) -> RwLockWriteGuard<'_, Tables> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}
