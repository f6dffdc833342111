//! Why a recorded decision cannot be made again.

/// Why a decision cannot be made again.
#[derive(Debug, thiserror::Error)]
pub enum Irreproducible {
    /// More went into the decision than was recorded.
    #[error("the record is not complete: {0}")]
    Incomplete(String),
    /// A part of the record has a form this version does not know.
    #[error("the record cannot be read: {0}")]
    Unreadable(String),
    /// An object has a form this version does not know.
    #[error("an object of {kind} cannot be read: {error}")]
    Object {
        /// Resource name of its kind.
        kind: &'static str,
        /// What is wrong.
        error: serde_json::Error,
    },
    /// An object was not yet seen in this version.
    #[error("an object of {kind} has resourceVersion {found}; the decision had seen {seen}")]
    Newer {
        /// Resource name of its kind.
        kind: &'static str,
        /// Its version.
        found: u64,
        /// The version seen.
        seen: u64,
    },
    /// The object itself was seen in another version, or is not there.
    #[error("the object has resourceVersion {found:?}; the decision was made at {recorded}")]
    Other {
        /// Of the one among the objects.
        found: Option<u64>,
        /// Of the one decided about.
        recorded: u64,
    },
}
