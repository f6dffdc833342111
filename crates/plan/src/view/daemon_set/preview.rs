//! What a DaemonSet would change on which node, before it is applied.

use jiff::Timestamp;
use serde::Serialize;

use super::explain::at_a_time;
use super::known::Known;
use super::look::Look;
use crate::daemon_set::DaemonSet;
use crate::daemon_set::lifecycle::waits;
use crate::daemon_set::on_nodes::{OnNode, desired};
use crate::daemon_set::pod::Named;
use crate::daemon_set::progress::{PARTITION, kept_by_partition};
use crate::daemon_set::rolling_update::{is_selected, is_updated};
use crate::daemon_set::should_run::ShouldRun;
use crate::daemon_set::spec::Update;
use crate::eligibility::Refusal;
use crate::pod::PodPhase;
use crate::view::groups::{Group, Groups};
use crate::view::median;

/// What would become of a node, in the order in which tables show it.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize)]
pub enum Fate {
    /// It has none, and gets a pod.
    Gets,
    /// Its pod is replaced by one of the new template.
    Replaced,
    /// Its pod goes, and none comes.
    Loses,
    /// It keeps its pod of the old template, as a field of the spec says, or is left without one.
    Kept,
    /// Its pod is of this template already.
    Unchanged,
    /// It should get no pod. One that is there stays.
    Stays,
    /// It gets no pod: a taint is not tolerated.
    Refused,
    /// It gets no pod: the template chooses other nodes, by name, label or affinity.
    NotChosen,
}

/// What a manifest would change.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Preview {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub daemon_set: String,
    /// Nodes of the cluster.
    pub nodes: usize,
    /// The nodes by what would become of them. The counts sum to `nodes`.
    pub groups: Vec<Group<Fate>>,
    /// How many pods are replaced at a time, by the name of their node.
    pub at_a_time: usize,
    /// Rounds of so many, if all took the same time.
    pub rounds: usize,
    /// How long these rounds take at the pace at which its pods became ready so far. Absent: none did, or there is
    /// nothing to replace.
    pub seconds: Option<i64>,
    /// How many pods the pace is taken from.
    pub paced_by: usize,
    /// How many seconds half of them took, at most, from creation until they were ready.
    pub start_seconds: Option<i64>,
    /// `spec.minReadySeconds`.
    pub min_ready_seconds: i32,
    /// Pods that would be replaced or lost and carry the hook of `lifecycle.preDelete`: each waits for it.
    pub hooked: usize,
    /// Pods that nothing controls, and that it would adopt.
    pub adopted: usize,
    /// Nodes whose pod is of this template and has failed: it is replaced when their back-off is over.
    pub failed: usize,
    /// What is wrong with the manifest.
    pub problems: Vec<String>,
}

impl Preview {
    /// How many nodes meet this fate.
    pub fn count(&self, fate: Fate) -> usize {
        let groups = self.groups.iter().filter(|group| group.place == fate);
        groups.map(|group| group.count).sum()
    }

    /// Whether some node has or gets a pod.
    pub fn has_nodes(&self) -> bool {
        let with = [
            Fate::Gets,
            Fate::Replaced,
            Fate::Kept,
            Fate::Unchanged,
            Fate::Stays,
        ];
        with.into_iter().any(|fate| self.count(fate) > 0)
    }

    /// One of which nothing is said but what is wrong with it.
    pub fn of_nothing(set: &DaemonSet, problems: Vec<String>) -> Self {
        Self {
            namespace: set.meta.owner.namespace.clone(),
            daemon_set: set.meta.owner.name.clone(),
            problems,
            ..Self::default()
        }
    }
}

/// The preview of a DaemonSet as it would be stored, on the nodes and with the pods of now.
pub fn preview(known: &mut Known, now: Timestamp) -> Preview {
    let adopted = known.adopt();
    let look = Look::at(known, now);
    let set = look.set;
    let mut fates: Vec<(&str, Fate, &'static str)> = Vec::new();
    for (name, node) in look.nodes.iter().filter(|(_, node)| node.should.is_some()) {
        let (fate, why) = fate(set, node, &look.current.hash);
        fates.push((name, fate, why));
    }
    keep_partition(set, desired(&look.nodes), &mut fates);
    let mut groups = Groups::default();
    for (name, fate, why) in &fates {
        let example = || look.nodes.get(name).map_or_else(String::new, Look::refusal);
        groups.add((*fate, (*why).to_owned()), name, example);
    }
    let failed = look.nodes.values().filter(|node| {
        let mut there = node.pods.iter().filter(|(_, pod)| !pod.is_deleting());
        let has_failed = |(_, pod): &Named<'_>| {
            pod.phase == PodPhase::Failed && is_updated(set, pod, &look.current.hash)
        };
        node.runs() && there.any(has_failed)
    });
    let mut preview = Preview {
        failed: failed.count(),
        nodes: fates.len(),
        groups: groups.told(),
        at_a_time: at_a_time(set.spec.update, desired(&look.nodes)),
        min_ready_seconds: set.spec.min_ready_seconds,
        adopted,
        ..Preview::of_nothing(set, Vec::new())
    };
    let replaced = preview.count(Fate::Replaced);
    let leaving = fates.iter();
    let leaving = leaving.filter(|(_, fate, _)| matches!(fate, Fate::Replaced | Fate::Loses));
    let leaving = leaving.filter_map(|(name, ..)| look.nodes.get(name));
    let pods = leaving.flat_map(|node| &node.pods);
    preview.hooked = pods.filter(|(_, pod)| waits(set, pod)).count();
    preview.at_a_time = preview.at_a_time.min(replaced);
    preview.rounds = replaced.div_ceil(preview.at_a_time.max(1));
    let mut starts = known
        .pods
        .as_ref()
        .map_or_else(Vec::new, |pods| pods.starts.clone());
    starts.sort_unstable();
    preview.paced_by = starts.len();
    preview.start_seconds = median(&starts);
    let round = preview.start_seconds.filter(|_| replaced > 0);
    let rounds = i64::try_from(preview.rounds).unwrap_or(i64::MAX);
    let round = round.map(|start| start + i64::from(preview.min_ready_seconds.max(0)));
    preview.seconds = round.map(|round| round.saturating_mul(rounds));
    preview
}

/// What becomes of a node, and why.
fn fate(set: &DaemonSet, node: &OnNode<'_>, hash: &str) -> (Fate, &'static str) {
    let there = || node.pods.iter().filter(|(_, pod)| !pod.is_deleting());
    let is_new = there().any(|(_, pod)| is_updated(set, pod, hash));
    let is_old = !is_new && there().next().is_some();
    let kept = match set.spec.update {
        Update::OnDelete => Some("OnDelete"),
        Update::Rolling { .. } if set.spec.paused => Some("Paused"),
        Update::Rolling { .. } if !is_selected(set, node) => Some("NotSelected"),
        Update::Rolling { .. } => None,
    };
    match node.should {
        Some(ShouldRun::No(refusal)) if is_old || is_new => (Fate::Loses, refusal.reason()),
        // An update takes the old pod, and creates one only where one should be.
        Some(ShouldRun::OnlyIfThere(refusal)) if is_old && kept.is_none() => {
            (Fate::Loses, refusal.reason())
        }
        Some(ShouldRun::OnlyIfThere(refusal)) if is_old || is_new => {
            (Fate::Stays, refusal.reason())
        }
        Some(ShouldRun::No(refusal) | ShouldRun::OnlyIfThere(refusal)) => match refusal {
            Refusal::Taint(_) => (Fate::Refused, refusal.reason()),
            _ => (Fate::NotChosen, refusal.reason()),
        },
        _ if is_new => (Fate::Unchanged, ""),
        _ if is_old => match kept {
            Some(field) => (Fate::Kept, field),
            None => (Fate::Replaced, ""),
        },
        _ => (Fate::Gets, ""),
    }
}

/// Of the nodes whose pod would be replaced the last ones by name keep theirs, as many as the partition says.
fn keep_partition(set: &DaemonSet, desired: usize, fates: &mut [(&str, Fate, &'static str)]) {
    let count = |fate| fates.iter().filter(|(_, found, _)| *found == fate).count();
    let counts = (count(Fate::Replaced), count(Fate::Kept));
    let mut last = kept_by_partition(set, desired, counts);
    for (_, fate, why) in fates.iter_mut().rev() {
        if last > 0 && *fate == Fate::Replaced {
            (*fate, *why) = (Fate::Kept, PARTITION);
            last -= 1;
        }
    }
    if !set.spec.partitioned_scaling {
        return;
    }
    // No more nodes get a pod than the partition leaves.
    let partition = set.spec.partition.of_at_most(desired);
    let new = fates.iter();
    let new = new.filter(|(_, fate, _)| matches!(fate, Fate::Replaced | Fate::Unchanged));
    let mut room = desired.saturating_sub(partition + new.count());
    for (_, fate, why) in fates.iter_mut().filter(|(_, fate, _)| *fate == Fate::Gets) {
        if room > 0 {
            room -= 1;
        } else {
            (*fate, *why) = (Fate::Kept, PARTITION);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::view::daemon_set::samples::{
        at, known, lines, nodes, object, pod, revision, template,
    };

    /// Six nodes: n1 to n4 have a pod of `old`, n5 has none, n6 is tainted and has none.
    fn world(spec: &Value, pods: &[Value]) -> Known {
        let set = object("carillon.dev/v1alpha1", spec);
        known(&set, &[revision(1, "old")], pods, &nodes(6, 6))
    }

    fn old_pods() -> Vec<Value> {
        [1, 2, 3, 4].map(|n| pod(n, "old", true)).to_vec()
    }

    fn fates(spec: &Value) -> Vec<String> {
        let preview = preview(&mut world(spec, &old_pods()), at(60));
        assert_eq!(preview.nodes, 6);
        lines(&preview.groups)
    }

    #[test]
    fn each_node_has_a_fate_by_the_template_and_the_fields_of_the_update() {
        let gets = "Gets  n5";
        let refused = "Refused NodeTaintNotTolerated n6";
        let with = |strategy: Value| json!({"updateStrategy": strategy});
        for (spec, expected) in [
            (json!({}), vec![gets, "Replaced  n1,n2,n3,n4", refused]),
            (
                json!({"template": template("old")}),
                vec![gets, "Unchanged  n1,n2,n3,n4", refused],
            ),
            (
                with(json!({"type": "OnDelete"})),
                vec![gets, "Kept OnDelete n1,n2,n3,n4", refused],
            ),
            (
                with(json!({"rollingUpdate": {"paused": true}})),
                vec![gets, "Kept Paused n1,n2,n3,n4", refused],
            ),
            (
                with(json!({"rollingUpdate": {"partition": 3}})),
                vec![gets, "Replaced  n1", "Kept Partition n2,n3,n4", refused],
            ),
        ] {
            assert_eq!(fates(&spec), expected, "{spec}");
        }
        let mut elsewhere = template("new");
        elsewhere["spec"]["nodeSelector"] = json!({"a": "b"});
        let expected = [
            "Loses NodeSelectorMismatch n1,n2,n3,n4",
            "NotChosen NodeSelectorMismatch n5,n6",
        ];
        assert_eq!(fates(&json!({"template": elsewhere})), expected);
    }

    #[test]
    fn how_long_it_takes_follows_from_how_long_its_pods_took_to_become_ready() {
        let spec = json!({"minReadySeconds": 5, "updateStrategy": {"rollingUpdate": {"maxUnavailable": 3}}});
        let found = preview(&mut world(&spec, &old_pods()), at(60));
        assert_eq!((found.at_a_time, found.rounds), (3, 2));
        assert_eq!((found.start_seconds, found.paced_by), (Some(10), 4));
        assert_eq!(found.seconds, Some(2 * (10 + 5)));
        let mut restarted = old_pods();
        for pod in &mut restarted {
            pod["status"]["containerStatuses"] = json!([{"restartCount": 1}]);
        }
        let found = preview(&mut world(&spec, &restarted), at(60));
        assert_eq!((found.rounds, found.seconds, found.paced_by), (2, None, 0));
    }

    #[test]
    fn pods_that_wait_for_a_hook_are_counted() {
        let hook = json!({"preDelete": {"labelsHandler": {"hold": "yes"}}});
        let mut pods = old_pods();
        for pod in &mut pods[..2] {
            pod["metadata"]["labels"]["hold"] = json!("yes");
        }
        let found = preview(&mut world(&json!({"lifecycle": hook}), &pods), at(60));
        assert_eq!((found.hooked, found.count(Fate::Replaced)), (2, 4));
    }

    #[test]
    fn pods_that_nothing_controls_are_counted_as_its_own() {
        let mut pods = old_pods();
        pods[0]["metadata"]["ownerReferences"] = json!([]);
        pods[1]["metadata"]["ownerReferences"][0]["uid"] =
            json!("4e0c5d6a-0b1c-4d2e-8f3a-000000000999");
        let found = preview(&mut world(&json!({}), &pods), at(60));
        assert_eq!((found.adopted, found.count(Fate::Replaced)), (1, 3));
        assert_eq!(found.count(Fate::Gets), 2, "one has another's pod");
    }
}
