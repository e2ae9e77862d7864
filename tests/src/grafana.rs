//! The queries of the Grafana dashboard.

use serde_json::Value;

use crate::cargo::root;

/// Returns the queries of all panels in `docs/grafana.json`.
#[must_use]
pub fn queries() -> Vec<String> {
    let text = std::fs::read_to_string(root().join("docs/grafana.json")).unwrap();
    let dashboard: Value = serde_json::from_str(&text).unwrap();
    let panels = dashboard["panels"].as_array().unwrap().iter();
    let targets = panels.filter_map(|panel| panel["targets"].as_array()).flatten();
    let queries: Vec<_> =
        targets.map(|target| target["expr"].as_str().unwrap().to_owned()).collect();
    assert!(!queries.is_empty());
    queries
}
