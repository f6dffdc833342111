//! What should happen.
