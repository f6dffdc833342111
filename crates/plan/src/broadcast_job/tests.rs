//! Behaviours of BroadcastJob, each as a sentence, on a small world in memory.

mod bad_input;
mod behaviour;
mod chaos;
mod edits;
mod execution;
mod failures;
mod family;
mod interlock;
mod interruptions;
mod nodes;
mod others_pods;
mod refused_writes;
mod stalled;
mod taken;
mod world;
