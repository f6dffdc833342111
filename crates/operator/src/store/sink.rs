//! From a watch loop into the cache.

use std::collections::HashSet;
use std::time::Duration;

use carillon_plan::Uid;

use super::key::Wake;
use super::queues::Queues;
use super::row::Row;
use super::shared::Store;
use super::tables::Tables;
use crate::watch::{Held, Listed, ObjectId, Sink};

/// Brings one watch loop's objects into the cache and wakes the jobs concerned.
#[derive(Debug)]
pub struct StoreSink<K> {
    store: Store,
    queues: Queues,
    batch: Duration,
    namespace: Option<String>,
    /// Uids seen by the list under way.
    listed: HashSet<Uid>,
    /// Uids of objects that cannot be decoded.
    undecodable: HashSet<Uid>,
    kind: std::marker::PhantomData<fn(K)>,
}

impl<K: Row> StoreSink<K> {
    /// A sink for the loop over `namespace`, or over all.
    pub fn new(store: &Store, queues: &Queues, batch: Duration, namespace: Option<&str>) -> Self {
        Self {
            store: store.clone(),
            queues: queues.clone(),
            batch,
            namespace: namespace.map(str::to_owned),
            listed: HashSet::new(),
            undecodable: HashSet::new(),
            kind: std::marker::PhantomData,
        }
    }

    fn change(&self, change: impl FnOnce(&mut Tables, &mut Vec<Wake>)) {
        let mut wakes: Vec<Wake> = Vec::new();
        change(&mut self.store.write(), &mut wakes);
        for wake in wakes {
            self.queues.wake(&wake, self.batch);
        }
    }

    fn saw(&self, tables: &mut Tables, rv: u64) {
        let scope = self.namespace.as_deref();
        tables.seen_by(scope).raise(K::KIND, rv);
    }
}

impl<K: Row> Sink<K> for StoreSink<K> {
    fn relist_begin(&mut self) {
        self.listed.clear();
        self.undecodable.clear();
    }

    fn relist_item(&mut self, object: K) {
        self.listed.extend(object.uid());
        self.change(|tables, wakes| object.enter(tables, wakes));
    }

    fn relist_done(&mut self, rv: u64) {
        let listed = std::mem::take(&mut self.listed);
        self.change(|tables, wakes| {
            let scope = self.namespace.as_deref();
            K::sweep(tables, scope, &listed, wakes);
            tables.seen_by(scope).reset(K::KIND, rv);
            tables.strings.sweep();
        });
    }

    fn applied(&mut self, object: K) {
        let rv = object.resource_version().unwrap_or(0);
        if !self.undecodable.is_empty()
            && let Some(uid) = object.uid()
        {
            self.undecodable.remove(&uid);
        }
        self.change(|tables, wakes| {
            object.enter(tables, wakes);
            self.saw(tables, rv);
        });
    }

    fn deleted(&mut self, object: K) {
        let rv = object.resource_version().unwrap_or(0);
        self.change(|tables, wakes| {
            object.leave(tables, wakes);
            tables.strings.tidy();
            self.saw(tables, rv);
        });
    }

    fn progress(&mut self, rv: u64) {
        self.change(|tables, _| self.saw(tables, rv));
    }

    fn undecodable(&mut self, id: &ObjectId, deleted: bool) {
        let Ok(uid) = id.uid.parse::<Uid>() else {
            return;
        };
        if deleted {
            self.undecodable.remove(&uid);
        } else {
            self.listed.insert(uid);
            self.undecodable.insert(uid);
        }
    }

    fn holds(&self, object: &Listed) -> Held {
        match object.uid() {
            Some(uid) if !self.undecodable.contains(&uid) => K::held(&self.store.read(), object),
            _ => Held::LeftOut,
        }
    }

    fn each_held(&self, each: &mut dyn FnMut(&str, Uid, u64)) {
        K::each_held(&self.store.read(), self.namespace.as_deref(), each);
    }
}
