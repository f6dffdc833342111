//! Whether a node should have a pod, as the interlock reads a template.

use crate::node::{Effect, NodeRow};
use crate::placement::{Operator, Placement, Requirement};

/// The template chooses the node, and none of its taints keeps pods away.
pub(super) fn takes_pods(wish: &Placement, name: &str, node: &NodeRow) -> bool {
    let named = wish.node_name.as_deref();
    let label = |key: &str| node.label(key);
    let mut labels = wish.node_selector.iter();
    let terms = wish.required_terms.as_ref();
    let chosen = terms.is_none_or(|terms| {
        terms.iter().any(|term| {
            let says = !term.expressions.is_empty() || !term.fields.is_empty();
            let mut expressions = term.expressions.iter();
            let mut fields = term.fields.iter();
            says && expressions.all(|wanted| meets(wanted, label(&wanted.key)))
                && fields.all(|wanted| meets(wanted, Some(name)))
        })
    });
    named.is_none_or(|wanted| wanted == name)
        && labels.all(|(key, value)| label(key) == Some(value))
        && chosen
        && !keeps_away(wish, node)
}

fn keeps_away(wish: &Placement, node: &NodeRow) -> bool {
    node.taints.iter().any(|taint| {
        let effect = match taint.effect {
            Effect::NoSchedule => "NoSchedule",
            Effect::NoExecute => "NoExecute",
            Effect::PreferNoSchedule => return false,
        };
        !wish.tolerations.iter().any(|one| {
            (one.effect.is_empty() || one.effect == effect)
                && (one.key.is_empty() && one.exists || one.key == *taint.key)
                && (one.exists || one.value == *taint.value)
        })
    })
}

fn meets(wanted: &Requirement, found: Option<&str>) -> bool {
    let is_listed = || wanted.values.iter().any(|value| found == Some(value));
    let number = |text: &str| text.parse::<i64>().ok();
    let numbers = || {
        let [bound] = &wanted.values[..] else {
            return None;
        };
        Some((number(found?)?, number(bound)?))
    };
    match wanted.operator {
        Operator::In => is_listed(),
        Operator::NotIn => !is_listed(),
        Operator::Exists => found.is_some(),
        Operator::DoesNotExist => found.is_none(),
        Operator::Gt => numbers().is_some_and(|(found, bound)| found > bound),
        Operator::Lt => numbers().is_some_and(|(found, bound)| found < bound),
        Operator::Unknown => false,
    }
}
