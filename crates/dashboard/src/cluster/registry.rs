//! The tables that are open.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use kube::Client;
use serde_json::Value;
use tokio::sync::watch;

use super::Selection;
use super::table::Table;

/// So long a table is kept that nobody looks at: a page that is loaded again finds it.
const KEPT: Duration = Duration::from_mins(1);

/// Tables of one type of row.
#[derive(Debug)]
pub(super) struct Registry<T> {
    read: fn(Value) -> Option<T>,
    open: Mutex<HashMap<Selection, Open<T>>>,
}

#[derive(Debug)]
struct Open<T> {
    table: Arc<Table<T>>,
    asked: Instant,
}

impl<T: Send + Sync + 'static> Registry<T> {
    pub(super) fn new(read: fn(Value) -> Option<T>) -> Self {
        Self {
            read,
            open: Mutex::default(),
        }
    }

    /// The table of a selection, which is watched from now on.
    pub(super) fn open(
        &self,
        client: &Client,
        selection: Selection,
        changed: &watch::Sender<u64>,
    ) -> Arc<Table<T>> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = open.entry(selection);
        let selection = entry.key().clone();
        let open = entry.or_insert_with(|| Open {
            table: Table::watched(client.clone(), &selection, self.read, changed.clone()),
            asked: Instant::now(),
        });
        open.asked = Instant::now();
        open.table.clone()
    }

    pub(super) fn sweep(&self) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|_, open| Arc::strong_count(&open.table) > 1 || open.asked.elapsed() < KEPT);
    }
}
