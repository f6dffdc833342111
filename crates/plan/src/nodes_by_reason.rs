//! Nodes by why something is said of them, as a status says it: how many, and some of their names.

use std::collections::BTreeMap;

use carillon_api::Refused;

/// Names that are told of each reason.
pub(crate) const SAMPLE: usize = 3;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct NodesByReason<'a>(BTreeMap<&'static str, (usize, Vec<&'a str>)>);

impl<'a> NodesByReason<'a> {
    pub(crate) fn add(&mut self, reason: &'static str, node: &'a str) {
        self.add_all(reason, ([node].into_iter(), 1));
    }

    pub(crate) fn add_all(
        &mut self,
        reason: &'static str,
        (nodes, count): (impl Iterator<Item = &'a str>, usize),
    ) {
        if count > 0 {
            let (sum, sample) = self.0.entry(reason).or_default();
            *sum += count;
            sample.extend(nodes.take(SAMPLE));
        }
    }

    /// The reasons.
    pub(crate) fn reasons(&self) -> impl Iterator<Item = &'static str> {
        self.0.keys().copied()
    }

    /// The reason of most nodes; of several the first.
    pub(crate) fn commonest(&self) -> Option<&'static str> {
        let most = self.0.values().map(|(count, _)| *count).max()?;
        let is_most = |(_, (count, _)): &(_, &(usize, _))| *count == most;
        self.0.iter().find(is_most).map(|(reason, _)| *reason)
    }

    /// How many nodes.
    pub(crate) fn count(&self) -> usize {
        self.0.values().map(|(count, _)| count).sum()
    }

    /// As a status says it.
    pub(crate) fn told(&self) -> Vec<Refused> {
        let told = self.0.iter().map(|(reason, (count, nodes))| {
            let mut nodes: Vec<&str> = nodes.clone();
            nodes.sort_unstable();
            Refused {
                reason: (*reason).to_owned(),
                count: i32::try_from(*count).unwrap_or(i32::MAX),
                sample: nodes.into_iter().take(SAMPLE).map(str::to_owned).collect(),
            }
        });
        told.collect()
    }
}
