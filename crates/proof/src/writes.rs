//! The writes of a run, as they are counted.

use carillon_sim::Call;

/// Whether a request is one of those that are counted: a write for a job.
pub fn counts(call: &Call) -> bool {
    let resource = call.resource();
    call.is_write() && !resource.starts_with("leases.") && !resource.starts_with("events.")
}
