//! The custom resource definitions of every kind in this crate.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSON, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use kube::CustomResourceExt;
use serde_json::json;

use crate::broadcast_job::BroadcastJob;
use crate::cron_job::CronJob;
use crate::daemon_set::DaemonSet;
use crate::misplaced;
use crate::node_result_slice::NodeResultSlice;
use crate::observed_generation::NOT_OBSERVED;

/// What a cluster needs before it can store our objects.
pub fn crds() -> Vec<CustomResourceDefinition> {
    let mut crds = vec![
        broadcast_jobs(),
        CronJob::crd(),
        DaemonSet::crd(),
        NodeResultSlice::crd(),
    ];
    for version in crds.iter_mut().flat_map(|crd| &mut crd.spec.versions) {
        if let Some(schema) = version
            .schema
            .as_mut()
            .and_then(|s| s.open_api_v3_schema.as_mut())
        {
            join_lines(schema);
            mark_as_not_observed(schema);
        }
    }
    crds
}

/// The CRD of BroadcastJobs, with the fields of Jobs that it refuses.
fn broadcast_jobs() -> CustomResourceDefinition {
    let mut crd = BroadcastJob::crd();
    for version in &mut crd.spec.versions {
        let schema = version.schema.as_mut();
        let schema = schema.and_then(|schema| schema.open_api_v3_schema.as_mut());
        let properties = schema.and_then(|schema| schema.properties.as_mut());
        let Some(spec) = properties.and_then(|properties| properties.get_mut("spec")) else {
            continue;
        };
        let mut written = json!(spec);
        misplaced::refuse(&mut written, "spec");
        if let Ok(read) = serde_json::from_value(written) {
            *spec = read;
        }
    }
    crd
}

/// A status that is absent says that nobody has looked at the object.
fn mark_as_not_observed(schema: &mut JSONSchemaProps) {
    let status = schema
        .properties
        .as_mut()
        .and_then(|properties| properties.get_mut("status"));
    if let Some(status) = status {
        status.default = Some(JSON(json!({"observedGeneration": NOT_OBSERVED})));
    }
}

/// Doc comments are wrapped for this source; `kubectl explain` wraps for the terminal.
fn join_lines(schema: &mut JSONSchemaProps) {
    if let Some(description) = &mut schema.description {
        let paragraphs: Vec<String> = description
            .split("\n\n")
            .map(|paragraph| paragraph.replace('\n', " "))
            .collect();
        *description = paragraphs.join("\n\n");
    }
    for property in schema.properties.iter_mut().flatten() {
        join_lines(property.1);
    }
    if let Some(JSONSchemaPropsOrArray::Schema(items)) = &mut schema.items {
        join_lines(items);
    }
    if let Some(JSONSchemaPropsOrBool::Schema(values)) = &mut schema.additional_properties {
        join_lines(values);
    }
}
