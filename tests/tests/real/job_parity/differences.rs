//! Differences that have a name and a reason.

use crate::parity::{Difference, Only};

/// All of them.
pub(crate) const DIFFERENCES: &[Difference] = &[
    Difference {
        scenarios: &["longest-name", "long-name-of-indexes"],
        facts: &[
            (Only::Theirs, "Created pod: j-a-name-of-sixty"),
            (Only::Theirs, "metadata/name = \"j-a-name-of-sixty"),
            (Only::Ours, "Created pod: j-a-name-of-sixty"),
            (Only::Ours, "metadata/name = \"j-a-name-of-sixty"),
        ],
        why: "names of pods are used once (decision 0018): their ends are longer, and the name of \
              the Job before them is cut sooner",
        always: true,
    },
    Difference {
        scenarios: &["no-such-account"],
        facts: &[
            (Only::Theirs, "Error creating: pods \"j-\" is forbidden"),
            (Only::Ours, "Error creating: pods \"j-*\" is forbidden"),
        ],
        why: "the name of the pod is known before it is created, and the event says it",
        always: true,
    },
    Difference {
        scenarios: &["suspended-before-1-36-with-a-deadline"],
        facts: &[(Only::Theirs, "event Warning DeadlineExceeded")],
        why: "a Job that was suspended with its start kept has used up its time when it is resumed",
        always: true,
    },
    Difference {
        scenarios: &["suspended-before-1-36-with-a-deadline"],
        facts: &[(Only::Ours, "Complete/reason = \"CompletionsReached\"")],
        why: "its time counts from its resumption (decision 0037)",
        always: true,
    },
    Difference {
        scenarios: &["suspended-before-1-36-with-a-deadline"],
        facts: &[(Only::Theirs, ""), (Only::Ours, "")],
        why: "what follows from these two: one Job has failed without a pod, and one has completed",
        always: true,
    },
];
