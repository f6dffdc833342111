//! What decides, for each kind.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::sync::Arc;

use super::kind::{RulesOf, ServedKind};

/// What decides, by kind. A kind of which nothing is said here decides itself.
#[derive(Clone, Debug, Default)]
pub struct Rules(HashMap<TypeId, Arc<dyn Any + Send + Sync>>);

impl Rules {
    /// The same, with what decides about a kind.
    #[must_use]
    pub fn with<K: ServedKind>(mut self, rules: RulesOf<K>) -> Self {
        self.0.insert(TypeId::of::<K>(), Arc::new(rules));
        self
    }

    /// What decides about a kind.
    pub fn of<K: ServedKind>(&self) -> RulesOf<K> {
        let given = self.0.get(&TypeId::of::<K>());
        let given = given.and_then(|rules| rules.downcast_ref());
        given.copied().unwrap_or_default()
    }
}
