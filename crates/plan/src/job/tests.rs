//! What a Job does, as scenarios over a world without API server.

mod chaos;
mod claiming;
mod counting;
mod end;
mod failure_policy;
mod limits;
mod management;
mod numbers;
mod success_policy;
mod suspension;
mod tracking;
mod world;
