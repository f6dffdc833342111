//! The same faults that make kube-controller-manager put a second pod on a node (kubernetes issue 54096) make us put
//! none: the name of a pod is the lock.

use carillon_operator::controllers::Rules;
use carillon_proof::zoo::{self, Mutant, Zoo};

#[test]
fn a_new_leader_whose_cache_lags_makes_second_pods_with_random_names_and_none_with_ours() {
    let mut all = zoo::all().into_iter();
    let random = all.find(|mutant| mutant.name == "pods of a DaemonSet have random names");
    let random = random.expect("it is in the zoo");
    let ours = Mutant {
        rules: Rules::default(),
        ..random.clone()
    };
    let mut zoo = Zoo::default();
    let mut second_pods = |mutant: &Mutant| {
        let broken = mutant.cases.iter().filter(|case| {
            let caught = zoo.watch(mutant, case).expect("it begins");
            caught.is_some_and(|caught| caught.failure.broken.contains(&"S1"))
        });
        broken.count()
    };
    assert!(second_pods(&random) > 0);
    assert_eq!(second_pods(&ours), 0);
}
