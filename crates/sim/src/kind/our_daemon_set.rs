//! The CEL rules of DaemonSets of carillon.dev.

use std::sync::OnceLock;

use serde_json::Value;

use super::{daemon_set, schema};
use crate::status::Cause;

pub(super) fn schema() -> &'static Value {
    static SCHEMA: OnceLock<Value> = OnceLock::new();
    SCHEMA.get_or_init(|| {
        schema::of_crd(include_str!(
            "../../../../crds/carillon.dev_daemonsets.yaml"
        ))
    })
}

pub(super) fn check(set: &Value, old: Option<&Value>) -> Vec<Cause> {
    let mut causes = daemon_set::rules(set, old);
    let rolling = &set["spec"]["updateStrategy"]["rollingUpdate"];
    let is_none = |field: &str| rolling[field] == 0 || rolling[field] == "0%";
    let is_some = |field: &str| !rolling[field].is_null() && !is_none(field);
    let path = "spec.updateStrategy.rollingUpdate";
    if is_some("maxSurge") && is_some("maxUnavailable") {
        let why = "may not be set when maxUnavailable is not 0";
        causes.push(Cause::invalid(
            format!("{path}.maxSurge"),
            &rolling["maxSurge"],
            why,
        ));
    }
    if is_none("maxUnavailable") && !is_some("maxSurge") {
        let why = "cannot be 0 when maxSurge is 0";
        let field = format!("{path}.maxUnavailable");
        causes.push(Cause::invalid(&field, &rolling["maxUnavailable"], why));
    }
    causes
}
