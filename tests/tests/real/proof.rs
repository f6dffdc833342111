//! The proof on a real control plane: every revision of its store is judged by the oracle.

mod chaos;
mod crash_scan;
mod without_a_ledger;
