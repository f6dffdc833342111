//! The planner on CronJobs that are made by hand.

mod chaos;
mod fixture;
mod life;
mod odd;
mod upstream;
mod words;
mod world;
