//! Which objects a list is about, and what is held of one.

use std::collections::HashSet;

use carillon_plan::{ObjectKey, Uid};

use crate::watch::Held;

/// What is held of an object of which there is a row at this version.
pub(crate) fn held_at(rv: Option<u64>) -> Held {
    rv.map_or(Held::Nothing, Held::At)
}

/// Whether an object is not in a list of `scope`, or of all, that would have it.
pub(crate) fn is_gone(object: &ObjectKey, scope: Option<&str>, listed: &HashSet<Uid>) -> bool {
    !listed.contains(&object.uid) && in_scope(&object.namespace, scope)
}

/// Whether a list of `scope`, or of all, has what is in a namespace.
pub(crate) fn in_scope(namespace: &str, scope: Option<&str>) -> bool {
    scope.is_none_or(|scope| scope == namespace)
}
