//! DaemonSets of both APIs.

use std::collections::HashSet;
use std::mem;

use carillon_plan::Uid;

use super::object::{Side, SlimDaemonSet};
use super::tables::CONTROLLER;
use crate::gate::Kind;
use crate::store::{Row, Tables, Wake, held_at, in_scope, is_gone};
use crate::transport::Pace;
use crate::watch::{Held, Listed};

impl<S: Side> Row for SlimDaemonSet<S> {
    const KIND: Kind = S::KIND;
    const PACE: Pace = Pace::Prompt;

    fn enter(self, tables: &mut Tables, wakes: &mut Vec<Wake>) {
        let tables = &mut tables.daemon_sets;
        let key = self.metadata.key(S::KIND.api_kind());
        let known = key.and_then(|key| tables.by_key.get(&key));
        let Some(row) = self.daemon_set(known) else {
            return;
        };
        let set = row.set.clone();
        let key = set.meta.owner.clone();
        let old = tables.by_key.insert(key.clone(), row);
        let only_status = old.is_some_and(|old| set.meta.asks_the_same(&old.set.meta));
        tables
            .has_any
            .send_if_modified(|has| !mem::replace(has, true));
        wakes.push(Wake::changed(CONTROLLER, key, only_status));
    }

    fn leave(self, tables: &mut Tables, wakes: &mut Vec<Wake>) {
        if let Some(key) = self.metadata.key(S::KIND.api_kind())
            && tables.daemon_sets.by_key.remove(&key).is_some()
        {
            wakes.push(Wake::now(CONTROLLER, key));
        }
    }

    fn sweep(
        tables: &mut Tables,
        namespace: Option<&str>,
        listed: &HashSet<Uid>,
        wakes: &mut Vec<Wake>,
    ) {
        let gone = tables.daemon_sets.by_key.extract_if(|key, _| {
            (key.api_version, key.kind) == S::KIND.api_kind() && is_gone(key, namespace, listed)
        });
        wakes.extend(gone.map(|(key, _)| Wake::now(CONTROLLER, key)));
    }

    fn held(tables: &Tables, object: &Listed) -> Held {
        let key = object.key(S::KIND.api_kind());
        let set = key.and_then(|key| tables.daemon_sets.get(&key));
        held_at(set.map(|set| set.meta.rv))
    }

    fn each_held(tables: &Tables, namespace: Option<&str>, each: &mut dyn FnMut(&str, Uid, u64)) {
        for set in tables.daemon_sets.iter() {
            let key = &set.meta.owner;
            if (key.api_version, key.kind) == S::KIND.api_kind()
                && in_scope(&key.namespace, namespace)
            {
                each(&key.name, key.uid, set.meta.rv);
            }
        }
    }
}
