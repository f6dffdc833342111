//! The custom resource definitions of every kind in this crate.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use kube::CustomResourceExt;

use crate::broadcast_job::BroadcastJob;
use crate::cron_job::CronJob;
use crate::daemon_set::DaemonSet;
use crate::node_result_slice::NodeResultSlice;

/// What a cluster needs before it can store our objects.
pub fn crds() -> Vec<CustomResourceDefinition> {
    let mut crds = vec![
        BroadcastJob::crd(),
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
        }
    }
    crds
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
