//! What a Job does, as scenarios over a world without API server.

mod chaos;
mod claiming;
mod counting;
mod end;
mod management;
mod world;
