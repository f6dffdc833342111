//! Differences that have a name and a reason.

use crate::parity::{Difference, Only};

/// All of them.
pub(crate) const DIFFERENCES: &[Difference] = &[
    Difference {
        scenarios: &[
            "keeps-none",
            "fails-and-keeps-none",
            "keeps-none-any-more",
            "keeps-none-by-hand",
        ],
        facts: &[
            (Only::Ours, "Normal SawCompletedJob"),
            (Only::Theirs, "Normal MissingJob"),
            (Only::Theirs, "Warning FailedDelete"),
        ],
        why: "With a limit of 0 kube-controller-manager deletes a run before it looks at how it has ended: \
              it never says that it has, and when its cache is late it misses the run it deleted \
              itself, or deletes it again. We say that it has ended, then that it was deleted.",
        always: true,
    },
    Difference {
        scenarios: &["deleted-in-foreground"],
        facts: &[
            (Only::Theirs, "Normal MissingJob"),
            (Only::Ours, "Normal MissingJob"),
        ],
        why: "When the garbage collector has deleted the runs, the CronJob goes, too: whether somebody \
              sees it in between and says that its run is missing is a matter of milliseconds.",
        always: false,
    },
    Difference {
        scenarios: &["name-taken"],
        facts: &[(Only::Ours, "Warning NameConflict")],
        why: "kube-controller-manager asks for the Job that is in the way in no namespace, finds none, and \
              goes on trying until the next tick without a word. We tell that the run is lost, and why.",
        always: true,
    },
    Difference {
        scenarios: &["schedule-unreadable"],
        facts: &[
            (Only::Theirs, "found 2: [every minute]"),
            (Only::Ours, "spec.schedule: 2 fields found, five are needed"),
        ],
        why: "What is wrong with a schedule is told by the reader of schedules: theirs in the words of \
              its library, ours with what to write instead. The words before are the same.",
        always: true,
    },
    Difference {
        scenarios: &["schedule-unreadable"],
        facts: &[(Only::Theirs, "Warning UnParseableCronJobSchedule")],
        why: "kube-controller-manager tells the same twice, the first time under a reason of its own: once \
              when the schedule is changed, and once when it looks at the CronJob.",
        always: true,
    },
    Difference {
        scenarios: &["marked-itself"],
        facts: &[(Only::Ours, "Warning RequestIgnored")],
        why: "The annotation carillon.dev/run-now means something on our CronJobs only. Who writes it on a \
              native one is told so, and what to write instead.",
        always: true,
    },
];
