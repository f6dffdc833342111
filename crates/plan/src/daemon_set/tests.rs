//! Nodes and pods in a small world, in which every change is seen at once. The rows of upstream's unit tests
//! (`daemon_controller_test.go`, `update_test.go`) are named after them.

mod budget;
mod duplicates;
mod ended;
mod gather;
mod lifecycle;
mod refused;
mod taken;
mod update;
mod whole;
mod world;
