//! The ConfigMaps of the dashboards; no cluster.

use std::collections::BTreeSet;
use std::fs;

use carillon_testbed::carillon::{NAMESPACE, workspace};
use serde_json::{Value, json};

use super::render::{find, kinds, render};

fn config_maps(values: &[&str]) -> Vec<Value> {
    let mut all = vec!["--set=metrics.grafanaDashboards.enabled=true"];
    all.extend(values);
    let objects = render(&all).into_iter();
    objects
        .filter(|object| object["kind"] == "ConfigMap")
        .collect()
}

#[test]
fn each_dashboard_is_a_config_map_that_the_sidecar_of_grafana_finds() {
    assert!(!kinds(&render(&[])).contains("ConfigMap"), "off by default");
    let maps = config_maps(&[]);
    let files = fs::read_dir(workspace().join("charts/carillon/files/dashboards")).unwrap();
    let mut names = BTreeSet::new();
    for file in files {
        let path = file.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap();
        let map = find(&maps, "ConfigMap", &format!("carillon-{name}-dashboard"));
        let metadata = &map["metadata"];
        assert_eq!(metadata["namespace"], NAMESPACE);
        assert_eq!(metadata["labels"]["grafana_dashboard"], "1");
        assert_eq!(metadata["annotations"], Value::Null);
        let data = map["data"].as_object().unwrap();
        let (file, text) = data.iter().next().unwrap();
        assert_eq!(
            (data.len(), file.as_str()),
            (1, &*format!("carillon-{name}.json"))
        );
        let read = |text: &str| -> Value { serde_json::from_str(text).unwrap() };
        let plain = read(&fs::read_to_string(&path).unwrap());
        assert_eq!(read(text.as_str().unwrap()), plain, "{name}");
        names.insert(file.clone());
    }
    assert_eq!(
        names.len(),
        maps.len(),
        "a file of a dashboard is of no other one"
    );
}

#[test]
fn dashboards_go_into_another_namespace_and_a_folder_with_other_labels() {
    let maps = config_maps(&[
        "--set=metrics.grafanaDashboards.namespace=monitoring",
        "--set=metrics.grafanaDashboards.folder=Node jobs",
        "--set=metrics.grafanaDashboards.annotations.note=one",
        "--set=metrics.grafanaDashboards.labels.grafana_dashboard=null",
        "--set=metrics.grafanaDashboards.labels.look=here",
        "--set=commonLabels.team=platform",
    ]);
    assert_eq!(maps.len(), 4);
    for map in maps {
        let metadata = &map["metadata"];
        assert_eq!(metadata["namespace"], "monitoring");
        let expected = json!({"grafana_folder": "Node jobs", "note": "one"});
        assert_eq!(metadata["annotations"], expected);
        let labels = &metadata["labels"];
        assert_eq!(labels["grafana_dashboard"], Value::Null, "{labels}");
        assert_eq!(
            (&labels["look"], &labels["team"]),
            (&json!("here"), &json!("platform"))
        );
    }
}
