//! Whom a change concerns: an object, and the controller that looks after it.

use std::sync::Arc;

use carillon_plan::ObjectKey;

/// An object that a controller looks after.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Key {
    controller: &'static str,
    object: Arc<ObjectKey>,
}

impl Key {
    /// An object, and the name of the controller.
    pub fn of(controller: &'static str, object: Arc<ObjectKey>) -> Self {
        Self { controller, object }
    }

    /// The controller that looks after it.
    pub fn controller(&self) -> &'static str {
        self.controller
    }

    /// The object.
    pub fn object(&self) -> &Arc<ObjectKey> {
        &self.object
    }
}

/// Which object a change concerns, and whether it can wait for others of its kind.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Wake {
    /// At once.
    Now(Key),
    /// Together with what else happens within the batch period.
    Soon(Key),
}

impl Wake {
    /// At once, by the controller of this name.
    pub fn now(controller: &'static str, object: Arc<ObjectKey>) -> Self {
        Self::Now(Key::of(controller, object))
    }

    /// A change of status is our own write coming back, unless somebody else wrote it: it waits for others.
    pub fn changed(controller: &'static str, object: Arc<ObjectKey>, only_status: bool) -> Self {
        if only_status {
            Self::soon(controller, object)
        } else {
            Self::now(controller, object)
        }
    }

    /// Together with others, by the controller of this name.
    pub fn soon(controller: &'static str, object: Arc<ObjectKey>) -> Self {
        Self::Soon(Key::of(controller, object))
    }
}
