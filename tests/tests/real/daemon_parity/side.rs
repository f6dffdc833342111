//! One of the two clusters, and what is done on it.

use std::collections::BTreeSet;
use std::time::Instant;

use carillon_testbed::Cluster;
use carillon_tests::api::Api;
use http::Method;
use serde_json::{Value, json};

use super::here::{is_deleting, node_of};
use super::scenario::{Condition, Deed, QUOTAS, SCENARIO, SETS, Scenario, Whose};
use super::view::{Moment, facts_in_the_end};
use crate::parity::plain::without_chance;
use crate::parity::rounds::NO_END;
use crate::parity::stage::{LIMIT, QUIET, Stage, UNTOLD, delete_options};
use crate::parity::watched::{Here, Watched};
use crate::parity::{below, merge};

/// What is looked at.
const WATCHED: [(&str, &str); 4] = [
    ("daemonsets", "/apis/apps/v1/daemonsets"),
    ("pods", "/api/v1/pods"),
    ("controllerrevisions", "/apis/apps/v1/controllerrevisions"),
    ("events", "/api/v1/events"),
];

/// A cluster, and who serves DaemonSets there.
pub(crate) struct Side<'a> {
    cluster: &'a Cluster,
    api: &'a Api,
    watched: Watched,
    /// All nodes are made like this one.
    node: Value,
}

impl<'a> Side<'a> {
    /// Begins to watch.
    pub(crate) fn start(cluster: &'a Cluster, api: &'a Api) -> Self {
        let watched = Watched::start(cluster, api, &WATCHED);
        let nodes = api.list("/api/v1/nodes");
        let mut node = without_chance(nodes.first().expect("a node"));
        node["spec"] = json!({});
        Self {
            cluster,
            api,
            watched,
            node,
        }
    }

    fn stage(&self) -> Stage<'_> {
        Stage {
            api: self.api,
            watched: &self.watched,
        }
    }

    /// Plays a scenario in a namespace and on nodes of its own, and gives the facts that it shows.
    pub(crate) fn play(&self, scenario: &Scenario, run: usize) -> BTreeSet<String> {
        let namespace = format!("{}-{run}", scenario.name);
        self.prepare(scenario, &namespace);
        let set = self.put(&scenario.set, &namespace);
        let mut facts = BTreeSet::new();
        let mut moment = Moment::default();
        let create = Deed::Request(Method::POST, SETS, set);
        let first = [(&create, scenario.created)];
        let steps = scenario.steps.iter();
        let steps = first
            .into_iter()
            .chain(steps.map(|step| (&step.deed, step.until)));
        for (number, (deed, until)) in steps.enumerate() {
            self.act(&namespace, deed);
            let is_last = number == scenario.steps.len();
            let is_over = self.wait(&namespace, until, is_last);
            let here = self.watched.here(&namespace);
            facts.extend(moment.facts(number, &here, &namespace, scenario.any_node));
            if !is_over {
                println!(
                    "{namespace}: not at the end of step {number} within {LIMIT:?}: {}",
                    here.set()
                        .map(|set| set["status"].clone())
                        .unwrap_or_default()
                );
                facts.insert(NO_END.to_owned());
                break;
            }
        }
        let here = self.watched.here(&namespace);
        facts.extend(facts_in_the_end(&here, &namespace, scenario));
        self.stage().clear(&namespace, SETS);
        facts
    }

    fn prepare(&self, scenario: &Scenario, namespace: &str) {
        for (number, change) in scenario.nodes.iter().enumerate() {
            self.join(namespace, number, change);
        }
        self.stage().namespace(namespace);
        let names = (0..scenario.nodes.len()).map(|number| format!("{namespace}-{number}"));
        for name in names {
            // As long as nobody has looked at it, it has a taint that is none of the scenario.
            carillon_tests::until("a node is ready", || {
                let node = self.api.find(&format!("/api/v1/nodes/{name}"));
                let node = node.expect("a node");
                let taints = node["spec"]["taints"].as_array();
                !taints
                    .into_iter()
                    .flatten()
                    .any(|taint| taint["key"] == "node.kubernetes.io/not-ready")
            });
        }
        for (plural, object) in &scenario.before {
            let object = self.put(object, namespace);
            let made = self.api.create(&below(namespace, plural), &object);
            // Until it is counted, it lets nothing through.
            if *plural == QUOTAS {
                let name = made["metadata"]["name"].as_str().expect("a name");
                let path = below(namespace, &format!("{QUOTAS}/{name}"));
                carillon_tests::until("a quota is counted", || {
                    let quota = self.api.find(&path);
                    quota.is_some_and(|quota| quota["status"]["used"].is_object())
                });
            }
        }
    }

    fn join(&self, namespace: &str, number: usize, change: &Value) {
        let name = format!("{namespace}-{number}");
        let mut node = self.node.clone();
        node["metadata"]["name"] = json!(name);
        node["metadata"]["labels"]["kubernetes.io/hostname"] = json!(name);
        node["metadata"]["labels"][SCENARIO] = json!(namespace);
        merge(&mut node, change);
        self.api.create("/api/v1/nodes", &node);
    }

    /// Waits until what was done has come to what it should, and in the end also until it was told. `false`: it
    /// has not come to that.
    fn wait(&self, namespace: &str, until: Condition, is_last: bool) -> bool {
        let start = Instant::now();
        let is_over = |here: &Here| {
            let is_told = !is_last || here.has_told_of_pods();
            let rest = here.quiet().min(start.elapsed());
            let is_at_rest = rest > if is_told { QUIET } else { UNTOLD };
            (is_at_rest && until(here)).then_some(())
        };
        self.watched.until(namespace, LIMIT, is_over).is_some()
    }

    fn act(&self, namespace: &str, deed: &Deed) {
        let stage = self.stage();
        let set = format!("{SETS}/d");
        let send = |method: Method, path: &str, body: &Value| {
            let (path, body) = (self.text(path, namespace), self.put(body, namespace));
            stage.act(namespace, &method, &path, &body);
        };
        let node = |number: usize| format!("{namespace}-{number}");
        let to_node = |method: Method, number: usize, body: &Value| {
            let path = format!("/api/v1/nodes/{}", node(number));
            let answer = self.api.send(method, &path, &self.put(body, namespace));
            answer.unwrap_or_else(|refused| panic!("{path}: {refused:?}"));
        };
        match deed {
            Deed::Set(change) => send(Method::PATCH, &set, change),
            Deed::Store(pointer, value) => {
                let key = format!("daemonsets/{namespace}/d");
                let edited = self.cluster.edit_stored(&key, |object| {
                    *object.pointer_mut(pointer).expect(pointer) = value.clone();
                });
                edited.unwrap_or_else(|error| panic!("{key}: {error:#}"));
            }
            Deed::Delete(policy) => {
                let options = delete_options("propagationPolicy", *policy);
                send(Method::DELETE, &set, &options);
            }
            Deed::Pods(whose, deed) => {
                for pod in self.pods(namespace, *whose) {
                    let (method, path, body) = deed.request(&pod);
                    stage.act(namespace, &method, &path, &self.put(&body, namespace));
                }
            }
            Deed::Node(number, change) => to_node(Method::PATCH, *number, change),
            Deed::Join(number, change) => self.join(namespace, *number, change),
            Deed::Leave(number) => to_node(Method::DELETE, *number, &Value::Null),
            Deed::StopKubelet(number) => {
                let stopped = self.cluster.stop_kubelets(&[&node(*number)]);
                stopped.expect("a kubelet that stops");
            }
            Deed::NodeReady(number, ready) => {
                let told = self.cluster.set_node_ready(&node(*number), *ready);
                told.expect("a kubelet that tells");
            }
            Deed::Request(method, path, body) => send(method.clone(), path, body),
            Deed::Kubectl(args) => {
                let args = ["-n", namespace].into_iter().chain(args.iter().copied());
                self.cluster.kubectl_ok(args).expect("kubectl");
            }
        }
    }

    fn pods(&self, namespace: &str, whose: Whose) -> Vec<Value> {
        let here = self.watched.here(namespace);
        let (leaving, there): (Vec<&Value>, Vec<&Value>) =
            here.pods().iter().partition(|pod| is_deleting(pod));
        let mut there = there.into_iter();
        let found: Vec<Value> = match whose {
            Whose::Leaving => leaving.into_iter().cloned().collect(),
            Whose::All => there.cloned().collect(),
            Whose::On(number) => {
                let node = format!("{namespace}-{number}");
                let first = there.find(|pod| node_of(pod) == Some(&node));
                first.cloned().into_iter().collect()
            }
            Whose::Named(name) => there
                .filter(|pod| pod["metadata"]["name"] == name)
                .cloned()
                .collect(),
        };
        assert!(!found.is_empty(), "{namespace}: no pod {whose:?}");
        found
    }

    /// An object with what its texts stand for.
    fn put(&self, object: &Value, namespace: &str) -> Value {
        let text = self.text(&object.to_string(), namespace);
        serde_json::from_str(&text).expect("JSON")
    }

    fn text(&self, text: &str, namespace: &str) -> String {
        let here = self.watched.here(namespace);
        let uid = here.set().and_then(|set| set["metadata"]["uid"].as_str());
        let mut text = text.replace("$UID", uid.unwrap_or("no-uid"));
        for (at, hash) in here.hashes().iter().enumerate() {
            text = text.replace(&format!("$HASH-{}", at + 1), hash);
        }
        text.replace("$NS", namespace)
    }
}
