//! Behaviours of BroadcastJob, each as a sentence, on a small world in memory.

mod bad_input;
mod behaviour;
mod chaos;
mod interlock;
mod interruptions;
mod world;
