//! The kinds that are served: the only list of them.

pub mod broadcast_job;
pub mod cron_job;
pub mod daemon_set;
pub mod job;
mod node;
mod pod;

use self::broadcast_job::BroadcastJobs;
use self::cron_job::CronJobs;
use self::daemon_set::DaemonSets;
use self::job::{Jobs, orphan_controller};
use crate::controllers::Served;
use crate::store::{Sizes, Tables};

/// Each controller there is.
pub static SERVED: [Served; 5] = [
    Served::kind::<BroadcastJobs>(),
    Served::kind::<CronJobs>(),
    Served::kind::<DaemonSets>(),
    Served::kind::<Jobs>(),
    orphan_controller::SERVED,
];

/// Rows and estimated bytes that the caches hold.
pub fn sizes(tables: &Tables) -> Sizes {
    let mut sizes = Sizes::of_shared(tables);
    for served in &SERVED {
        (served.size)(tables, &mut sizes);
    }
    sizes
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_runbook_has_each_rule_of_the_interlock_in_the_table_of_its_kind() {
        let page = include_str!("../../../docs/runbooks/CarillonInterlockTripped.md");
        let tables = page.split("| `rule` |").skip(1);
        let named = |table: &str| -> BTreeSet<String> {
            let rows = table.lines().filter_map(|line| line.strip_prefix("| `"));
            rows.filter_map(|row| Some(row.split_once('`')?.0.to_owned()))
                .collect()
        };
        let tables: Vec<_> = tables.map(named).collect();
        let rules = |served: &Served| served.rules.iter().map(|rule| (*rule).to_owned()).collect();
        assert_eq!(tables, SERVED.each_ref().map(rules));
    }

    #[test]
    fn pods_and_slices_alone_are_selected_by_a_label_and_whatever_reads_them_by_the_same() {
        let labels = SERVED.iter().flat_map(|served| served.reads);
        let labels: BTreeSet<_> = labels.map(|read| (read.kind.word(), read.label)).collect();
        let of = |label: &str| {
            let those = labels.iter().filter(|(_, found)| *found == label);
            those.map(|(kind, _)| *kind).collect::<Vec<_>>()
        };
        let selected = of("carillon.dev/broadcastjob-uid");
        assert_eq!(selected, ["noderesultslices", "pods"]);
        let whole = [
            "broadcastjobs",
            "controllerrevisions",
            "cronjobs",
            "cronjobs.batch",
            "daemonsets",
            "daemonsets.apps",
            "jobs",
            "nodes",
        ];
        assert_eq!(of(""), whole);
    }
}
