//! The simulated API server answers as a real one does.
//!
//! Random requests go to both, and what comes back is compared. A difference is a mistake of the
//! simulation.

mod compare;
mod kinds;
mod requests;
mod sides;

use carillon_testbed::carillon::apply_crds;
use carillon_testbed::{Cluster, Config};
use fastrand::Rng;

use self::compare::Twins;
use self::kinds::{KINDS, Kind};
use self::requests::Probe;
use self::sides::{Real, Sides, Simulated};

const NAMESPACE: &str = "conformance";
const SEQUENCES: u64 = 80;
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
        let mut twins = Twins::default();
        let mut differences = Vec::new();
        let mut begin = sides.revisions(NAMESPACE).await;
        for seed in 0..SEQUENCES {
            if let Err(difference) = sequence(&sides, &mut twins, seed).await {
                differences.push(format!("seed {seed}: {difference}"));
            }
            // The real one remembers about a hundred events of a kind.
            if seed % 20 == 19 && differences.is_empty() {
                differences = watches(&sides, &mut twins, &begin).await;
                begin = sides.revisions(NAMESPACE).await;
            }
        }
        differences.extend(odd_revisions(&sides).await);
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
async fn sequence(sides: &Sides, twins: &mut Twins, seed: u64) -> Result<(), String> {
    let mut rng = Rng::with_seed(seed);
    let mut said = Vec::new();
    for step in 0..STEPS {
        let probe = Probe::random(&mut rng, seed, step);
        // What became of the object is what the next request about it builds on.
        for request in [Some(&probe), probe.target().as_ref()]
            .into_iter()
            .flatten()
        {
            let replies = sides.ask(request, twins).await;
            said.push(request.to_string());
            twins.compare(request, &replies).map_err(|why| {
                let last = said.len().saturating_sub(12);
                format!(
                    "step {step}: {why}\n  requests: {}\n  real:      {}\n  simulated: {}\n",
                    said[last..].join("\n            "),
                    replies.real,
                    replies.simulated
                )
            })?;
        }
    }
    Ok(())
}

/// Lists and watches from revisions that are odd in some way.
async fn odd_revisions(sides: &Sides) -> Vec<String> {
    let collection = Kind::Lease.collection();
    let mut differences = Vec::new();
    for query in [
        "watch=true&timeoutSeconds=1&resourceVersion=0&labelSelector=absent",
        "watch=true&timeoutSeconds=1&labelSelector=absent",
        "resourceVersion=900000000",
        "resourceVersion=much",
        "resourceVersion=0&labelSelector=absent",
        "limit=much",
        "continue=much",
    ] {
        let (real, simulated) = sides.get(&format!("{collection}?{query}")).await;
        if real != simulated {
            differences.push(format!(
                "{query}:\n  real:      {real}\n  simulated: {simulated}"
            ));
        }
    }
    differences
}

/// Watches what was since `begin`, through selectors that objects enter and leave.
async fn watches(sides: &Sides, twins: &mut Twins, begin: &(String, String)) -> Vec<String> {
    let mut differences = Vec::new();
    for selector in ["", "x", "x%3D1", "step"] {
        let watch = |kind: Kind| sides.watch(kind.collection(), begin, selector);
        let [pods, broadcast_jobs, slices, leases, jobs, cron_jobs] = KINDS.map(watch);
        let events = tokio::join!(pods, broadcast_jobs, slices, leases, jobs, cron_jobs);
        for (kind, events) in KINDS.iter().zip(<[_; 6]>::from(events)) {
            if let Err(why) = twins.compare_events(&events) {
                differences.push(format!("watch of {kind:?} by {selector:?}: {why}"));
            }
        }
    }
    differences
}
