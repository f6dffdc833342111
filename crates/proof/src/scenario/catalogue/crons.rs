//! CronJobs.

mod beside;
mod ends;
mod kept;
mod missed;
mod native;
mod refused;
mod requests;
mod times;
mod users;

use carillon_sim::actors::JOB_FATE;
use jiff::SignedDuration;
use serde_json::{Value, json};

use super::{Ends, Same, Scenario, Step, View};

const SECOND: SignedDuration = SignedDuration::from_secs(1);

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

fn plain(name: &'static str) -> Scenario {
    Scenario::of_cron_job(name)
}

/// So many minutes after the run began.
fn minutes(minutes: i64) -> Ends {
    Ends::After(SignedDuration::from_mins(minutes))
}

/// A template for Jobs to which this happens, see [`JOB_FATE`].
fn jobs_that(fate: &str) -> Value {
    json!({"metadata": {"annotations": {JOB_FATE: fate}}})
}

/// So many seconds after the step before, or after the run began.
fn after(seconds: i64, act: fn(&View<'_>)) -> Step {
    Step {
        when: |_| true,
        after: SECOND * seconds as i32,
        act,
    }
}
