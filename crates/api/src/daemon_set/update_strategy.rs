//! How pods of an older template are replaced. With OnDelete the API server looks at no budget, and so do we.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

const OF_A_QUOTA: &str = "must be a number from 0 to 2147483647 or a percentage from 0% to 100%";

/// How pods of an older template are replaced.
#[derive(Clone, Debug, Default, Deserialize, KubeSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new(rolling(&is_quota("maxUnavailable")))
        .message(OF_A_QUOTA)
        .field_path(".rollingUpdate.maxUnavailable"),
    validation = Rule::new(rolling(&is_quota("maxSurge")))
        .message(OF_A_QUOTA)
        .field_path(".rollingUpdate.maxSurge"),
    validation = Rule::new(rolling(&format!(
        "{} || {}",
        absent_or_zero("maxSurge"),
        absent_or_zero("maxUnavailable")
    )))
    .message("may not be set when maxUnavailable is not 0: set maxUnavailable: 0 or remove one of them")
    .field_path(".rollingUpdate.maxSurge"),
    validation = Rule::new(rolling(&format!(
        "!has(self.rollingUpdate.maxUnavailable) || !{} || !{}",
        absent_or_zero("maxUnavailable"),
        absent_or_zero("maxSurge")
    )))
    .message("cannot be 0 when maxSurge is 0, or nothing would ever be updated: set one of them")
    .field_path(".rollingUpdate.maxUnavailable")
)]
pub struct UpdateStrategy {
    /// RollingUpdate: Carillon replaces pods of an older template, within a budget. OnDelete: a pod is replaced
    /// when somebody deletes it.
    #[serde(rename = "type", default)]
    pub type_: UpdateStrategyType,
    /// The budget, and which nodes are updated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "RollingUpdate")]
    pub rolling_update: Option<RollingUpdate>,
}

/// How pods of an older template are replaced.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub enum UpdateStrategyType {
    /// By us, under a budget.
    #[default]
    RollingUpdate,
    /// When somebody deletes them.
    OnDelete,
    /// Empty, which means the default, as in apps/v1.
    #[serde(rename = "")]
    Unset,
}

/// The budget of an update, and which nodes are updated.
#[derive(Clone, Debug, Default, Deserialize, KubeSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RollingUpdate {
    /// Most nodes without an available pod because of an update: a number, or a percentage of the nodes that
    /// should have one, rounded up. A node that was NotReady or cordoned before it was touched does not count.
    /// Default: 1, with maxSurge 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "any_quota")]
    pub max_unavailable: Option<IntOrString>,
    /// Most nodes with a second pod, which is available before the old one goes: a number, or a percentage of
    /// the nodes that should have one, rounded up. Default: 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "any_quota")]
    pub max_surge: Option<IntOrString>,
    /// Standard: pods are replaced. The field is OpenKruise's; an update of images in place is not there.
    /// Default: Standard.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(
        validation = Rule::new("self in ['', 'Standard']").message(
            "must be Standard: Carillon replaces pods and does not update images in place; remove the field"
        )
    )]
    pub rolling_update_type: Option<String>,
    /// Nodes that are left with their old pod: a number, or a percentage of the nodes that should have one,
    /// rounded down. Default: 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "number_or_percentage")]
    pub partition: Option<IntOrString>,
    /// True: no further pod is replaced; nodes without a pod still get one. Default: false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<bool>,
    /// Only nodes with these labels are updated. Default: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "super::selector::schema")]
    pub selector: Option<LabelSelector>,
}

/// A rule that holds unless the type is OnDelete.
fn rolling(rule: &str) -> String {
    format!("has(self.type) && self.type == 'OnDelete' || !has(self.rollingUpdate) || {rule}")
}

fn is_quota(field: &str) -> String {
    let field = format!("self.rollingUpdate.{field}");
    format!("!has({field}) || ({})", quota(&field))
}

fn quota(value: &str) -> String {
    format!(
        "type({value}) == int ? {value} >= 0 && {value} <= 2147483647 \
         : {value}.matches('^0*([0-9]{{1,2}}|100)%$')"
    )
}

fn absent_or_zero(field: &str) -> String {
    let field = format!("self.rollingUpdate.{field}");
    format!("(!has({field}) || (type({field}) == int ? {field} == 0 : {field}.matches('^0+%$')))")
}

/// A number or a text.
fn any_quota(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({
        "x-kubernetes-int-or-string": true,
        "anyOf": [{"type": "integer"}, {"type": "string"}],
    })
}

fn number_or_percentage(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
    let mut schema = any_quota(generator);
    let rule = serde_json::json!([{"rule": quota("self"), "message": OF_A_QUOTA}]);
    schema.insert("x-kubernetes-validations".into(), rule);
    schema
}
