//! The simulated API server answers as a real one does.
//!
//! Random requests go to both, and what comes back is compared. A difference is a mistake of the
//! simulation.

mod compare;
mod requests;
mod sides;

use carillon_testbed::carillon::apply_crds;
use carillon_testbed::{Cluster, Config};
use fastrand::Rng;
use serde_json::{Value, json};

use self::compare::Twins;
use self::requests::Probe;
use self::sides::{Real, Sides, Simulated};

const NAMESPACE: &str = "conformance";
const SEQUENCES: u64 = 60;
const STEPS: usize = 40;

/// Nobody but the requests changes anything here: no controller, no scheduler, no kubelet.
fn quiet_cluster() -> Cluster {
    let mut config = Config::new("conformance");
    config.controller_manager = false;
    config.scheduler = false;
    config.kwok = false;
    let cluster = Cluster::start(config).expect("a cluster");
    apply_crds(&cluster).expect("our CRDs");
    cluster
        .kubectl_ok(["create", "namespace", NAMESPACE])
        .unwrap();
    // Without it no pod is admitted; elsewhere a controller creates it.
    let account = ["create", "serviceaccount", "default", "-n", NAMESPACE];
    cluster.kubectl_ok(account).unwrap();
    cluster
}

#[test]
fn the_simulated_api_server_answers_as_a_real_one_does() {
    let cluster = quiet_cluster();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let differences = runtime.block_on(async {
        let simulated = Simulated::new();
        simulated.create_namespace(NAMESPACE);
        let sides = Sides {
            real: Real::connect(&cluster.kubeconfig()).await,
            simulated,
        };
        let mut differences = Vec::new();
        for seed in 0..SEQUENCES {
            if let Err(difference) = sequence(&sides, seed).await {
                differences.push(format!("seed {seed}: {difference}"));
            }
        }
        differences
    });
    assert!(
        differences.is_empty(),
        "{} of {SEQUENCES} sequences differ:\n{}",
        differences.len(),
        differences.join("\n")
    );
}

/// Sends one sequence of requests; what differs first.
async fn sequence(sides: &Sides, seed: u64) -> Result<(), String> {
    let mut rng = Rng::with_seed(seed);
    let mut twins = Twins::default();
    let begin = sides.revisions(NAMESPACE).await;
    let mut said = Vec::new();
    for step in 0..STEPS {
        let probe = Probe::random(&mut rng, seed, step);
        // What both know of the object: its uid and its versions.
        let target = probe.target();
        let mut state = Value::Null;
        for request in [target.as_ref(), Some(&probe), target.as_ref()]
            .into_iter()
            .flatten()
        {
            let replies = sides.ask(request, &twins).await;
            said.push(request.to_string());
            twins.compare(request, &replies).map_err(|why| {
                let last = said.len().saturating_sub(12);
                format!(
                    "step {step}: {why}\n  requests: {}\n  before: {state}\n  real:      {}\n  simulated: {}\n",
                    said[last..].join("\n            "),
                    replies.real,
                    replies.simulated
                )
            })?;
            state = json!({"real": replies.real.body, "simulated": replies.simulated.body});
        }
    }
    for kind in requests::KINDS {
        let events = sides.watch(kind.collection(), &begin, seed).await;
        twins
            .compare_events(&events)
            .map_err(|why| format!("watch of {}: {why}", kind.collection()))?;
    }
    Ok(())
}
