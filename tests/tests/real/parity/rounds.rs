//! Scenarios are played on both sides, many at a time, each again until both have shown the same.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};
use std::thread::scope;
use std::time::Instant;

use super::{Difference, View, judge};

/// The fact that a scenario lasted longer than it may.
pub(crate) const NO_END: &str = "it did not come to its end";

/// How scenarios are played.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rounds {
    /// How many at a time: most of the time they wait.
    pub(crate) at_a_time: usize,
    /// How often at most. Which of two events falls into which sync is chance, and now and then it
    /// shows. What one side does otherwise than the other shows every time.
    pub(crate) runs: usize,
    /// Differences that need no other run.
    pub(crate) differences: &'static [Difference],
}

impl Rounds {
    /// Plays all scenarios on both sides, and gives what was seen: the same, if any run of one side was
    /// like any of the other. `play`: the facts of a scenario on one side, 0 or 1, in one run.
    pub(crate) fn play<S: Sync>(
        &self,
        scenarios: &[S],
        name: fn(&S) -> &'static str,
        play: impl Fn(&S, usize, usize) -> BTreeSet<String> + Sync,
    ) -> (View, View) {
        let start = Instant::now();
        let waiting = Mutex::new(scenarios.iter());
        let views: Mutex<[View; 2]> = Mutex::default();
        scope(|scope| {
            let worker = || {
                let next = || {
                    waiting
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .next()
                };
                while let Some(scenario) = next() {
                    let name = name(scenario);
                    let seen = self.until_same(name, |side, run| play(scenario, side, run));
                    let mut views = views.lock().unwrap_or_else(PoisonError::into_inner);
                    for (view, facts) in views.iter_mut().zip(seen) {
                        view.insert(name, facts);
                    }
                }
            };
            for _ in 0..self.at_a_time {
                scope.spawn(worker);
            }
        });
        println!("played in {:.0?}", start.elapsed());
        let [theirs, ours] = views.into_inner().unwrap_or_else(PoisonError::into_inner);
        (theirs, ours)
    }

    fn until_same(
        &self,
        name: &'static str,
        play: impl Fn(usize, usize) -> BTreeSet<String> + Sync,
    ) -> [BTreeSet<String>; 2] {
        let judged = |theirs: &BTreeSet<String>, ours: &BTreeSet<String>| {
            let [theirs, ours] = [theirs, ours].map(|facts| View::from([(name, facts.clone())]));
            judge(self.differences, &[name], &theirs, &ours)
        };
        let mut runs: [Vec<BTreeSet<String>>; 2] = Default::default();
        for run in 0..self.runs {
            scope(|scope| {
                let play = &play;
                let sides = [0, 1].map(|side| scope.spawn(move || play(side, run)));
                for (runs, side) in runs.iter_mut().zip(sides) {
                    runs.push(side.join().expect("a scenario is played"));
                }
            });
            for theirs in &runs[0] {
                for ours in &runs[1] {
                    if judged(theirs, ours).unnamed.is_empty() {
                        return [theirs.clone(), ours.clone()];
                    }
                }
            }
            let different = judged(&runs[0][run], &runs[1][run]).unnamed;
            println!("run {run}: {different:#?}");
            // That we stand still is not to be tried until it does not show. kube-controller-manager does now and
            // then: of two times at which it wanted to look at an object again, its queue keeps the earlier one.
            if runs[1][run].contains(NO_END) {
                break;
            }
        }
        runs.map(|mut runs| runs.pop().expect("a run"))
    }
}

/// The scenarios that the environment variable `CARILLON_SCENARIOS` names, by the beginnings of their
/// names; without it all.
pub(crate) fn chosen<S>(all: Vec<S>, name: fn(&S) -> &'static str) -> Vec<S> {
    let names: BTreeSet<_> = all.iter().map(name).collect();
    assert_eq!(names.len(), all.len(), "a name stands for one scenario");
    match std::env::var("CARILLON_SCENARIOS") {
        Ok(chosen) => {
            let is_chosen = |name: &str| chosen.split(',').any(|one| name.starts_with(one));
            all.into_iter()
                .filter(|scenario| is_chosen(name(scenario)))
                .collect()
        }
        Err(_) => all,
    }
}

/// Panics if a scenario lasted longer than it may on the first side: then it is the scenario that is wrong.
pub(crate) fn assert_all_ended(theirs: &View) {
    let unending = theirs.iter().filter(|(_, facts)| facts.contains(NO_END));
    let unending: View = unending
        .map(|(name, facts)| (*name, facts.clone()))
        .collect();
    assert!(unending.is_empty(), "not to their end: {unending:#?}");
}

/// Panics unless what was seen of two objects that are not the same shows a difference with this part.
pub(crate) fn assert_shown(
    name: &'static str,
    shown: &str,
    one: BTreeSet<String>,
    other: BTreeSet<String>,
) {
    let [one, other] = [one, other].map(|facts| View::from([(name, facts)]));
    let unnamed = judge(&[], &[name], &one, &other).unnamed;
    let is_shown = unnamed.iter().any(|fact| fact.contains(shown));
    assert!(is_shown, "{name}: {unnamed:#?}");
}
