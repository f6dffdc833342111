//! Differences that have a name and a reason.

use crate::parity::{Difference, Only};

/// All of them.
pub(crate) const DIFFERENCES: &[Difference] = &[
    Difference {
        scenarios: &[
            "tainted-no-schedule",
            "tainted-and-its-pod-deleted",
            "pod-fails-on-a-tainted-node",
            "update-beside-a-tainted-node",
            "not-ready",
        ],
        facts: &[
            (Only::Theirs, "step 1: status "),
            (Only::Ours, "step 1: status "),
        ],
        why: "a node that should no longer have a pod, and may keep the one it has, is no longer counted at \
              once; with kube-controller-manager the status says so when something else happens",
        always: true,
    },
    Difference {
        scenarios: &[
            "revision-adopted",
            "revision-made-later",
            "revision-loses-its-hash",
        ],
        facts: &[(Only::Theirs, ": metadata/labels/controller-revision-hash")],
        why: "a revision without a hash is known by its name; kube-controller-manager also writes the name \
              where the hash should be",
        always: true,
    },
    Difference {
        scenarios: &["released-revision-is-needed-again"],
        facts: &[
            (Only::Theirs, "R1"),
            (Only::Ours, "R3"),
            (Only::Ours, "collisionCount = 1"),
        ],
        why: "a revision that is no longer controlled and has the name of the one that is needed: \
              kube-controller-manager uses it, and its history lacks what its pods are made from; we make \
              another one, as both do where that revision says something else",
        always: true,
    },
    Difference {
        scenarios: &["no-such-account"],
        facts: &[
            (Only::Theirs, "Error creating: pods \"d-\" is forbidden"),
            (Only::Ours, "Error creating: pods \"d-*\" is forbidden"),
        ],
        why: "the name of the pod is known before it is created, and the event says it",
        always: true,
    },
    Difference {
        scenarios: &["update-beside-a-tainted-node", "tolerates-no-longer"],
        facts: &[(Only::Theirs, "least ready"), (Only::Ours, "least ready")],
        why: "a node that should no longer have a pod takes part in an update, and its pod is not replaced: \
              which node is first is the order of a hash table, or that of their names",
        always: false,
    },
    Difference {
        scenarios: &["tainted-and-its-pod-deleted", "label-taken-off-slowly"],
        facts: &[
            (Only::Theirs, "status numberMisscheduled = 1"),
            (Only::Ours, "status numberMisscheduled = 0"),
        ],
        why: "when the pod of such a node is gone, now and then kube-controller-manager goes on to count it until \
              something else happens",
        always: false,
    },
];
