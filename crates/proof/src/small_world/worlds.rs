//! The worlds that are explored.

use carillon_plan::broadcast_job::action::Plan;
use carillon_plan::broadcast_job::{self, Snapshot};
use jiff::Timestamp;

use super::world::{Budget, Server, World};

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
    start_deadline: false,
    at_most_once: false,
    filled: 0,
    budget: Budget {
        late_requests: 0,
        late_creations: 0,
        failures: 0,
        deletions: 0,
        cordons: 0,
        replacements: 0,
        hours: 0,
    },
    lookback: None,
    strict: true,
    same_plan: true,
    planner: product,
    server: Server {
        slice_version: true,
        status_version: true,
        delete_preconditions: true,
    },
};

/// Two nodes, one after the other; a request may arrive after its sender has crashed.
pub const TWO_NODES: World = World {
    name: "2 nodes, parallelism 1, a late request",
    budget: Budget {
        late_requests: 1,
        ..PLAIN.budget
    },
    ..PLAIN
};

/// Three nodes, one after the other.
pub const ONE_BY_ONE: World = World {
    name: "3 nodes, parallelism 1",
    nodes: 3,
    ..PLAIN
};

/// Two nodes, one after the other, of which one may fail.
pub const FAILURE_ALONE: World = World {
    name: "2 nodes, parallelism 1, a failure",
    budget: Budget {
        failures: 1,
        ..PLAIN.budget
    },
    ..PLAIN
};

/// Two nodes at a time, of which one may fail.
pub const FAILURE: World = World {
    name: "2 nodes, parallelism 2, a failure",
    parallelism: 2,
    budget: Budget {
        failures: 1,
        ..PLAIN.budget
    },
    ..PLAIN
};

/// Two nodes at a time, and the first failure ends the job.
pub const FAIL_FAST: World = World {
    name: "2 nodes, parallelism 2, a failure, FailFast",
    fail_fast: true,
    strict: false,
    ..FAILURE
};

/// The same, and a creation may arrive when its attempt is over.
pub const FAIL_FAST_LATE: World = World {
    name: "2 nodes, parallelism 2, a failure, FailFast, a late creation, versions up to 2 old",
    lookback: Some(2),
    budget: Budget {
        late_creations: 1,
        ..FAILURE.budget
    },
    ..FAIL_FAST
};

/// Reservations run over from the first slice into the second.
pub const TWO_SLICES: World = World {
    name: "2 nodes, parallelism 2, one result short of a full slice",
    parallelism: 2,
    filled: 249,
    ..PLAIN
};

/// A user deletes a pod, running or not.
pub const DELETION: World = World {
    name: "2 nodes, parallelism 1, a deletion, a late creation, versions up to 2 old",
    strict: false,
    lookback: Some(2),
    budget: Budget {
        deletions: 1,
        late_creations: 1,
        ..PLAIN.budget
    },
    ..PLAIN
};

/// A deleted pod may linger for an hour, so that its node counts as lost.
pub const LOST_NODE: World = World {
    name: "2 nodes, parallelism 1, a deletion, an hour, versions up to 2 old",
    strict: false,
    lookback: Some(2),
    budget: Budget {
        deletions: 1,
        hours: 1,
        ..PLAIN.budget
    },
    ..PLAIN
};

/// A node is cordoned and may be opened again while pods wait for the scheduler.
pub const CORDON: World = World {
    name: "2 nodes, parallelism 1, a cordon, pods wait for the scheduler, versions up to 1 old",
    strict: false,
    scheduler: true,
    lookback: Some(1),
    budget: Budget {
        cordons: 1,
        ..PLAIN.budget
    },
    ..PLAIN
};

/// The only node is replaced by another of the same name. With a second node the world is too
/// large to be exhausted in minutes.
pub const REPLACEMENT: World = World {
    name: "1 node, a replacement, versions up to 1 old",
    nodes: 1,
    strict: false,
    lookback: Some(1),
    budget: Budget {
        replacements: 1,
        ..PLAIN.budget
    },
    ..PLAIN
};

/// Three nodes, two at a time.
pub const THREE_NODES: World = World {
    name: "3 nodes, parallelism 2",
    nodes: 3,
    parallelism: 2,
    ..PLAIN
};

/// A pod may start before an hour has passed, while it is being given up for that, or never.
pub const LATE_START: World = World {
    name: "1 node, a start deadline, an hour",
    nodes: 1,
    strict: false,
    start_deadline: true,
    budget: Budget {
        hours: 1,
        ..PLAIN.budget
    },
    ..PLAIN
};

/// A promise may be taken back while somebody keeps it, where nothing may run twice.
pub const WITHDRAWN: World = World {
    name: "1 node, AtMostOnce, a cordon, an hour, pods wait for the scheduler, versions up to 2 old",
    nodes: 1,
    strict: false,
    scheduler: true,
    at_most_once: true,
    lookback: Some(2),
    budget: Budget {
        cordons: 1,
        hours: 1,
        ..PLAIN.budget
    },
    ..PLAIN
};

/// Explored in seconds, unoptimized.
pub const SMALL: [World; 4] = [TWO_NODES, FAILURE_ALONE, LATE_START, WITHDRAWN];

/// All, for an optimized build: minutes.
pub const ALL: [World; 14] = [
    TWO_NODES,
    ONE_BY_ONE,
    FAILURE_ALONE,
    FAILURE,
    FAIL_FAST,
    FAIL_FAST_LATE,
    TWO_SLICES,
    DELETION,
    LOST_NODE,
    CORDON,
    REPLACEMENT,
    LATE_START,
    WITHDRAWN,
    THREE_NODES,
];
