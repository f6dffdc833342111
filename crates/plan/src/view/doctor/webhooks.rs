//! Webhooks that would refuse our pods: those that must answer when a pod is created, and cannot.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde::Deserialize;
use serde_json::Value;

use super::operators::Installed;
use super::subject::Subject;
use super::{Check, Finding, Seen, Severity, count};
use crate::selector::selects_by;
use crate::view::read::{entries, list, text};

/// The name of the check.
pub const CHECK: &str = "webhooks";
/// The label that each namespace has for itself.
const NAMESPACE_NAME: &str = "kubernetes.io/metadata.name";
const SYSTEM: &str = "kube-system";

/// Labels.
pub type Labels = BTreeMap<String, String>;

/// Pods that are going to be created.
#[derive(Clone, Debug)]
pub struct Source {
    /// Whose pods: `BroadcastJob ops/fix`.
    pub place: String,
    /// Their namespace.
    pub namespace: String,
    /// Their labels.
    pub labels: Labels,
}

impl Source {
    /// The pods of an object that may still create some.
    pub fn of(subject: &Subject) -> Self {
        Self {
            place: subject.place.clone(),
            namespace: subject.namespace.clone(),
            labels: subject.labels.clone(),
        }
    }

    /// The operator's own.
    pub fn of_operator(operator: &Installed) -> Self {
        Self {
            place: operator.place(),
            namespace: operator.namespace.clone(),
            labels: operator.labels.clone(),
        }
    }
}

/// A webhook that is asked when a pod is created, and without whose answer none is.
#[derive(Clone, Debug)]
pub struct Hook {
    /// `ValidatingWebhookConfiguration NAME`.
    place: String,
    name: String,
    namespaces: LabelSelector,
    objects: LabelSelector,
    /// It has conditions in CEL, which are not looked at.
    conditional: bool,
    /// Namespace and name of the service that answers; `None`: a URL.
    pub service: Option<(String, String)>,
}

/// Those of a list of ValidatingWebhookConfigurations or MutatingWebhookConfigurations.
pub fn hooks(kind: &str, configurations: &[Value]) -> Vec<Hook> {
    let mut all = Vec::new();
    for object in configurations {
        let place = format!("{kind} {}", text(&object["metadata"]["name"]));
        let asked = list(&object["webhooks"]).filter(|hook| must_answer(hook));
        all.extend(asked.map(|hook| read(&place, hook)));
    }
    all
}

fn must_answer(hook: &Value) -> bool {
    let fails = hook["failurePolicy"]
        .as_str()
        .is_none_or(|policy| policy == "Fail");
    fails && list(&hook["rules"]).any(is_about_new_pods)
}

fn is_about_new_pods(rule: &Value) -> bool {
    let has = |field: &str, words: &[&str]| {
        let mut all = list(&rule[field]).map(text);
        all.any(|one| words.contains(&one))
    };
    let scope = text(&rule["scope"]);
    has("apiGroups", &["", "*"])
        && has("apiVersions", &["v1", "*"])
        && has("operations", &["CREATE", "*"])
        && has("resources", &["pods", "*", "*/*"])
        && scope != "Cluster"
}

fn read(place: &str, hook: &Value) -> Hook {
    let selector = |field: &str| LabelSelector::deserialize(&hook[field]).unwrap_or_default();
    let service = &hook["clientConfig"]["service"];
    Hook {
        place: place.to_owned(),
        name: text(&hook["name"]).to_owned(),
        namespaces: selector("namespaceSelector"),
        objects: selector("objectSelector"),
        conditional: list(&hook["matchConditions"]).next().is_some(),
        service: service.is_object().then(|| {
            let word = |field: &str| text(&service[field]).to_owned();
            (word("namespace"), word("name"))
        }),
    }
}

impl Hook {
    fn sees_namespace(&self, namespace: &str, known: &BTreeMap<String, Labels>) -> bool {
        let labels = known.get(namespace);
        selects_by(&self.namespaces, |key| match key {
            NAMESPACE_NAME => Some(namespace),
            key => labels?.get(key).map(String::as_str),
        })
    }

    fn sees(&self, source: &Source, known: &BTreeMap<String, Labels>) -> bool {
        self.sees_namespace(&source.namespace, known)
            && selects_by(&self.objects, |key| {
                source.labels.get(key).map(String::as_str)
            })
    }
}

/// The labels of namespaces, by name.
pub fn labels(namespaces: &[Value]) -> BTreeMap<String, Labels> {
    let labels = |object: &Value| {
        let labels = entries(&object["metadata"]["labels"]);
        labels
            .map(|(key, value)| (key.to_owned(), text(value).to_owned()))
            .collect()
    };
    let named = namespaces.iter();
    named
        .map(|one| (text(&one["metadata"]["name"]).to_owned(), labels(one)))
        .collect()
}

/// Whether EndpointSlices of a service have an address that is ready.
pub fn answers(slices: &[Value]) -> bool {
    let endpoints = slices.iter().flat_map(|slice| list(&slice["endpoints"]));
    let mut ready = endpoints.filter(|one| one["conditions"]["ready"] != false);
    ready.any(|one| list(&one["addresses"]).next().is_some())
}

/// Whether one of the webhooks that see our pods cannot answer. `silent`: services without an address that is ready;
/// an error: they may not be read.
pub fn check(
    hooks: &[Hook],
    silent: &Seen<BTreeSet<(String, String)>>,
    sources: &[Source],
    namespaces: &BTreeMap<String, Labels>,
) -> Check {
    let mut findings = Vec::new();
    let mut seeing = 0;
    for hook in hooks {
        let ours: Vec<&Source> = sources
            .iter()
            .filter(|source| hook.sees(source, namespaces))
            .collect();
        seeing += usize::from(!ours.is_empty());
        let is_silent = match (silent, &hook.service) {
            (Ok(silent), Some(service)) => silent.contains(service),
            _ => false,
        };
        if is_silent && !ours.is_empty() {
            findings.push(refuses(hook, &ours));
        } else if hook.sees_namespace(SYSTEM, namespaces) {
            findings.push(sees_system(hook));
        }
    }
    let found = format!(
        "{} must answer when a pod of ours is created",
        count(seeing, "webhook")
    );
    let left_out = silent.as_ref().err().filter(|_| seeing > 0);
    Check::made(CHECK, found, findings).without(left_out.cloned())
}

fn refuses(hook: &Hook, ours: &[&Source]) -> Finding {
    let (namespace, name) = hook.service.clone().unwrap_or_default();
    let first = ours.first().map_or("", |source| &*source.place);
    let others = match ours.len() {
        0 | 1 => String::new(),
        more => format!(" and {} more", more - 1),
    };
    let (severity, but) = if hook.conditional {
        (
            Severity::Warning,
            ", unless its matchConditions leave them out",
        )
    } else {
        (Severity::Problem, "")
    };
    let what = format!(
        "its webhook {} must answer before a pod of {first}{others} is created, and its service {namespace}/{name} \
         has no endpoint that is ready: no pod is created{but}",
        hook.name
    );
    Finding::new(CHECK, severity, &*hook.place, what)
        .or(
            "have it answer again",
            format!(
                "kubectl get endpointslices -n {namespace} -l kubernetes.io/service-name={name}\n\
                 kubectl get service,pods -n {namespace}"
            ),
        )
        .or(
            "or have it not be asked: failurePolicy Ignore, or a namespaceSelector",
            "",
        )
}

fn sees_system(hook: &Hook) -> Finding {
    let what = format!(
        "its webhook {} must answer before a pod in {SYSTEM} is created: if its own pods need one of these first, \
         nothing starts any more",
        hook.name
    );
    Finding::new(CHECK, Severity::Info, &*hook.place, what).or(
        "leave the namespace out, in namespaceSelector",
        format!(
            "matchExpressions:\n- key: {NAMESPACE_NAME}\n  operator: NotIn\n  values: [{SYSTEM}]"
        ),
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::view::doctor::Outcome;

    fn configuration(change: &Value) -> Value {
        let mut hook = json!({
            "name": "policy.example.com",
            "clientConfig": {"service": {"namespace": "policy", "name": "policy"}},
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}],
            "namespaceSelector": {"matchExpressions": [
                {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["kube-system"]}]},
        });
        for (key, value) in change.as_object().unwrap() {
            hook[key] = value.clone();
        }
        json!({"metadata": {"name": "policy"}, "webhooks": [hook]})
    }

    fn judge(change: &Value, is_silent: bool) -> Check {
        let source = Source {
            place: "BroadcastJob ops/fix".to_owned(),
            namespace: "ops".to_owned(),
            labels: [("app".to_owned(), "fix".to_owned())].into(),
        };
        let namespaces = labels(&[json!({"metadata": {"name": "ops", "labels": {"team": "a"}}})]);
        let hooks = hooks("ValidatingWebhookConfiguration", &[configuration(change)]);
        let service = ("policy".to_owned(), "policy".to_owned());
        let silent = is_silent.then_some(service).into_iter().collect();
        check(&hooks, &Ok(silent), &[source], &namespaces)
    }

    #[test]
    fn a_webhook_that_sees_our_pods_and_cannot_answer_is_a_problem() {
        assert_eq!(judge(&json!({}), false).result, Outcome::Ok);
        let check = judge(&json!({}), true);
        assert_eq!(check.result, Outcome::Problem);
        let finding = &check.findings[0];
        assert_eq!(finding.where_, "ValidatingWebhookConfiguration policy");
        assert!(
            finding.what.contains("pod of BroadcastJob ops/fix"),
            "{finding:?}"
        );
        let conditional = judge(&json!({"matchConditions": [{"name": "x"}]}), true);
        assert_eq!(conditional.result, Outcome::Warning);
    }

    #[test]
    fn one_that_is_not_asked_about_our_pods_is_none() {
        let rule = |field: &str, value: &str| {
            let mut rule = json!({"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*"]});
            rule[field] = json!([value]);
            json!({"rules": [rule]})
        };
        for change in [
            json!({"failurePolicy": "Ignore"}),
            rule("apiGroups", "apps"),
            rule("operations", "UPDATE"),
            rule("resources", "pods/exec"),
            json!({"namespaceSelector": {"matchLabels": {"team": "b"}}}),
            json!({"objectSelector": {"matchLabels": {"app": "other"}},
                   "namespaceSelector": {"matchLabels": {"team": "a"}}}),
        ] {
            let check = judge(&change, true);
            assert_eq!(check.result, Outcome::Ok, "{change} {check:?}");
        }
        let all = judge(&rule("apiVersions", "v1"), true);
        assert_eq!(all.result, Outcome::Problem);
    }

    #[test]
    fn one_that_sees_the_system_is_worth_knowing() {
        let check = judge(&json!({"namespaceSelector": {}}), false);
        assert_eq!(check.result, Outcome::Info);
        assert!(check.findings[0].what.contains("kube-system"));
    }

    #[test]
    fn a_service_answers_with_an_address_that_is_ready() {
        let slice = |ready: Value, addresses: Value| json!({"endpoints": [{"conditions": {"ready": ready}, "addresses": addresses}]});
        assert!(answers(&[slice(json!(true), json!(["10.0.0.1"]))]));
        assert!(answers(&[slice(Value::Null, json!(["10.0.0.1"]))]));
        assert!(!answers(&[slice(json!(false), json!(["10.0.0.1"]))]));
        assert!(!answers(&[json!({"endpoints": null})]) && !answers(&[]));
    }
}
