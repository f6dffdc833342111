//! The build system.
fn main() {}
