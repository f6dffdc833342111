//! A stored DaemonSet as the planner reads it: total, whatever was stored.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde::Deserialize;
use serde_json::Value;

use super::should_run::with_automatic_tolerations;
use crate::meta::Meta;
use crate::placement::Placement;
use crate::written::Written;

/// A DaemonSet, of carillon.dev or of apps/v1.
#[derive(Clone, Debug)]
pub struct DaemonSet {
    /// Namespace, name, uid and so on.
    pub meta: Meta,
    /// Of apps/v1: served exactly as kube-controller-manager does.
    pub native: bool,
    /// What is wanted.
    pub spec: Spec,
    /// `spec.template`, as written.
    pub template: Written,
    /// Annotation `deprecated.daemonset.template.generation`, which the API server keeps for apps/v1.
    pub template_generation: Option<i64>,
}

/// The fields of a DaemonSet's spec that decide something. Defaults are the API server's.
#[derive(Clone, Debug, Default)]
pub struct Spec {
    /// Which pods are this DaemonSet's.
    pub selector: LabelSelector,
    /// What the template asks of a node, with what every pod of a DaemonSet tolerates.
    pub placement: Placement,
    /// How pods of an older template are replaced.
    pub update: Update,
    /// How long a pod has to be Ready to count as available.
    pub min_ready_seconds: i32,
    /// Old revisions that are kept.
    pub revision_history_limit: i32,
}

/// How pods of an older template are replaced.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Update {
    /// When somebody deletes them.
    OnDelete,
    /// By us.
    Rolling {
        /// How many nodes may be without an available pod.
        max_unavailable: Quota,
        /// How many nodes may have a second pod.
        max_surge: Quota,
    },
}

impl Default for Update {
    fn default() -> Self {
        Self::Rolling {
            max_unavailable: Quota::Count(1),
            max_surge: Quota::Count(0),
        }
    }
}

impl Update {
    /// Whether a node may have a second pod.
    pub fn may_surge(self) -> bool {
        matches!(self, Self::Rolling { max_surge, .. } if max_surge.of(1) > 0)
    }
}

/// A number of nodes, or a percentage of those that should have a pod.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Quota {
    /// This many.
    Count(u32),
    /// This many percent, rounded up.
    Percent(u32),
}

impl Quota {
    /// How many of `total`.
    pub fn of(self, total: usize) -> usize {
        match self {
            Self::Count(count) => count as usize,
            Self::Percent(percent) => (total * percent as usize).div_ceil(100),
        }
    }

    fn read(value: &Value) -> Option<Self> {
        match value {
            Value::Number(number) => {
                let count = number.as_i64()?;
                u32::try_from(count).ok().map(Self::Count)
            }
            Value::String(text) => {
                let percent = text.strip_suffix('%')?;
                percent.parse().ok().map(Self::Percent)
            }
            _ => None,
        }
    }
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Fields {
    selector: Option<LabelSelector>,
    template: Written,
    update_strategy: UpdateStrategy,
    min_ready_seconds: Option<i32>,
    revision_history_limit: Option<i32>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct UpdateStrategy {
    r#type: Option<String>,
    rolling_update: RollingUpdate,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RollingUpdate {
    max_unavailable: Value,
    max_surge: Value,
}

/// Old revisions that are kept where a spec does not say.
const REVISIONS_KEPT: i32 = 10;

impl DaemonSet {
    /// Reads a `spec`; what cannot be read is as if it were not there.
    pub fn read(meta: Meta, native: bool, template_generation: Option<i64>, spec: &Value) -> Self {
        let spec: &Written = &spec.into();
        let fields: Fields = spec.read();
        let template = fields.template.value();
        let pod = template.get("spec").unwrap_or(&Value::Null);
        let host_network = pod.get("hostNetwork") == Some(&Value::Bool(true));
        let placement = with_automatic_tolerations(Placement::read(pod), host_network);
        Self {
            meta,
            native,
            spec: Spec {
                selector: fields.selector.unwrap_or_default(),
                placement,
                update: fields.update_strategy.read(),
                min_ready_seconds: fields.min_ready_seconds.unwrap_or(0),
                revision_history_limit: fields.revision_history_limit.unwrap_or(REVISIONS_KEPT),
            },
            template: fields.template,
            template_generation,
        }
    }
}

impl UpdateStrategy {
    /// Where only `maxSurge` is set, no node has to do without.
    fn read(&self) -> Update {
        if self.r#type.as_deref() == Some("OnDelete") {
            return Update::OnDelete;
        }
        let RollingUpdate {
            max_unavailable,
            max_surge,
        } = &self.rolling_update;
        let max_surge = Quota::read(max_surge).unwrap_or(Quota::Count(0));
        let otherwise = u32::from(max_surge.of(1) == 0);
        Update::Rolling {
            max_unavailable: Quota::read(max_unavailable).unwrap_or(Quota::Count(otherwise)),
            max_surge,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::Quota::{Count, Percent};
    use super::*;

    #[test]
    fn a_strategy_is_read_with_the_defaults_of_the_api_server() {
        let rolling = |max_unavailable, max_surge| Update::Rolling {
            max_unavailable,
            max_surge,
        };
        for (strategy, expected) in [
            (json!({}), rolling(Count(1), Count(0))),
            (json!({"type": "OnDelete"}), Update::OnDelete),
            (
                json!({"rollingUpdate": {"maxUnavailable": "10%"}}),
                rolling(Percent(10), Count(0)),
            ),
            (
                json!({"rollingUpdate": {"maxUnavailable": 0, "maxSurge": 3}}),
                rolling(Count(0), Count(3)),
            ),
            (
                json!({"rollingUpdate": {"maxSurge": "5%"}}),
                rolling(Count(0), Percent(5)),
            ),
            (
                json!({"rollingUpdate": {"maxUnavailable": -1, "maxSurge": "x"}}),
                rolling(Count(1), Count(0)),
            ),
        ] {
            let read: UpdateStrategy = serde_json::from_value(strategy.clone()).unwrap();
            assert_eq!(read.read(), expected, "{strategy}");
        }
    }

    #[test]
    fn a_percentage_is_rounded_up() {
        for (quota, total, expected) in [
            (Percent(50), 3, 2),
            (Percent(100), 2, 2),
            (Percent(1), 1, 1),
            (Percent(0), 9, 0),
            (Count(4), 2, 4),
        ] {
            assert_eq!(quota.of(total), expected, "{quota:?} of {total}");
        }
    }
}
