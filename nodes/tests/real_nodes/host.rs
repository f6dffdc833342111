//! Pods that change the node they run on, as patches do.

use serde_json::json;

use crate::lab::{broadcast, pod, shared};

#[test]
fn a_patch_in_the_nodes_own_namespaces_changes_the_node_and_no_other() {
    let lab = shared();
    let bench = lab.bench("patch");
    // In all namespaces of the node's first process, as who patches a kernel does it.
    let script = "nsenter -t 1 -m -u -n -i -- sh -c \
        'echo $(hostname) $(cat /proc/sys/kernel/random/boot_id) >/run/patched; ip -4 -o addr show eth0' \
        >/ledger/patch && nsenter -t 1 -m -- cat /run/patched >>/ledger/patch";
    let mut spec = pod(script);
    spec["hostPID"] = json!(true);
    spec["hostNetwork"] = json!(true);
    spec["containers"][0]["securityContext"] = json!({"privileged": true});
    let more =
        json!({"template": {"spec": spec}, "parallelism": 1, "executionPolicy": "AtMostOnce"});
    bench.apply(&broadcast(&bench, "patch", "", &more));
    bench.wait("patch", "Complete");
    assert_eq!(bench.get("patch")["status"]["succeeded"], 3);
    for (name, lines) in bench.nodes.iter().zip(lab.ledgers("patch")) {
        let node = lab.get(&["node", name]);
        let address = node["status"]["addresses"][0]["address"].as_str().unwrap();
        let boot = node["status"]["nodeInfo"]["bootID"].as_str().unwrap();
        assert!(lines[0].contains(address), "{lines:?}");
        assert_eq!(lines[1], format!("{name} {boot}"));
    }
}
