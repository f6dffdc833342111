//! Fields that a manifest has and its kind has not: the API server would refuse them.

use anyhow::{Context as _, Result, bail};
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::PodTemplateSpec;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::subject::Subject;

/// Refuses a manifest with unknown fields or wrong types.
pub(crate) fn refuse(subject: Subject, object: &Value) -> Result<()> {
    let mut unknown = match subject {
        Subject::BroadcastJob => of::<carillon_api::BroadcastJob>(object, "")?,
        Subject::DaemonSet => of::<carillon_api::DaemonSet>(object, "")?,
        Subject::NativeDaemonSet => of::<DaemonSet>(object, "")?,
        Subject::Job => of::<Job>(object, "")?,
    };
    if matches!(subject, Subject::BroadcastJob | Subject::DaemonSet) {
        let template = &object["spec"]["template"];
        if !template.is_null() {
            unknown.extend(of::<PodTemplateSpec>(template, "spec.template.")?);
        }
    }
    // Types of ours leave these two to the API.
    unknown.retain(|path| !["apiVersion", "kind"].contains(&&**path));
    match &*unknown {
        [] => Ok(()),
        [one] => bail!("{one}: there is no such field"),
        many => bail!("{}: there are no such fields", many.join(", ")),
    }
}

/// The paths of all that `T` does not know.
fn of<T: DeserializeOwned>(object: &Value, prefix: &str) -> Result<Vec<String>> {
    let mut unknown = Vec::new();
    let mut note =
        |path: serde_ignored::Path<'_>| unknown.push(format!("{prefix}{}", shown(&path)));
    let read = serde_ignored::deserialize::<_, _, T>(object, &mut note);
    drop(read.with_context(|| format!("{prefix}…").trim_end_matches(".…").to_owned())?);
    Ok(unknown)
}

/// As people write it: `spec.template.spec.containers[0].comand`.
fn shown(path: &serde_ignored::Path<'_>) -> String {
    use serde_ignored::Path;
    match path {
        Path::Root => String::new(),
        Path::Seq { parent, index } => format!("{}[{index}]", shown(parent)),
        Path::Map { parent, key } => match shown(parent) {
            parent if parent.is_empty() => key.clone(),
            parent => format!("{parent}.{key}"),
        },
        Path::Some { parent }
        | Path::NewtypeStruct { parent }
        | Path::NewtypeVariant { parent } => shown(parent),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn refused(subject: Subject, spec: &Value) -> String {
        let (version, kind) = match subject {
            Subject::BroadcastJob => ("carillon.dev/v1alpha1", "BroadcastJob"),
            Subject::DaemonSet => ("carillon.dev/v1alpha1", "DaemonSet"),
            Subject::NativeDaemonSet => ("apps/v1", "DaemonSet"),
            Subject::Job => ("batch/v1", "Job"),
        };
        let object = json!({
            "apiVersion": version, "kind": kind, "metadata": {"name": "a"}, "spec": spec,
        });
        let answer = refuse(subject, &object);
        answer.map_or_else(|error| format!("{error:#}"), |()| String::new())
    }

    #[test]
    fn fields_that_a_kind_does_not_have_are_named_with_their_path() {
        let spec = json!({
            "parallelsim": 2,
            "template": {"spec": {"containers": [{"name": "a", "image": "b", "comand": ["x"]}]}},
        });
        let expected =
            "spec.parallelsim, spec.template.spec.containers[0].comand: there are no such fields";
        assert_eq!(refused(Subject::BroadcastJob, &spec), expected);
        let spec = json!({"paralelism": 2, "template": {"spec": {"containers": []}}});
        assert_eq!(
            refused(Subject::Job, &spec),
            "spec.paralelism: there is no such field"
        );
    }

    #[test]
    fn a_manifest_without_mistakes_is_not_refused() {
        let template = json!({
            "metadata": {"labels": {"a": "b"}},
            "spec": {"hostPID": false, "tolerations": [], "containers": [{"name": "a", "image": "b"}]},
        });
        let set = json!({"selector": {"matchLabels": {"a": "b"}}, "template": template});
        for subject in [Subject::DaemonSet, Subject::NativeDaemonSet] {
            assert_eq!(refused(subject, &set), "");
        }
        let job = json!({"parallelism": "10%", "template": template});
        assert_eq!(refused(Subject::BroadcastJob, &job), "");
    }

    #[test]
    fn a_wrong_type_in_the_template_is_told_with_its_place() {
        let spec = json!({"template": {"spec": {"containers": "none"}}});
        let said = refused(Subject::BroadcastJob, &spec);
        assert!(
            said.contains("spec.template") && said.contains("sequence"),
            "{said}"
        );
    }
}
