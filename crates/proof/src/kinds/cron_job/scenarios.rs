//! CronJobs.

mod beside;
mod ends;
mod fixtures;
mod kept;
mod missed;
mod native;
mod refused;
mod requests;
mod times;
mod users;

use crate::scenario::Scenario;

pub(super) fn all() -> Vec<Scenario> {
    [
        beside::all(),
        missed::all(),
        kept::all(),
        users::all(),
        requests::all(),
        ends::all(),
        times::all(),
        refused::all(),
        native::all(),
    ]
    .concat()
}
