//! What the tables of `get` have in common.

/// Which columns a table has.
#[derive(Clone, Copy)]
pub(super) struct Columns {
    /// Objects of several namespaces are in it.
    pub(super) namespace: bool,
    /// `-o wide`.
    pub(super) wide: bool,
}
