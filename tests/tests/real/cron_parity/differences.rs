//! Differences that have a name and a reason, and the search for those that have none.

use std::collections::BTreeMap;

use super::scenario::Scenario;
use super::view::View;

/// Who shows a fact that the other does not.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Only {
    /// kube-controller-manager.
    Theirs,
    /// We.
    Ours,
}

/// A difference that we know of.
#[derive(Debug)]
pub(crate) struct Difference {
    /// Where it shows.
    pub(crate) scenarios: &'static [&'static str],
    /// The facts that only one of the two shows, each by a part of it.
    pub(crate) facts: &'static [(Only, &'static str)],
    /// Why it is there, and stays.
    pub(crate) why: &'static str,
    /// Whether it shows in every run; otherwise it depends on who is faster.
    pub(crate) always: bool,
}

/// All of them.
const DIFFERENCES: &[Difference] = &[
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
];

/// What the comparison came to.
#[derive(Debug, Default)]
pub(crate) struct Verdict {
    /// How many facts both have.
    pub(crate) same: usize,
    /// Facts that only one has, without a reason.
    pub(crate) unnamed: Vec<String>,
    /// Differences that were seen, with their facts.
    pub(crate) named: Vec<(&'static Difference, Vec<String>)>,
    /// Differences that should have been seen and were not.
    pub(crate) unseen: Vec<&'static Difference>,
}

impl Verdict {
    /// Whether all is as it should be.
    pub(crate) fn is_good(&self) -> bool {
        self.unnamed.is_empty() && self.unseen.is_empty()
    }
}

/// Compares.
pub(crate) fn judge(scenarios: &[Scenario], theirs: &View, ours: &View) -> Verdict {
    let mut verdict = Verdict::default();
    let mut named: BTreeMap<usize, Vec<String>> = BTreeMap::new();
    for scenario in scenarios {
        let (theirs, ours) = (&theirs[scenario.name], &ours[scenario.name]);
        assert!(!theirs.is_empty(), "{}: nothing to compare", scenario.name);
        verdict.same += theirs.intersection(ours).count();
        let only_theirs = theirs.difference(ours).map(|fact| (Only::Theirs, fact));
        let only_ours = ours.difference(theirs).map(|fact| (Only::Ours, fact));
        for (only, fact) in only_theirs.chain(only_ours) {
            let is_meant = |difference: &Difference| {
                let mut facts = difference.facts.iter();
                difference.scenarios.contains(&scenario.name)
                    && facts.any(|(who, part)| *who == only && fact.contains(part))
            };
            let shown = format!(
                "{}: only {}: {fact}",
                scenario.name,
                match only {
                    Only::Theirs => "theirs",
                    Only::Ours => "ours",
                }
            );
            match DIFFERENCES.iter().position(is_meant) {
                Some(known) => named.entry(known).or_default().push(shown),
                None => verdict.unnamed.push(shown),
            }
        }
    }
    let must_be_seen = DIFFERENCES
        .iter()
        .enumerate()
        .filter(|(_, difference)| difference.always);
    verdict.unseen = must_be_seen
        .filter(|(at, _)| !named.contains_key(at))
        .map(|(_, difference)| difference)
        .collect();
    verdict.named = named
        .into_iter()
        .map(|(at, facts)| (&DIFFERENCES[at], facts))
        .collect();
    verdict
}
