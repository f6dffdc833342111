//! What rows have in common is held once.

use std::collections::HashSet;
use std::hash::Hash;
use std::sync::Arc;

use super::meta::AllLabels;
use carillon_plan::node::{Amounts, Labels as LabelSet, Taint};
use carillon_plan::pod::Failure;
use carillon_plan::quantity::Milli;

/// Shares what is equal: names, label keys and values, reasons; whole sets of labels, taints and
/// resources, of which the nodes of a pool have the same; labels of a Job's pods; and how pods failed.
#[derive(Debug, Default)]
pub struct Interner {
    strings: HashSet<Arc<str>>,
    labels: HashSet<LabelSet>,
    pod_labels: HashSet<LabelSet>,
    taints: HashSet<Arc<[Taint]>>,
    resources: HashSet<Amounts>,
    failures: HashSet<Arc<Failure>>,
    /// Of `strings`, after they were swept last.
    kept: usize,
}

/// So many strings more are not worth a sweep.
const SLACK: usize = 1024;

impl Interner {
    /// The shared copy of `text`.
    pub fn share(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.strings.get(text) {
            return known.clone();
        }
        let new: Arc<str> = text.into();
        self.strings.insert(new.clone());
        new
    }

    /// The shared copy of these labels.
    pub fn share_labels(&mut self, labels: Vec<(Arc<str>, Arc<str>)>) -> LabelSet {
        share_set(&mut self.labels, labels)
    }

    /// The labels of a pod, shared.
    pub fn pod_labels(&mut self, labels: Option<&AllLabels>) -> LabelSet {
        let labels = labels.into_iter().flatten();
        let labels = labels.map(|(key, value)| (self.share(key), self.share(value)));
        let labels = labels.collect();
        self.share_pod_labels(labels)
    }

    /// The shared copy of these labels of a pod.
    pub fn share_pod_labels(&mut self, labels: Vec<(Arc<str>, Arc<str>)>) -> LabelSet {
        share_set(&mut self.pod_labels, labels)
    }

    /// The shared copy of these taints.
    pub fn share_taints(&mut self, taints: Vec<Taint>) -> Arc<[Taint]> {
        share_set(&mut self.taints, taints)
    }

    /// The shared copy of these amounts.
    pub fn share_resources(&mut self, amounts: Vec<(Arc<str>, Milli)>) -> Amounts {
        share_set(&mut self.resources, amounts)
    }

    /// The shared copy of a failure: most pods of a job that fail do so in the same way.
    pub fn share_failure(&mut self, failure: Failure) -> Arc<Failure> {
        if let Some(known) = self.failures.get(&failure) {
            return known.clone();
        }
        let new = Arc::new(failure);
        self.failures.insert(new.clone());
        new
    }

    /// Bytes that the shared failures hold.
    pub fn bytes_of_failures(&self) -> usize {
        let bytes = |failure: &Arc<Failure>| {
            let (exits, conditions) = (&*failure.exits, &*failure.conditions);
            size_of::<Failure>() + size_of_val(exits) + size_of_val(conditions)
        };
        self.failures.iter().map(bytes).sum()
    }

    /// Bytes that the shared labels of pods hold.
    pub fn bytes_of_pod_labels(&self) -> usize {
        let labels = self.pod_labels.iter();
        labels.map(|set| size_of_val(&**set)).sum()
    }

    /// Bytes that the shared sets of nodes hold.
    pub fn bytes_of_sets(&self) -> usize {
        let labels = self.labels.iter().map(|set| size_of_val(&**set));
        let taints = self.taints.iter().map(|set| size_of_val(&**set));
        let resources = self.resources.iter().map(|set| size_of_val(&**set));
        labels.chain(taints).chain(resources).sum()
    }

    /// Sweeps when there is twice as much as after the last time: each Job brings a name and a uid
    /// that no other has, and years may pass between two lists.
    pub fn tidy(&mut self) {
        if self.known() > 2 * self.kept + SLACK {
            self.sweep();
        }
    }

    /// Drops what nobody uses any more.
    pub fn sweep(&mut self) {
        self.failures
            .retain(|failure| Arc::strong_count(failure) > 1);
        self.labels.retain(|set| Arc::strong_count(set) > 1);
        self.pod_labels.retain(|set| Arc::strong_count(set) > 1);
        self.taints.retain(|set| Arc::strong_count(set) > 1);
        self.resources.retain(|set| Arc::strong_count(set) > 1);
        self.strings.retain(|text| Arc::strong_count(text) > 1);
        self.kept = self.known();
    }

    fn known(&self) -> usize {
        let sets = [self.labels.len(), self.pod_labels.len(), self.taints.len()];
        let sets = sets.into_iter().sum::<usize>() + self.resources.len() + self.failures.len();
        self.strings.len() + sets
    }
}

fn share_set<T: Eq + Hash>(known: &mut HashSet<Arc<[T]>>, set: Vec<T>) -> Arc<[T]> {
    if let Some(known) = known.get(&*set) {
        return known.clone();
    }
    let new: Arc<[T]> = set.into();
    known.insert(new.clone());
    new
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_come_and_go_do_not_pile_up() {
        let mut strings = Interner::default();
        let kept = strings.share("kept");
        for n in 0..100_000 {
            let value = strings.share(&format!("uid-{n}"));
            strings.share_pod_labels(vec![(kept.clone(), value)]);
            strings.tidy();
        }
        assert!(
            strings.strings.len() < 2 * SLACK,
            "{}",
            strings.strings.len()
        );
        assert!(strings.pod_labels.len() < 2 * SLACK);
        // Nor do sets of names that stay.
        for n in 0..100_000 {
            strings.share_resources(vec![(kept.clone(), n)]);
            strings.tidy();
        }
        assert!(strings.resources.len() < 2 * SLACK);
        assert!(strings.strings.contains(&kept));
    }
}
