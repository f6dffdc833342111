//! Which nodes a pod template may run on: one ordered list of named checks.
//!
//! BroadcastJob and DaemonSet share it, and status, events, metrics and the command line all print
//! the same [`Refusal`]. Only free room is not asked: a busy node is served when it has room.

use std::fmt;

use crate::node::{Effect, NodeRow, Taint};
use crate::placement::{Operator, Placement, Requirement, Term};
use crate::quantity::Milli;

/// The checks, in the order they are made.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Check {
    /// The job's `spec.nodeNames`, if any, has this node.
    Listed,
    /// The node object is not being deleted.
    Deletion,
    /// `spec.nodeName` of the template, if any, is this node.
    NodeName,
    /// The node has every label of `nodeSelector`.
    NodeSelector,
    /// One required node affinity term matches.
    NodeAffinity,
    /// The node is not cordoned, or the template tolerates that.
    Schedulable,
    /// Every NoSchedule and NoExecute taint is tolerated.
    Taints,
    /// The pod fits the node when nothing else runs there.
    Resources,
}

impl Check {
    /// All of them, in order.
    pub const ALL: [Self; 8] = [
        Self::Listed,
        Self::Deletion,
        Self::NodeName,
        Self::NodeSelector,
        Self::NodeAffinity,
        Self::Schedulable,
        Self::Taints,
        Self::Resources,
    ];
}

/// Why a node is left out, with what decides it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Refusal<'a> {
    /// The job's `spec.nodeNames` has other nodes. It never asked for this one, so that it is not
    /// reported as left out.
    NotListed,
    /// The node object is being deleted.
    Deleting,
    /// The template names another node.
    NodeName {
        /// The node it names.
        wanted: &'a str,
    },
    /// A label of `nodeSelector` is missing or different.
    NodeSelector {
        /// Label key.
        key: &'a str,
        /// Value the template wants.
        wanted: &'a str,
        /// Value the node has.
        found: Option<&'a str>,
    },
    /// No required node affinity term matches.
    NodeAffinity,
    /// The node is cordoned.
    Unschedulable,
    /// A taint is not tolerated.
    Taint(&'a Taint),
    /// The pod asks for more than the empty node has.
    Resource {
        /// Resource name.
        resource: &'a str,
        /// What the pod asks for, in thousandths.
        wanted: Milli,
        /// What the node has, in thousandths.
        found: Milli,
    },
}

impl Refusal<'_> {
    /// The CamelCase reason for conditions, metrics and tables.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::NotListed => "NodeNotListed",
            Self::Deleting => "NodeDeleting",
            Self::NodeName { .. } => "NodeNameMismatch",
            Self::NodeSelector { .. } => "NodeSelectorMismatch",
            Self::NodeAffinity => "NodeAffinityMismatch",
            Self::Unschedulable => "NodeUnschedulable",
            Self::Taint(_) => "NodeTaintNotTolerated",
            Self::Resource { resource, .. } => match *resource {
                "cpu" => "InsufficientCpu",
                "memory" => "InsufficientMemory",
                _ => "InsufficientResource",
            },
        }
    }
}

impl fmt::Display for Refusal<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotListed => f.write_str("the node is not in spec.nodeNames"),
            Self::Deleting => f.write_str("the node is being deleted"),
            Self::NodeName { wanted } => write!(f, "the template names node {wanted}"),
            Self::NodeSelector { key, wanted, found } => {
                write!(f, "nodeSelector wants {key}={wanted}, the node has ")?;
                match found {
                    Some(found) => write!(f, "{key}={found}"),
                    None => f.write_str("no such label"),
                }
            }
            Self::NodeAffinity => f.write_str("no term of the required node affinity matches"),
            Self::Unschedulable => f.write_str("the node is cordoned"),
            Self::Taint(Taint { key, value, effect }) => {
                write!(f, "taint {key}={value}:{}", effect.as_str())
            }
            Self::Resource {
                resource,
                wanted,
                found,
            } => {
                let (wanted, found) = (amount(*wanted), amount(*found));
                write!(
                    f,
                    "the pod asks for {wanted} of {resource}, the empty node has {found}"
                )
            }
        }
    }
}

/// As a quantity: `4`, `4500m`, `16Mi`.
pub(crate) fn amount(milli: Milli) -> String {
    if milli % 1000 != 0 {
        return format!("{milli}m");
    }
    let mut whole = milli / 1000;
    // No node has a million processors: so many are bytes.
    if whole < 1 << 20 {
        return whole.to_string();
    }
    let mut unit = "";
    for larger in ["Ki", "Mi", "Gi", "Ti"] {
        if whole % 1024 == 0 {
            (whole, unit) = (whole / 1024, larger);
        } else {
            break;
        }
    }
    format!("{whole}{unit}")
}

/// The first check the node does not pass, or `None`: the node is served.
pub fn refusal<'a>(wish: &'a Placement, name: &str, node: &'a NodeRow) -> Option<Refusal<'a>> {
    let mut checks = Check::ALL.into_iter();
    checks.find_map(|check| check_one(check, wish, name, node))
}

/// One check alone, for an explanation of each.
pub fn check_one<'a>(
    check: Check,
    wish: &'a Placement,
    name: &str,
    node: &'a NodeRow,
) -> Option<Refusal<'a>> {
    match check {
        Check::Listed => {
            let only = wish.only.as_ref()?;
            (!only.contains(name)).then_some(Refusal::NotListed)
        }
        Check::Deletion => node.deleting.then_some(Refusal::Deleting),
        Check::NodeName => {
            let wanted = wish.node_name.as_deref()?;
            (wanted != name).then_some(Refusal::NodeName { wanted })
        }
        Check::NodeSelector => wish.node_selector.iter().find_map(|(key, wanted)| {
            let found = node.label(key);
            (found != Some(wanted)).then_some(Refusal::NodeSelector { key, wanted, found })
        }),
        Check::NodeAffinity => {
            let mut terms = wish.required_terms.as_ref()?.iter();
            let matches = terms.any(|term| term_matches(term, name, node));
            (!matches).then_some(Refusal::NodeAffinity)
        }
        Check::Schedulable => (node.unschedulable && !wish.tolerates_unschedulable())
            .then_some(Refusal::Unschedulable),
        Check::Taints => {
            let mut taints = node.taints.iter();
            let decides = |taint: &&Taint| taint.effect != Effect::PreferNoSchedule;
            let found = taints.find(|taint| decides(taint) && !wish.tolerates(taint))?;
            Some(Refusal::Taint(found))
        }
        Check::Resources => wish.requests.iter().find_map(|(resource, wanted)| {
            let found = node.allocatable(resource);
            (*wanted > found).then_some(Refusal::Resource {
                resource,
                wanted: *wanted,
                found,
            })
        }),
    }
}

/// Source: component-helpers `nodeaffinity`: an empty term matches nothing.
fn term_matches(term: &Term, name: &str, node: &NodeRow) -> bool {
    let label = |r: &Requirement| requirement_matches(r, node.label(&r.key));
    let field = |r: &Requirement| r.key == "metadata.name" && requirement_matches(r, Some(name));
    let Term {
        expressions,
        fields,
    } = term;
    let is_empty = expressions.is_empty() && fields.is_empty();
    !is_empty && expressions.iter().all(label) && fields.iter().all(field)
}

fn requirement_matches(requirement: &Requirement, found: Option<&str>) -> bool {
    let listed = || found.is_some_and(|found| requirement.values.iter().any(|v| v == found));
    let compared = || {
        let wanted: i64 = requirement.values.first()?.parse().ok()?;
        Some(found?.parse::<i64>().ok()?.cmp(&wanted))
    };
    match requirement.operator {
        Operator::In => listed(),
        Operator::NotIn => !listed(),
        Operator::Exists => found.is_some(),
        Operator::DoesNotExist => found.is_none(),
        Operator::Gt => compared().is_some_and(std::cmp::Ordering::is_gt),
        Operator::Lt => compared().is_some_and(std::cmp::Ordering::is_lt),
        Operator::Unknown => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn node() -> NodeRow {
        NodeRow {
            labels: [("gen", "7"), ("pool", "gpu"), ("zone", "a")]
                .map(|(k, v)| (k.into(), v.into()))
                .into(),
            allocatable: [("cpu", 4000), ("memory", 1_000_000)]
                .map(|(k, v)| (k.into(), v))
                .into(),
            ..NodeRow::default()
        }
    }

    fn reason(spec: &Value, node: &NodeRow) -> Option<&'static str> {
        refusal(&Placement::read(spec), "n1", node).map(|refusal| refusal.reason())
    }

    fn affinity(terms: &Value) -> Value {
        json!({"affinity": {"nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}})
    }

    #[test]
    fn a_plain_template_runs_everywhere() {
        assert_eq!(reason(&json!({}), &node()), None);
    }

    #[test]
    fn labels_and_names_decide() {
        let cases = [
            (json!({"nodeSelector": {"pool": "gpu"}}), None),
            (
                json!({"nodeSelector": {"pool": "cpu"}}),
                Some("NodeSelectorMismatch"),
            ),
            (
                json!({"nodeSelector": {"rack": "1"}}),
                Some("NodeSelectorMismatch"),
            ),
            (json!({"nodeName": "n1"}), None),
            (json!({"nodeName": "n2"}), Some("NodeNameMismatch")),
        ];
        for (spec, expected) in cases {
            assert_eq!(reason(&spec, &node()), expected, "{spec}");
        }
    }

    #[test]
    fn a_node_that_is_not_listed_is_refused_as_such_whatever_else_it_is() {
        let mut placement = Placement::read(&json!({"nodeName": "n2"}));
        for (listed, expected) in [("n1", "NodeNameMismatch"), ("n3", "NodeNotListed")] {
            placement.only = Some([listed.into()].into());
            let node = node();
            let refusal = refusal(&placement, "n1", &node).unwrap();
            assert_eq!(refusal.reason(), expected, "{listed}");
        }
    }

    #[test]
    fn one_affinity_term_must_match_with_all_its_requirements() {
        let requirement = |key: &str, operator: &str, values: &[&str]| json!({"key": key, "operator": operator, "values": values});
        let one = |r: Value| json!([{"matchExpressions": [r]}]);
        let cases = [
            (one(requirement("pool", "In", &["cpu", "gpu"])), true),
            (one(requirement("pool", "NotIn", &["gpu"])), false),
            (one(requirement("rack", "NotIn", &["r1"])), true),
            (one(requirement("pool", "Exists", &[])), true),
            (one(requirement("pool", "DoesNotExist", &[])), false),
            (one(requirement("gen", "Gt", &["6"])), true),
            (one(requirement("gen", "Lt", &["7"])), false),
            (one(requirement("pool", "Gt", &["1"])), false),
            (one(requirement("pool", "Resembles", &["gpu"])), false),
            (json!([{}]), false),
            (json!([]), false),
            (
                json!([{}, {"matchFields": [requirement("metadata.name", "In", &["n1"])]}]),
                true,
            ),
            (
                json!([{"matchFields": [requirement("metadata.name", "In", &["n2"])]}]),
                false,
            ),
            (
                json!([{"matchExpressions": [
                    requirement("pool", "In", &["gpu"]), requirement("zone", "In", &["b"])]}]),
                false,
            ),
        ];
        for (terms, matches) in cases {
            let expected = (!matches).then_some("NodeAffinityMismatch");
            assert_eq!(reason(&affinity(&terms), &node()), expected, "{terms}");
        }
    }

    #[test]
    fn a_cordoned_node_is_refused_as_cordoned_and_not_for_its_taint() {
        let cordoned = NodeRow {
            unschedulable: true,
            taints: [Taint {
                key: "node.kubernetes.io/unschedulable".into(),
                value: "".into(),
                effect: Effect::NoSchedule,
            }]
            .into(),
            ..node()
        };
        assert_eq!(reason(&json!({}), &cordoned), Some("NodeUnschedulable"));
        let tolerant = json!({"tolerations": [
            {"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}]});
        assert_eq!(reason(&tolerant, &cordoned), None);
    }

    #[test]
    fn only_hard_taints_refuse() {
        for (effect, expected) in [
            (Effect::NoSchedule, Some("NodeTaintNotTolerated")),
            (Effect::NoExecute, Some("NodeTaintNotTolerated")),
            (Effect::PreferNoSchedule, None),
        ] {
            let taint = Taint {
                key: "k".into(),
                value: "v".into(),
                effect,
            };
            let tainted = NodeRow {
                taints: [taint].into(),
                ..node()
            };
            assert_eq!(reason(&json!({}), &tainted), expected, "{effect:?}");
        }
    }

    #[test]
    fn bytes_are_told_in_the_largest_unit_that_is_exact() {
        for (bytes, told) in [
            (4, "4"),
            (1_000_000, "1000000"),
            (16 << 20, "16Mi"),
            (256 << 30, "256Gi"),
            ((1 << 40) + 1024, "1073741825Ki"),
            ((1 << 30) + 1, "1073741825"),
        ] {
            assert_eq!(amount(bytes * 1000), told);
        }
        assert_eq!(amount(4500), "4500m");
    }

    #[test]
    fn a_pod_larger_than_the_empty_node_is_refused_with_the_amounts() {
        let spec = json!({"containers": [{"resources": {"requests": {"cpu": "4500m"}}}]});
        let placement = Placement::read(&spec);
        let node = node();
        let refusal = refusal(&placement, "n1", &node).unwrap();
        assert_eq!(refusal.reason(), "InsufficientCpu");
        assert_eq!(
            refusal.to_string(),
            "the pod asks for 4500m of cpu, the empty node has 4"
        );
    }
}
