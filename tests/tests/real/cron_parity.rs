//! Native CronJobs, served side by side: by kube-controller-manager on one cluster, by us on another
//! of the same build. The same objects, the same acts of users at the same moments; in the end
//! everything that the API shows has to be the same, or its difference has a name and a reason.

mod differences;
mod history;
mod people;
mod policies;
mod scenario;
mod schedules;
mod side;
mod stored;
mod templates;
mod view;

use std::thread::{scope, sleep};
use std::time::Duration;

use jiff::Timestamp;

use self::differences::DIFFERENCES;
use self::scenario::Scenario;
use self::side::Side;
use crate::parity::{judge, print_and_assert};

/// Everything is created within this part of a minute, so that the first tick is the next minute.
const CREATE_FROM: i64 = 3;
const CREATE_UNTIL: i64 = 20;
/// After two ticks. Not later than shortly before the third one.
const COMPARE_FROM: i64 = 152;
const COMPARE_UNTIL: i64 = 174;

fn scenarios() -> Vec<Scenario> {
    [
        policies::all(),
        schedules::all(),
        history::all(),
        templates::all(),
        people::all(),
        stored::all(),
    ]
    .concat()
}

#[test]
#[ignore = "takes five minutes; the proof runs it"]
fn native_cron_jobs_are_served_as_kube_controller_manager_serves_them() {
    let scenarios = scenarios();
    let names: Vec<_> = scenarios.iter().map(|scenario| scenario.name).collect();
    assert!(scenarios.len() >= 25, "{} scenarios", scenarios.len());
    let (theirs, ours) = scope(|scope| {
        let theirs = scope.spawn(Side::theirs);
        (theirs.join().unwrap(), Side::ours())
    });
    for side in [&theirs, &ours] {
        side.prepare(&scenarios);
    }
    let start = next_start();
    scope(|scope| {
        for side in [&theirs, &ours] {
            scope.spawn(|| side.play(&scenarios, start));
        }
    });
    sleep_until(start, COMPARE_FROM);
    let verdict = loop {
        let views = [&theirs, &ours].map(|side| side.view(&scenarios, start));
        for view in &views {
            // Two views of nothing would be the same, too.
            let started = &view["allow-short"];
            assert!(
                started.contains(r#"created = ["c-K1","c-K2"]"#),
                "{started:#?}"
            );
        }
        let verdict = judge(DIFFERENCES, &names, &views[0], &views[1]);
        if verdict.is_good() || seconds_since(start) > COMPARE_UNTIL {
            break verdict;
        }
        sleep(Duration::from_secs(3));
    };
    print_and_assert(&verdict, scenarios.len());
}

/// The beginning of the minute in which everything is created; returns a few seconds after it.
fn next_start() -> Timestamp {
    loop {
        let now = Timestamp::now();
        let second = now.as_second().rem_euclid(60);
        if (CREATE_FROM..CREATE_UNTIL).contains(&second) {
            return Timestamp::from_second(now.as_second() - second).unwrap();
        }
        sleep(Duration::from_millis(200));
    }
}

fn seconds_since(start: Timestamp) -> i64 {
    let span = Timestamp::now().duration_since(start);
    span.as_secs()
}

fn sleep_until(start: Timestamp, second: i64) {
    let at = Timestamp::from_second(start.as_second() + second).unwrap();
    let wait = at.duration_since(Timestamp::now());
    sleep(Duration::try_from(wait).unwrap_or_default());
}
