//! How late a watch is read.

/// How soon a watch is read.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Pace {
    /// At once, and all others with it: users wait for what they change. Many at a time are gathered.
    Prompt,
    /// Up to 50 ms late, several changes at a time.
    Gathered,
}
