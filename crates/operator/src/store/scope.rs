//! Which objects a list is about, and what is held of one.

use crate::watch::Held;

/// What is held of an object of which there is a row at this version.
pub(crate) fn held_at(rv: Option<u64>) -> Held {
    rv.map_or(Held::Nothing, Held::At)
}

/// Whether a list of `scope`, or of all, has what is in a namespace.
pub(crate) fn in_scope(namespace: &str, scope: Option<&str>) -> bool {
    scope.is_none_or(|scope| scope == namespace)
}
