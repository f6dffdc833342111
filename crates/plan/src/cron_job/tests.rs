//! The planner on CronJobs that are made by hand.

mod fixture;
mod life;
mod odd;
