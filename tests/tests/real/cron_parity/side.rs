//! One of the two clusters, and what is done on it.

use std::thread::sleep;
use std::time::Duration;

use carillon_testbed::carillon::{apply_crds, install_chart};
use carillon_testbed::{Cluster, Config, Operator, Options};
use carillon_tests::api::Api;
use http::Method;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::scenario::{Deed, Scenario};
use super::{seconds_since, sleep_until};
use crate::parity::below;

/// kube-controller-manager's controller for CronJobs.
const THEIR_CONTROLLER: &str = "system:serviceaccount:kube-system:cronjob-controller";
/// What is done later than so many seconds after its time may fall into another minute.
const LATE: i64 = 12;

/// A cluster, and who serves CronJobs there.
pub(crate) struct Side {
    /// The cluster.
    pub(crate) cluster: Cluster,
    /// Its client.
    pub(crate) api: Api,
    /// The user of the API who serves CronJobs.
    pub(crate) server: String,
    _operator: Option<Operator>,
}

impl Side {
    /// kube-controller-manager serves them.
    pub(crate) fn theirs() -> Self {
        let cluster = Cluster::start(Config::new("parity-a").with_nodes(4)).expect("a cluster");
        Self {
            api: Api::of(&cluster),
            cluster,
            server: THEIR_CONTROLLER.to_owned(),
            _operator: None,
        }
    }

    /// We serve them, with the rights of the chart.
    pub(crate) fn ours() -> Self {
        let mut config = Config::new("parity-b").with_nodes(4);
        config.controller_manager_args = vec!["--controllers=*,-cronjob-controller".to_owned()];
        let cluster = Cluster::start(config).expect("a cluster");
        apply_crds(&cluster).expect("our CRDs");
        let rights = [
            "--set",
            "serveNative={cronjobs}",
            "--set",
            "crds.enabled=false",
        ];
        let kubeconfig = install_chart(&cluster, &rights).expect("the chart");
        let options = Options::new("operator")
            .kubeconfig(kubeconfig)
            .arg("--serve-native=cronjobs")
            .arg("--lease-namespace=carillon-system");
        let operator = Operator::start(&cluster, &options).expect("an operator");
        Self {
            api: Api::of(&cluster),
            cluster,
            server: "system:serviceaccount:carillon-system:carillon".to_owned(),
            _operator: Some(operator),
        }
    }

    /// Makes the namespaces, and waits until Jobs can have pods in them.
    pub(crate) fn prepare(&self, scenarios: &[Scenario]) {
        for scenario in scenarios {
            let namespace = json!({"apiVersion": "v1", "kind": "Namespace",
                "metadata": {"name": scenario.name}});
            self.api.create("/api/v1/namespaces", &namespace);
        }
        let accounts = || {
            let accounts = self.api.list("/api/v1/serviceaccounts");
            let namespaces: Vec<Value> = accounts
                .into_iter()
                .map(|account| account["metadata"]["namespace"].clone())
                .collect();
            scenarios
                .iter()
                .all(|scenario| namespaces.contains(&json!(scenario.name)))
        };
        while !accounts() {
            sleep(Duration::from_millis(100));
        }
    }

    /// Creates all objects, and then does what is to be done, each at its time.
    pub(crate) fn play(&self, scenarios: &[Scenario], start: Timestamp) {
        for scenario in scenarios {
            for (plural, object) in &scenario.objects {
                let mut object = object.clone();
                put_times(&mut object, start);
                self.api.create(&below(scenario.name, plural), &object);
            }
        }
        let mut acts: Vec<_> = scenarios
            .iter()
            .flat_map(|scenario| scenario.acts.iter().map(move |act| (scenario.name, act)))
            .collect();
        acts.sort_by_key(|(_, (second, _))| *second);
        for (namespace, (second, deed)) in acts {
            sleep_until(start, *second);
            self.act(namespace, deed, start);
            let late = seconds_since(start) - second;
            assert!(
                late <= LATE,
                "{namespace}: {late} s late; this machine is too busy"
            );
        }
    }

    fn act(&self, namespace: &str, deed: &Deed, start: Timestamp) {
        match deed {
            Deed::Request(method, path, body) => {
                let mut body = body.clone();
                put_times(&mut body, start);
                let path = below(namespace, path);
                let sent = self.api.send(method.clone(), &path, &body);
                sent.unwrap_or_else(|refused| panic!("{method} {path}: {refused:?}"));
            }
            Deed::DeleteFirstChild(cron) => {
                let name = format!("{cron}-{}", start.as_second() / 60 + 1);
                let path = below(namespace, &format!("apis/batch/v1/jobs/{name}"));
                let options = json!({"kind": "DeleteOptions", "apiVersion": "v1",
                    "propagationPolicy": "Background"});
                let sent = self.api.send(Method::DELETE, &path, &options);
                sent.unwrap_or_else(|refused| panic!("DELETE {path}: {refused:?}"));
            }
            Deed::Kubectl(args) => {
                let args = ["-n", namespace].into_iter().chain(args.iter().copied());
                self.cluster.kubectl_ok(args).expect("kubectl");
            }
            Deed::Store(key, fields) => {
                let edited = self.cluster.edit_stored(key, |object| {
                    for (pointer, value) in fields {
                        *object.pointer_mut(pointer).expect(pointer) = value.clone();
                    }
                });
                edited.unwrap_or_else(|error| panic!("{key}: {error:#}"));
            }
        }
    }
}

/// Replaces texts like `T+90m` and `c-T+1`: a time, and a minute in a name, from the start.
fn put_times(value: &mut Value, start: Timestamp) {
    match value {
        Value::String(text) => {
            if let Some(minutes) = text
                .strip_prefix('T')
                .and_then(|text| text.strip_suffix('m'))
            {
                let minutes: i64 = minutes.parse().expect("minutes");
                let time =
                    Timestamp::from_second(start.as_second() + 60 * minutes).expect("a time");
                *text = time.to_string();
            } else if let Some((name, minute)) = text.split_once("-T+") {
                let minute: i64 = minute.parse().expect("a minute");
                *text = format!("{name}-{}", start.as_second() / 60 + minute);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| put_times(item, start)),
        Value::Object(fields) => fields
            .values_mut()
            .for_each(|field| put_times(field, start)),
        _ => {}
    }
}
