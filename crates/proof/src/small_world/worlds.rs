//! The worlds that are explored.

use carillon_plan::Plan;
use carillon_plan::broadcast_job::{self, Snapshot};
use jiff::Timestamp;

use super::{Budget, Server, World};

/// The product's planner, whoever leads.
pub fn product(_leader: usize, snapshot: &Snapshot<'_>, now: Timestamp) -> Plan {
    broadcast_job::plan(snapshot, now)
}

const PLAIN: World = World {
    name: "",
    nodes: 2,
    parallelism: 1,
    fail_fast: false,
    scheduler: false,
    filled: 0,
    budget: Budget {
        late_requests: 0,
        failures: 0,
        deletions: 0,
        cordons: 0,
        replacements: 0,
        hours: 0,
    },
    lookback: None,
    strict: true,
    same_plan: true,
    planner: super::known::missing_pods_take_their_place,
    server: Server {
        slice_version: true,
        status_version: true,
        delete_preconditions: true,
    },
};

/// Two nodes one after the other: two leaders, a crash with a late request, a stale restart.
pub const TWO_NODES: World = World {
    name: "2 nodes, parallelism 1",
    budget: Budget {
        late_requests: 1,
        ..PLAIN.budget
    },
    ..PLAIN
};

/// Three nodes, two at a time: two leaders, a crash, a stale restart.
pub const THREE_NODES: World = World {
    name: "3 nodes, parallelism 2",
    nodes: 3,
    parallelism: 2,
    budget: Budget {
        late_requests: 1,
        ..PLAIN.budget
    },
    ..PLAIN
};
