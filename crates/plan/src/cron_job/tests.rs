//! The planner on CronJobs that are made by hand.

mod chaos;
mod child;
mod edits;
mod fixture;
mod interlock;
mod life;
mod odd;
mod requests;
mod upstream;
mod words;
mod world;
