//! A property that does not hold.

/// What is wrong.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Violation {
    /// The property that does not hold, as a sentence.
    pub law: &'static str,
    /// Where it does not.
    pub detail: String,
}
