//! Two releases side by side: each serves its own namespace, with rights and a lease of its own. One
//! of them has the CRDs.

use std::collections::BTreeSet;

use anyhow::Result;
use carillon_testbed::{Cluster, Config, Fate, Operator, Options};
use serde_json::{Value, json};

use super::render::{chart, find, render_as, said, texts};
use super::story::{get, helm_in, helm_ok, stop};
use super::work::{job, until};

/// Each with its namespace, and the namespace that it serves.
const RELEASES: [(&str, &str); 2] = [("carillon-a", "team-a"), ("carillon-b", "team-b")];
const FOREIGN: &str = "cannot be imported into the current release";
const WITHOUT_CRDS: &str = "--set=crds.enabled=false";

fn serves(namespace: &str) -> String {
    format!("--set=watchNamespaces={{{namespace}}}")
}

#[test]
fn two_releases_share_no_object_and_no_lease_in_two_namespaces_or_in_one() {
    for namespaces in [["carillon-a", "carillon-b"], ["carillon-system"; 2]] {
        let [ours, theirs] = [0, 1].map(|at| {
            let (release, served) = RELEASES[at];
            render_as(release, namespaces[at], &[&serves(served)])
        });
        let shared: Vec<_> = names(&ours)
            .intersection(&names(&theirs))
            .cloned()
            .collect();
        assert!(shared.is_empty(), "{namespaces:?}: {shared:?}");
        for (objects, (release, served)) in [&ours, &theirs].into_iter().zip(RELEASES) {
            let deployment = find(objects, "Deployment", release);
            let args = texts(&deployment["spec"]["template"]["spec"]["containers"][0]["args"]);
            for arg in [
                format!("--lease-name={release}"),
                format!("--namespaces={served}"),
            ] {
                assert!(args.contains(&arg.as_str()), "no {arg} in {args:?}");
            }
            let selector = &deployment["spec"]["selector"]["matchLabels"];
            assert_eq!(selector["app.kubernetes.io/instance"], release);
        }
        // Those for people grant the same; which one is bound does not matter.
        for role in ["view", "edit", "view-nodes"] {
            let [ours, theirs] =
                [(&ours, "carillon-a"), (&theirs, "carillon-b")].map(|(objects, release)| {
                    find(objects, "ClusterRole", &format!("{release}-{role}"))["rules"].clone()
                });
            assert_eq!(ours, theirs, "{role}");
        }
    }
}

/// Kind, namespace and name of each object.
fn names(objects: &[Value]) -> BTreeSet<[String; 3]> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let name = |object: &Value| {
        let metadata = &object["metadata"];
        [&object["kind"], &metadata["namespace"], &metadata["name"]].map(text)
    };
    objects.iter().map(name).collect()
}

#[test]
fn two_releases_serve_their_namespaces_and_one_goes_on_when_the_other_is_gone() {
    live().unwrap();
}

fn live() -> Result<()> {
    let cluster = Cluster::start(Config::new("side-by-side").with_nodes(2))?;
    for (release, served) in RELEASES {
        cluster.kubectl_ok(["create", "namespace", release])?;
        cluster.kubectl_ok(["create", "namespace", served])?;
    }
    install(&cluster)?;
    each_may_only_what_it_serves(&cluster)?;

    let [(first, ours), (second, theirs)] = RELEASES;
    let operators = [operate(&cluster, first)?, operate(&cluster, second)?];
    run(&cluster, "first", ours)?;
    run(&cluster, "first", theirs)?;
    let mut holders = BTreeSet::new();
    for (release, _) in RELEASES {
        let lease = get(&cluster, "lease", release, &[release])?;
        let holder = lease["spec"]["holderIdentity"].as_str();
        holders.insert(holder.unwrap_or_default().to_owned());
    }
    assert!(holders.len() == 2 && !holders.contains(""), "{holders:?}");
    replace_pods(&cluster, second)?;

    // The one with the CRDs goes. They stay, and the other one takes them.
    stop(&operators[0])?;
    helm_ok(&cluster, first, &["uninstall", first])?;
    run(&cluster, "second", theirs)?;
    get(&cluster, "broadcastjobs.carillon.dev", ours, &["first"])?;
    assert_eq!(lease_in_crds(&cluster)?, "carillon-a/carillon-a");
    let chart = chart();
    let mut take = vec!["upgrade", second, &chart, "--reset-then-reuse-values"];
    take.extend(["--set=crds.enabled=true", "--take-ownership"]);
    helm_ok(&cluster, second, &take)?;
    assert_eq!(lease_in_crds(&cluster)?, "carillon-b/carillon-b");
    run(&cluster, "third", theirs)?;
    stop(&operators[1])?;
    Ok(())
}

/// Helm refuses what another release has: the CRDs, and by a name that is taken the ClusterRoles.
fn install(cluster: &Cluster) -> Result<()> {
    let chart = chart();
    let [(first, ours), (second, theirs)] = RELEASES;
    let (ours, theirs) = (serves(ours), serves(theirs));
    helm_ok(cluster, first, &["install", first, &chart, &ours])?;
    for (release, further, kind) in [
        (
            second,
            "--set=crds.enabled=true",
            "CustomResourceDefinition",
        ),
        (first, WITHOUT_CRDS, "ClusterRole"),
    ] {
        let refused = helm_in(
            cluster,
            second,
            &["install", release, &chart, &theirs, further],
        )?;
        let text = said(&refused);
        assert!(!refused.status.success(), "{release} {further}: {text}");
        assert!(text.contains(FOREIGN) && text.contains(kind), "{text}");
    }
    let further = ["install", second, &chart, &theirs, WITHOUT_CRDS];
    helm_ok(cluster, second, &further)?;
    // What is misspelt takes no permission away.
    let misspelt = serves("team-bb");
    let upgrade = [
        "upgrade",
        second,
        &chart,
        "--reset-then-reuse-values",
        &misspelt,
    ];
    let refused = helm_in(cluster, second, &upgrade)?;
    let text = said(&refused);
    assert!(!refused.status.success(), "{text}");
    assert!(text.contains("there is no namespace team-bb"), "{text}");
    Ok(())
}

fn each_may_only_what_it_serves(cluster: &Cluster) -> Result<()> {
    let may = |release: &str, namespace: &str| {
        let account = format!("--as=system:serviceaccount:{release}:{release}");
        let create = ["auth", "can-i", "create", "pods", &account, "-n", namespace];
        Ok::<_, anyhow::Error>(cluster.kubectl(create)?.status.success())
    };
    for (release, served) in RELEASES {
        until(cluster, "what was granted holds", || may(release, served))?;
    }
    for (release, served) in RELEASES {
        for (_, namespace) in RELEASES {
            let expected = namespace == served;
            assert_eq!(
                may(release, namespace)?,
                expected,
                "{release} in {namespace}"
            );
        }
    }
    Ok(())
}

/// The API server accepts each strategy after the other one, with the default of the chart below it.
fn replace_pods(cluster: &Cluster, release: &str) -> Result<()> {
    let chart = chart();
    for strategy in ["Recreate", "RollingUpdate"] {
        let set = format!("--set=strategy.type={strategy}");
        let upgrade = [
            "upgrade",
            release,
            &chart,
            "--reset-then-reuse-values",
            &set,
        ];
        helm_ok(cluster, release, &upgrade)?;
        let deployment = get(cluster, "deployment", release, &[release])?;
        let found = &deployment["spec"]["strategy"];
        assert_eq!(found["type"], strategy, "{found}");
        assert_eq!(
            found["rollingUpdate"].is_null(),
            strategy == "Recreate",
            "{found}"
        );
    }
    Ok(())
}

/// An operator with the account and the arguments of a release.
fn operate(cluster: &Cluster, release: &str) -> Result<Operator> {
    let options = Options::of_release(cluster, (release, release), release)?;
    Operator::start(cluster, &options)
}

/// A BroadcastJob from its creation to its end.
fn run(cluster: &Cluster, name: &str, namespace: &str) -> Result<()> {
    let object = job(name, namespace, &json!({}), &Fate::default());
    cluster.kubectl_stdin(["create", "-f", "-"], &object.to_string())?;
    until(cluster, &format!("{namespace}/{name} ends"), || {
        let object = get(cluster, "broadcastjobs.carillon.dev", namespace, &[name])?;
        Ok(object["status"]["phase"] == "completed")
    })
}

/// The lease that `kubectl carillon uninstall` asks unless told otherwise.
fn lease_in_crds(cluster: &Cluster) -> Result<String> {
    let lease = r"jsonpath={.metadata.annotations.carillon\.dev/lease}";
    cluster.kubectl_ok(["get", "crd", "broadcastjobs.carillon.dev", "-o", lease])
}
