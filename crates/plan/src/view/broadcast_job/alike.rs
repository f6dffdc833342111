//! Logs of nodes that say the same: but for numbers, such as times, and for the names of the node and its pod.

use std::collections::HashMap;

/// What one node has printed, and others alike.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Alike {
    /// The nodes, as they came.
    pub nodes: Vec<String>,
    /// The lines of the first of them, each with what stands before it.
    pub lines: Vec<(String, String)>,
}

/// Logs, of which those that are alike are kept once.
#[derive(Debug, Default)]
pub struct Fold {
    groups: Vec<Alike>,
    by_shape: HashMap<String, usize>,
    bytes: usize,
}

impl Fold {
    /// Adds the log of a node. `pod`: the pod that printed it.
    pub fn add(&mut self, node: &str, pod: &str, lines: Vec<(String, String)>) {
        let mut shape = String::new();
        for (label, line) in &lines {
            add_shape(&mut shape, label, [pod, node]);
            add_shape(&mut shape, line, [pod, node]);
            shape.push('\n');
        }
        if let Some(at) = self.by_shape.get(&shape) {
            self.groups[*at].nodes.push(node.to_owned());
            return;
        }
        let text = |(label, line): &(String, String)| label.len() + line.len();
        self.bytes += shape.len() + lines.iter().map(text).sum::<usize>();
        self.by_shape.insert(shape, self.groups.len());
        self.groups.push(Alike {
            nodes: vec![node.to_owned()],
            lines,
        });
    }

    /// Bytes that are kept.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// What was kept, in the order in which each first came.
    pub fn take(&mut self) -> Vec<Alike> {
        let Self { groups, .. } = std::mem::take(self);
        groups
    }
}

/// The text with one sign for each name and for each number.
fn add_shape(shape: &mut String, text: &str, names: [&str; 2]) {
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let mut own = names.into_iter();
        let own = own.find(|name| !name.is_empty() && rest.starts_with(name));
        if let Some(name) = own {
            shape.push('\u{1}');
            rest = &rest[name.len()..];
        } else if first.is_ascii_digit() {
            shape.push('\u{2}');
            rest = rest.trim_start_matches(|c: char| c.is_ascii_digit());
        } else {
            shape.push(first);
            rest = &rest[first.len_utf8()..];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folded(logs: &[(&str, &str)]) -> Vec<(String, String)> {
        let mut fold = Fold::default();
        for (node, text) in logs {
            let lines = text
                .lines()
                .map(|line| (format!("[{node}] "), line.to_owned()));
            fold.add(node, &format!("fix-{node}-x7k"), lines.collect());
        }
        let shown = fold.take().into_iter().map(|alike| {
            let lines: Vec<String> = alike.lines.into_iter().map(|(_, line)| line).collect();
            (alike.nodes.join(","), lines.join("|"))
        });
        shown.collect()
    }

    #[test]
    fn logs_that_differ_in_numbers_and_their_own_names_are_one() {
        let logs = [
            (
                "node-1",
                "12:01:07 node-1: begin\nwrote 5 MiB in fix-node-1-x7k",
            ),
            ("node-2", "12:01:09 node-2: begin\nno space left"),
            (
                "node-30",
                "9:31:00 node-30: begin\nwrote 1234 MiB in fix-node-30-x7k",
            ),
            ("rack", "12:01:07 rack: begin\nwrote 5 MiB in fix-rack-x7k"),
        ];
        let first = "12:01:07 node-1: begin|wrote 5 MiB in fix-node-1-x7k";
        let second = "12:01:09 node-2: begin|no space left";
        let named = |nodes: &str, text: &str| (nodes.to_owned(), text.to_owned());
        assert_eq!(
            folded(&logs),
            [named("node-1,node-30,rack", first), named("node-2", second)]
        );
    }

    #[test]
    fn logs_of_other_words_or_more_lines_are_others() {
        for (one, other) in [
            ("a", "b"),
            ("a", "a\na"),
            ("a b", "ab"),
            ("x1y", "xy"),
            ("a", ""),
            ("took -1", "took 1"),
        ] {
            assert_eq!(
                folded(&[("n1", one), ("n2", other)]).len(),
                2,
                "{one:?} {other:?}"
            );
        }
        assert_eq!(folded(&[("n1", ""), ("n2", "")]).len(), 1);
    }

    #[test]
    fn what_is_kept_is_counted_and_what_is_alike_costs_nothing() {
        let mut fold = Fold::default();
        let log = |n: u32| vec![(String::new(), format!("line {n}"))];
        fold.add("n1", "p1", log(1));
        let one = fold.bytes();
        assert!(one > 0);
        fold.add("n2", "p2", log(2));
        assert_eq!(fold.bytes(), one);
        assert_eq!(fold.take().len(), 1);
        assert_eq!((fold.bytes(), fold.take()), (0, Vec::new()));
    }
}
