//! Operators that the chart has installed: Deployments, what they serve, and whether two serve the same.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use serde::Serialize;
use serde_json::Value;

use super::{Check, Finding, Severity, count, some};
use crate::view::read::{entries, list, text};

/// The names of the checks.
pub const CHECK: &str = "operator";
/// Of whether two serve the same.
pub const RELEASES: &str = "releases";
/// What the Deployments of our chart are found by.
pub const SELECTOR: &str = "app.kubernetes.io/component=operator";
const LABELS: [&str; 2] = ["app.kubernetes.io/part-of", "app.kubernetes.io/name"];
const VERSION: &str = "app.kubernetes.io/version";
const OURS: &str = "carillon";
/// Default of the flag.
const DEBUG_ADDRESS: &str = "127.0.0.1:8081";

/// An operator, as its Deployment has it.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Installed {
    /// Namespace of the Deployment.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Image of the operator.
    pub image: String,
    /// As the tag of its image says, or else the label of the chart; empty where neither does.
    pub version: String,
    /// Replicas that are wanted.
    pub replicas: i64,
    /// Those that are ready.
    pub ready: i64,
    /// Its ServiceAccount.
    pub account: String,
    /// The labels of its pods.
    #[serde(skip)]
    pub labels: BTreeMap<String, String>,
    /// Kinds that it serves, as `files/permissions.yaml` of the chart calls them, and `leader-election`.
    pub serves: BTreeSet<String>,
    /// Namespaces that it serves; none: all.
    pub namespaces: Vec<String>,
    /// Its lease: namespace and name. `None`: it runs without leader election.
    pub lease: Option<(String, String)>,
    /// Settings that stand elsewhere: in ConfigMaps and Secrets.
    pub elsewhere: Vec<String>,
}

impl Installed {
    /// `Deployment carillon-system/carillon`.
    pub fn place(&self) -> String {
        format!("Deployment {}/{}", self.namespace, self.name)
    }

    /// Whether it serves a kind of Kubernetes: `jobs`, `cronjobs`, `daemonsets`.
    pub fn serves_native(&self, plural: &str) -> bool {
        self.serves
            .contains(&format!("native-{}", singular(plural)))
    }

    /// Whether it serves objects of a namespace.
    pub fn serves_namespace(&self, namespace: &str) -> bool {
        self.namespaces.is_empty() || self.namespaces.iter().any(|one| one == namespace)
    }
}

fn singular(plural: &str) -> &str {
    plural.strip_suffix('s').unwrap_or(plural)
}

/// The operators among these Deployments.
pub fn installed(deployments: &[Value]) -> Vec<Installed> {
    let ours = |object: &&Value| {
        let labels = &object["metadata"]["labels"];
        let mut values = LABELS.iter().map(|label| text(&labels[*label]));
        values.any(|value| value == OURS) || text(&labels["helm.sh/chart"]).starts_with("carillon-")
    };
    deployments.iter().filter(ours).map(read).collect()
}

fn read(object: &Value) -> Installed {
    let (meta, spec) = (&object["metadata"], &object["spec"]);
    let pod = &spec["template"]["spec"];
    let is_ours = |container: &&Value| container["name"] == OURS;
    let container = list(&pod["containers"]).find(is_ours);
    let container = container.unwrap_or_else(|| &pod["containers"][0]);
    let namespace = text(&meta["namespace"]).to_owned();
    let settings = Settings::read(container, &namespace);
    let leads = settings
        .get("leader-elect")
        .is_none_or(|value| value != "false");
    let lease = |name, default: &str| settings.get(name).unwrap_or(default).to_owned();
    let image = text(&container["image"]);
    let label = text(&meta["labels"][VERSION]);
    Installed {
        name: text(&meta["name"]).to_owned(),
        image: image.to_owned(),
        version: tagged(image).unwrap_or(label).to_owned(),
        replicas: spec["replicas"].as_i64().unwrap_or(1),
        ready: object["status"]["readyReplicas"].as_i64().unwrap_or(0),
        account: match text(&pod["serviceAccountName"]) {
            "" => "default".to_owned(),
            account => account.to_owned(),
        },
        labels: entries(&spec["template"]["metadata"]["labels"])
            .map(|(key, value)| (key.to_owned(), text(value).to_owned()))
            .collect(),
        serves: serves(&settings, leads),
        namespaces: words(settings.get("namespaces")),
        lease: leads.then(|| {
            let of = lease("lease-namespace", &namespace);
            (of, lease("lease-name", OURS))
        }),
        elsewhere: settings.elsewhere(),
        namespace,
    }
}

/// The version in the tag of an image, if it is one: `r/carillon:v1.2.3` is of 1.2.3.
fn tagged(image: &str) -> Option<&str> {
    let image = image.split('@').next()?;
    let (_, tag) = image
        .rsplit_once(':')
        .filter(|(_, tag)| !tag.contains('/'))?;
    let version = tag.strip_prefix('v').unwrap_or(tag);
    let numbers = version.split(['-', '+']).next()?.split('.');
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let parts: Vec<bool> = numbers.map(is_number).collect();
    (parts == [true; 3]).then_some(version)
}

/// What the flags and the environment of a container set.
struct Settings<'a> {
    args: Vec<&'a str>,
    env: BTreeMap<&'a str, &'a str>,
    /// Variables whose values stand elsewhere.
    unread: Vec<&'a str>,
    /// There are variables of which not even the names are here.
    unnamed: bool,
}

/// Where the debug pages of a pod of an operator are: its port. `None`: the pod has none, or is no operator's.
pub fn debug_port(pod: &Value) -> Option<u16> {
    let container = list(&pod["spec"]["containers"]).find(|container| container["name"] == OURS)?;
    let settings = Settings::read(container, "");
    let address = settings.get("debug-address").unwrap_or(DEBUG_ADDRESS);
    Some(address.parse::<SocketAddr>().ok()?.port())
}

/// The settings that are looked at here.
const SETTINGS: [&str; 6] = [
    "controllers",
    "serve-native",
    "namespaces",
    "leader-elect",
    "lease-namespace",
    "lease-name",
];

fn variable(setting: &str) -> String {
    format!(
        "CARILLON_{}",
        setting.replace('-', "_").to_ascii_uppercase()
    )
}

impl<'a> Settings<'a> {
    fn read(container: &'a Value, namespace: &'a str) -> Self {
        let mut env = BTreeMap::new();
        let mut unread = Vec::new();
        for one in list(&container["env"]) {
            let (name, from) = (text(&one["name"]), &one["valueFrom"]);
            if from["fieldRef"]["fieldPath"] == "metadata.namespace" {
                env.insert(name, namespace);
            } else if from.is_null() {
                env.insert(name, text(&one["value"]));
            } else {
                unread.push(name);
            }
        }
        Self {
            args: list(&container["args"]).map(text).collect(),
            env,
            unread,
            unnamed: list(&container["envFrom"]).next().is_some(),
        }
    }

    /// The flag, or else the variable.
    fn get(&self, setting: &str) -> Option<&'a str> {
        let found = flag(&self.args, setting);
        found.or_else(|| self.env.get(&*variable(setting)).copied())
    }

    /// Those that may be set where nobody looks here.
    fn elsewhere(&self) -> Vec<String> {
        let unset = SETTINGS.iter().filter(|name| self.get(name).is_none());
        let unset = unset.map(|name| variable(name));
        let unread = |name: &String| self.unnamed || self.unread.contains(&&**name);
        unset.filter(unread).collect()
    }
}

/// `--name=value` or `--name value`; the last one counts.
fn flag<'a>(args: &[&'a str], name: &str) -> Option<&'a str> {
    let mut found = None;
    for (at, arg) in args.iter().enumerate() {
        let Some(rest) = arg
            .strip_prefix("--")
            .and_then(|arg| arg.strip_prefix(name))
        else {
            continue;
        };
        if let Some(value) = rest.strip_prefix('=') {
            found = Some(value);
        } else if rest.is_empty() {
            found = args.get(at + 1).copied();
        }
    }
    found
}

fn words(value: Option<&str>) -> Vec<String> {
    let words = value.unwrap_or_default().split(',');
    let words = words.map(str::trim).filter(|word| !word.is_empty());
    words.map(str::to_owned).collect()
}

/// As the chart's `carillon.served` has it, of arguments; `native-job` besides, which has no row of its own.
fn serves(settings: &Settings<'_>, leads: bool) -> BTreeSet<String> {
    let mut all: BTreeSet<String> = words(settings.get("controllers")).into_iter().collect();
    if all.is_empty() {
        all.extend(["broadcastjob", "cronjob", "daemonset", "job"].map(str::to_owned));
    }
    for plural in words(settings.get("serve-native")) {
        all.insert(format!("native-{}", singular(&plural)));
        if plural == "jobs" {
            all.insert("job".to_owned());
        }
    }
    if leads {
        all.insert("leader-election".to_owned());
    }
    all
}

/// Whether they run, and in the version of this program. An operator that somebody runs by hand has none.
pub fn check(operators: &[Installed], program: &str) -> Check {
    let mut findings = Vec::new();
    if operators.is_empty() {
        let what = "there is none by our chart: whoever runs the operator by hand is seen by its lease alone";
        findings.push(Finding::new(CHECK, Severity::Info, "Deployments", what));
    }
    for one in operators {
        findings.extend(readiness(one));
        findings.extend(version(one, program));
        findings.extend(elsewhere(one));
    }
    let found = operators.iter().map(|one| {
        let Installed {
            image,
            ready,
            replicas,
            ..
        } = one;
        format!("{}: {image}, {ready} of {replicas} ready", one.place())
    });
    let found: Vec<String> = found.collect();
    let found = match found.as_slice() {
        [] => "no Deployment".to_owned(),
        all => all.join("; "),
    };
    Check::made(CHECK, found, findings)
}

fn readiness(one: &Installed) -> Option<Finding> {
    let (ready, wanted) = (one.ready, one.replicas);
    let severity = match (ready, wanted) {
        (0, _) | (_, 0) => Severity::Problem,
        (ready, wanted) if ready < wanted => Severity::Warning,
        _ => return None,
    };
    let (namespace, name) = (&one.namespace, &one.name);
    let finding = if wanted == 0 {
        let what = "it is scaled to 0: it serves nothing";
        let scale = format!("kubectl scale -n {namespace} deployment/{name} --replicas=1");
        let start = "start it, unless another release serves in its place";
        Finding::new(CHECK, severity, one.place(), what).or(start, scale)
    } else {
        let what = format!("{ready} of {wanted} replicas are ready");
        let look = format!(
            "kubectl describe -n {namespace} deployment/{name}\n\
             kubectl logs -n {namespace} deployment/{name}"
        );
        Finding::new(CHECK, severity, one.place(), what).or("see why", look)
    };
    Some(finding)
}

fn version(one: &Installed, program: &str) -> Option<Finding> {
    let found = &one.version;
    if found.is_empty() || found == program {
        return None;
    }
    let what =
        format!("it is of version {found}, this program of {program}: they may not mean the same");
    let finding = Finding::new(CHECK, Severity::Warning, one.place(), what);
    let upgrade = format!(
        "helm upgrade RELEASE charts/carillon -n {} --reset-then-reuse-values",
        one.namespace
    );
    Some(
        finding
            .or(format!("use kubectl-carillon {found}"), "")
            .or(format!("install the operator of {program}"), upgrade),
    )
}

fn elsewhere(one: &Installed) -> Option<Finding> {
    if one.elsewhere.is_empty() {
        return None;
    }
    let what = format!(
        "{} may be set in a ConfigMap or a Secret, which are not read: what it serves may be something else than the \
         checks take for it",
        some(&one.elsewhere)
    );
    let finding = Finding::new(CHECK, Severity::Info, one.place(), what);
    Some(finding.or(
        "set it in the values of the chart: watchNamespaces, controllers, serveNative, leaderElection",
        "",
    ))
}

/// Whether two of them serve the same kind in the same namespace.
pub fn releases(operators: &[Installed]) -> Check {
    let mut findings = Vec::new();
    for (at, one) in operators.iter().enumerate() {
        for other in &operators[at + 1..] {
            findings.extend(both(one, other));
        }
    }
    Check::made(RELEASES, count(operators.len(), "release"), findings)
}

fn both(one: &Installed, other: &Installed) -> Option<Finding> {
    // With the same lease one waits for the other.
    if one.lease.is_some() && one.lease == other.lease {
        return None;
    }
    let kinds = one.serves.intersection(&other.serves);
    let kinds: Vec<&str> = kinds
        .map(String::as_str)
        .filter(|kind| *kind != "leader-election")
        .collect();
    let common = common(&one.namespaces, &other.namespaces)?;
    if kinds.is_empty() {
        return None;
    }
    let what = format!(
        "it and {} both serve {} in {common}, each with a lease of its own: they undo each other's work",
        other.place(),
        kinds.join(", ")
    );
    let finding = Finding::new(RELEASES, Severity::Problem, one.place(), what);
    Some(
        finding
            .or(
                "give each its own namespaces, in values.yaml",
                "watchNamespaces: [team-a]",
            )
            .or(
                "or keep one of them: docs/install.md says how to remove a release, and what goes with it",
                "",
            ),
    )
}

/// The namespaces that both serve, in words; `None` if there is none.
fn common(one: &[String], other: &[String]) -> Option<String> {
    match (one, other) {
        ([], []) => Some("all namespaces".to_owned()),
        ([], some) | (some, []) => Some(some.join(", ")),
        (one, other) => {
            let both: Vec<&str> = one
                .iter()
                .filter(|name| other.contains(name))
                .map(String::as_str)
                .collect();
            (!both.is_empty()).then(|| both.join(", "))
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use serde_json::json;

    use super::*;
    use crate::view::doctor::Outcome;

    pub(in super::super) fn deployment(name: &str, args: &[&str]) -> Value {
        json!({
            "metadata": {"namespace": "sys", "name": name, "labels": {
                "app.kubernetes.io/name": "carillon", "app.kubernetes.io/version": "1.2.3"}},
            "spec": {"replicas": 2, "template": {"spec": {
                "serviceAccountName": "robot",
                "containers": [{"name": "proxy"}, {"name": "carillon", "image": "r/c:1", "args": args}],
            }}},
            "status": {"readyReplicas": 2},
        })
    }

    fn one(name: &str, args: &[&str]) -> Installed {
        installed(&[deployment(name, args)]).remove(0)
    }

    #[test]
    fn a_deployment_of_the_chart_says_what_it_serves() {
        let plain = one("carillon", &[]);
        let all = [
            "broadcastjob",
            "cronjob",
            "daemonset",
            "job",
            "leader-election",
        ];
        assert!(plain.serves.iter().eq(all.iter()), "{plain:?}");
        assert_eq!(plain.lease, Some(("sys".to_owned(), "carillon".to_owned())));
        assert_eq!((&*plain.image, &*plain.account), ("r/c:1", "robot"));
        let some = one(
            "x",
            &[
                "--controllers=broadcastjob",
                "--serve-native",
                "jobs,daemonsets",
                "--namespaces=a,b",
                "--leader-elect=false",
            ],
        );
        let served = ["broadcastjob", "job", "native-daemonset", "native-job"];
        assert!(some.serves.iter().eq(served.iter()), "{some:?}");
        assert!(some.serves_native("daemonsets") && !some.serves_native("cronjobs"));
        assert!(some.serves_namespace("a") && !some.serves_namespace("c"));
        assert_eq!(some.lease, None);
        let foreign = json!({"metadata": {"labels": {"app.kubernetes.io/component": "operator"}}});
        assert_eq!(installed(&[foreign]), []);
    }

    #[test]
    fn what_the_environment_sets_counts_where_no_flag_does() {
        let with = |args: &[&str], env: &Value, env_from: &Value| {
            let mut object = deployment("carillon", args);
            let container = &mut object["spec"]["template"]["spec"]["containers"][1];
            container["env"] = env.clone();
            container["envFrom"] = env_from.clone();
            installed(&[object]).remove(0)
        };
        let set = json!([
            {"name": "CARILLON_SERVE_NATIVE", "value": "jobs"}, {"name": "CARILLON_NAMESPACES", "value": "a"},
            {"name": "CARILLON_CONTROLLERS", "value": "cronjob"},
            {"name": "CARILLON_LEASE_NAMESPACE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}},
            {"name": "CARILLON_LEASE_NAME", "value": "mine"}, {"name": "HTTPS_PROXY", "valueFrom": {"secretKeyRef": {}}},
        ]);
        let one = with(&["--namespaces=b"], &set, &Value::Null);
        let served = ["cronjob", "job", "leader-election", "native-job"];
        assert!(one.serves.iter().eq(served.iter()), "{one:?}");
        assert_eq!(one.namespaces, ["b"]);
        assert_eq!(one.lease, Some(("sys".to_owned(), "mine".to_owned())));
        assert_eq!(one.elsewhere, [""; 0]);
        let alone = with(
            &[],
            &json!([{"name": "CARILLON_LEADER_ELECT", "value": "false"}]),
            &Value::Null,
        );
        assert_eq!(alone.lease, None);

        let key = json!([{"name": "CARILLON_NAMESPACES", "valueFrom": {"configMapKeyRef": {"key": "x"}}}]);
        let elsewhere = with(&[], &key, &Value::Null);
        assert_eq!(elsewhere.elsewhere, ["CARILLON_NAMESPACES"]);
        let told = check(&[elsewhere], "1.2.3");
        assert_eq!(told.result, Outcome::Info, "{told:?}");
        assert!(
            told.findings[0]
                .what
                .starts_with("CARILLON_NAMESPACES may be set in a ConfigMap")
        );
        let whole = with(
            &["--namespaces=b"],
            &Value::Null,
            &json!([{"configMapRef": {"name": "x"}}]),
        );
        assert_eq!(whole.elsewhere.len(), SETTINGS.len() - 1);
    }

    #[test]
    fn a_version_is_that_of_the_image_or_else_of_the_label() {
        for (image, version) in [
            ("r/c:2.0.1", "2.0.1"),
            ("r:5000/c:v2.0.1-rc.1@sha256:0a", "2.0.1-rc.1"),
            ("r:5000/c", "1.2.3"),
            ("r/c:latest", "1.2.3"),
            ("r/c:2.0", "1.2.3"),
            ("r/c@sha256:0a", "1.2.3"),
        ] {
            let mut object = deployment("carillon", &[]);
            object["spec"]["template"]["spec"]["containers"][1]["image"] = json!(image);
            assert_eq!(installed(&[object])[0].version, version, "{image}");
        }
    }

    #[test]
    fn readiness_and_version_are_judged() {
        for (change, result, says) in [
            (json!({}), Outcome::Ok, ""),
            (
                json!({"status": {"readyReplicas": 1}}),
                Outcome::Warning,
                "1 of 2 replicas",
            ),
            (json!({"status": {}}), Outcome::Problem, "0 of 2 replicas"),
            (
                json!({"spec": {"replicas": 0}}),
                Outcome::Problem,
                "scaled to 0",
            ),
        ] {
            let mut object = deployment("carillon", &[]);
            for (key, value) in change.as_object().unwrap() {
                object[key] = value.clone();
            }
            let check = check(&installed(&[object]), "1.2.3");
            assert_eq!(check.result, result, "{check:?}");
            let said = check.findings.first().map_or("", |finding| &*finding.what);
            assert!(said.contains(says), "{said}");
        }
        let other = check(&[one("carillon", &[])], "1.3.0");
        assert_eq!(other.result, Outcome::Warning);
        assert!(
            other.findings[0]
                .what
                .contains("version 1.2.3, this program of 1.3.0")
        );
        assert_eq!(check(&[], "1").result, Outcome::Info);
    }

    #[test]
    fn two_releases_must_not_serve_the_same_kind_in_the_same_namespace() {
        let a: &[&str] = &["--lease-name=a"];
        for (ours, theirs, bad) in [
            (a, &["--lease-name=b"] as &[&str], true),
            (a, a, false),
            (
                &["--lease-name=a", "--namespaces=x"],
                &["--lease-name=b", "--namespaces=y"],
                false,
            ),
            (
                &["--lease-name=a", "--namespaces=x"],
                &["--lease-name=b"],
                true,
            ),
            (
                &["--lease-name=a", "--controllers=cronjob"],
                &["--lease-name=b", "--controllers=job"],
                false,
            ),
            (&["--leader-elect=false"], &["--leader-elect=false"], true),
        ] {
            let check = releases(&[one("a", ours), one("b", theirs)]);
            assert_eq!(check.is_bad(), bad, "{ours:?} {theirs:?} {check:?}");
        }
    }
}
