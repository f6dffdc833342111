//! Selectors of labels, and the rules on that of a DaemonSet. They are those of the API server; the bounds, far above
//! what anybody writes, are what the rules cost.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::core::Rule;
use serde_json::{Value, json};

use crate::open_schema::{LABEL_KEY, label_keys, label_value, open_schema, with_rules};

/// Whether the labels of the template have those of `matchLabels`.
pub(super) const MATCH_LABELS_MATCH: &str = "!has(self.selector.matchLabels) || \
    has(self.template.metadata) && has(self.template.metadata.labels) && \
    self.selector.matchLabels.all(key, key in self.template.metadata.labels && \
    self.template.metadata.labels[key] == self.selector.matchLabels[key])";

/// Whether the labels of the template are as `matchExpressions` asks.
pub(super) fn match_expressions_match() -> String {
    let labels = "self.template.metadata.labels";
    let is_listed = format!("has(e.values) && {labels}[e.key] in e.values");
    format!(
        "!has(self.selector.matchExpressions) || self.selector.matchExpressions.all(e, \
         has(self.template.metadata) && has({labels}) && e.key in {labels} \
         ? e.operator == 'Exists' || e.operator == 'In' && {is_listed} || \
         e.operator == 'NotIn' && !({is_listed}) \
         : e.operator in ['NotIn', 'DoesNotExist'])"
    )
}

/// Whether the selector is what it was. An empty list and an absent one are the same, as in apps/v1.
pub(super) fn is_unchanged() -> String {
    let labels = |of: &str| {
        let field = format!("{of}.spec.selector.matchLabels");
        format!("(has({field}) ? {field} : {{}})")
    };
    let has_all = |of: &str, other: &str| {
        let field = |of: &str| format!("{of}.spec.selector.matchExpressions");
        let (of, other) = (field(of), field(other));
        format!(
            "(!has({of}) || {of}.all(e, has({other}) && {other}.exists(f, e.key == f.key && \
             e.operator == f.operator && (has(e.values) ? e.values : []) == \
             (has(f.values) ? f.values : []))))"
        )
    };
    format!(
        "{} == {} && {} && {}",
        labels("self"),
        labels("oldSelf"),
        has_all("self", "oldSelf"),
        has_all("oldSelf", "self")
    )
}

/// A selector as the API server takes one.
pub(super) fn schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    let mut schema = open_schema::<LabelSelector>();
    let labels = &mut schema["properties"]["matchLabels"];
    labels["maxProperties"] = 1000.into();
    labels["additionalProperties"] = label_value();
    with_rules(labels, &[label_keys()]);
    let expressions = &mut schema["properties"]["matchExpressions"];
    expressions["maxItems"] = 32.into();
    let expression = &mut expressions["items"];
    with_rules(
        expression,
        &[Rule::new(
            "self.operator in ['In', 'NotIn'] == (has(self.values) && self.values.size() > 0)",
        )
        .message("must have values with the operators In and NotIn, and none with Exists and DoesNotExist")
        .field_path(".values")],
    );
    let fields = &mut expression["properties"];
    fields["key"]["pattern"] = LABEL_KEY.into();
    fields["key"]["maxLength"] = 317.into();
    fields["operator"]["enum"] = json!(["In", "NotIn", "Exists", "DoesNotExist"]);
    fields["values"]["maxItems"] = 256.into();
    fields["values"]["items"] = label_value();
    match schema {
        Value::Object(object) => object.into(),
        _ => schemars::Schema::default(),
    }
}
