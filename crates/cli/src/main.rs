//! The program `kubectl-carillon`: a kubectl plugin that also works alone.

fn main() {}
