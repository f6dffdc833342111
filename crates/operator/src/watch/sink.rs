//! Where the objects of a loop go.

use carillon_plan::Uid;

use super::watched::ObjectId;
use crate::slim::SlimMeta;

/// Where the objects of one loop go. Called synchronously, by one task, in the server's order.
///
/// A list is `relist_begin`, `relist_item`…, `relist_done`; objects held before that were not among
/// the items are gone. `relist_begin` may come again before `relist_done`, when a list had to be
/// started over.
pub trait Sink<K>: Send + 'static {
    /// A full list follows.
    fn relist_begin(&mut self);
    /// An object of the list.
    fn relist_item(&mut self, object: K);
    /// The list is complete and shows the state at `rv`.
    fn relist_done(&mut self, rv: u64);
    /// An object was created or changed. Its own resourceVersion has been reached.
    fn applied(&mut self, object: K);
    /// An object was deleted, or left the selector; this is its last state, whose resourceVersion
    /// is that of the deletion.
    fn deleted(&mut self, object: K);
    /// Every change up to `rv` has been delivered.
    fn progress(&mut self, rv: u64);
    /// An object cannot be decoded. In a list (`deleted` false) it exists all the same, and a row
    /// held for it must not be taken for gone.
    fn undecodable(&mut self, _id: &ObjectId, _deleted: bool) {}
    /// What is held of an object, for the audit.
    fn holds(&self, object: &Listed) -> Held;
    /// Names every object held to the audit, with its uid and resourceVersion.
    fn each_held(&self, each: &mut dyn FnMut(&str, Uid, u64));
}

/// What an audit reads of an object.
pub type Listed = SlimMeta;

/// What a sink holds of an object.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Held {
    /// Its state at this resourceVersion.
    At(u64),
    /// Nothing.
    Nothing,
    /// Nothing, and on purpose: it is not kept although it was delivered.
    LeftOut,
}

impl Held {
    /// What two who hold the same object hold of it.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::LeftOut, held) | (held, Self::LeftOut) => held,
            (Self::At(one), Self::At(other)) => Self::At(one.min(other)),
            (Self::Nothing, _) | (_, Self::Nothing) => Self::Nothing,
        }
    }
}
