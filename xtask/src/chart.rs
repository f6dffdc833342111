//! What the installed chart says about running the operator.

use anyhow::{Context, Result};
use carillon_testbed::Cluster;
use carillon_testbed::carillon::{NAMESPACE, RELEASE};
use serde_json::Value;

/// The test bed sets these itself.
const NOT_OURS: [&str; 2] = ["--http-address=", "--log-format="];

/// The operator's arguments in the chart's Deployment.
pub(crate) fn operator_arguments(cluster: &Cluster) -> Result<Vec<String>> {
    let what = "the chart's Deployment";
    let deployment =
        cluster.kubectl_ok(["get", "deployment", RELEASE, "-n", NAMESPACE, "-o", "json"])?;
    let deployment: Value = serde_json::from_str(&deployment).context(what)?;
    let args = deployment.pointer("/spec/template/spec/containers/0/args");
    let args = args.and_then(Value::as_array).context(what)?;
    let args = args.iter().filter_map(Value::as_str);
    let ours = |arg: &&str| !NOT_OURS.iter().any(|flag| arg.starts_with(flag));
    Ok(args.filter(ours).map(str::to_owned).collect())
}
