//! The kinds of histories.

/// What may go wrong in a history, besides what users do and what happens to nodes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "faults that do not depend on each other"
)]
pub struct Mode {
    /// For people.
    pub name: &'static str,
    /// How many lead at once.
    pub leaders: usize,
    /// A leader sees of each kind a version that may be a few old.
    pub old_views: bool,
    /// A leader ends between any two of its requests, and may forget what it was told.
    pub crashes: bool,
    /// A creation may arrive within the second in which its job goes, and makes a pod all the same.
    pub late_creations: bool,
    /// Users take pods from their job: label, owner or both.
    pub taken_pods: bool,
    /// Users delete jobs with `--cascade=orphan`.
    pub orphans: bool,
}

const CALM: Mode = Mode {
    name: "one leader that sees what there is",
    leaders: 1,
    old_views: false,
    crashes: false,
    late_creations: false,
    taken_pods: false,
    orphans: false,
};
const TWO_LEADERS: Mode = Mode {
    name: "two leaders",
    leaders: 2,
    old_views: true,
    crashes: true,
    ..CALM
};

impl Mode {
    /// All of them.
    pub const ALL: [Self; 7] = [
        CALM,
        Self {
            name: "a leader that crashes",
            crashes: true,
            ..CALM
        },
        Self {
            name: "a leader with old views",
            leaders: 1,
            ..TWO_LEADERS
        },
        TWO_LEADERS,
        Self {
            name: "creations in the moment in which their job goes",
            late_creations: true,
            ..TWO_LEADERS
        },
        Self {
            name: "pods that are taken",
            taken_pods: true,
            ..TWO_LEADERS
        },
        Self {
            name: "jobs that are deleted without their pods",
            orphans: true,
            ..TWO_LEADERS
        },
    ];

    /// The one of a seed: each in turn.
    pub fn of(seed: u64) -> Self {
        Self::ALL[(seed % Self::ALL.len() as u64) as usize]
    }
}
