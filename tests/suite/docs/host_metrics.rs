//! Do docs/grafana.json and docs/alerts.yml name metrics of the host that exist?

use std::collections::BTreeSet;

use relayer_rest_host::control::metrics::{Family, FamilyKind, families};
use relayer_rest_tests::cargo::root;
use relayer_rest_tests::grafana::queries;

/// Returns the names of the samples of a family.
fn samples(family: &Family) -> Vec<String> {
    let suffixes: &[&str] = match family.kind {
        FamilyKind::Counter => &["_total"],
        FamilyKind::Gauge => &[""],
        FamilyKind::Histogram => &["_bucket", "_sum", "_count"],
    };
    suffixes.iter().map(|suffix| format!("{}{suffix}", family.name)).collect()
}

/// Returns the words of a query that are names, without the texts in quotes.
fn names(query: &str) -> BTreeSet<&str> {
    let code = query.split('"').step_by(2);
    code.flat_map(|code| code.split(|c: char| !c.is_ascii_alphanumeric() && c != '_')).collect()
}

/// Returns the names of the samples of all families.
fn all_samples() -> BTreeSet<String> {
    families().flat_map(samples).collect()
}

/// Returns the words in the selectors of a query, and after `by`.
fn labels(query: &str) -> BTreeSet<&str> {
    let mut labels = BTreeSet::new();
    for (start, end) in [("{", '}'), ("by (", ')')] {
        for rest in query.split(start).skip(1) {
            labels.extend(names(rest.split(end).next().unwrap()));
        }
    }
    labels.remove("");
    labels
}

#[test]
fn each_query_names_metrics_and_labels_that_exist() {
    let families: Vec<_> = families().collect();
    let mut used = BTreeSet::new();
    for query in queries() {
        let words = names(&query);
        let found: Vec<_> = families
            .iter()
            .filter(|family| samples(family).iter().any(|name| words.contains(name.as_str())))
            .collect();
        assert!(!found.is_empty(), "no metric of the host: {query}");
        let prefixed = |word: &&&str| word.starts_with("relayer_") || word.starts_with("process_");
        for word in words.iter().filter(prefixed) {
            assert!(all_samples().contains(*word), "{word}: {query}");
        }
        let known = found.iter().flat_map(|family| family.labels).copied();
        // Prometheus adds the first, and histograms have the second.
        let known: BTreeSet<_> = known.chain(["instance", "le"]).collect();
        for label in labels(&query) {
            assert!(known.contains(label), "{label}: {query}");
        }
        used.extend(found.iter().map(|family| family.name));
    }
    // All of the others are shown.
    let unused: Vec<_> =
        families.iter().map(|family| family.name).filter(|name| !used.contains(name)).collect();
    assert_eq!(
        unused,
        [
            "relayer_rest_module_activated_timestamp_seconds",
            "relayer_rest_quarantined_modules",
            "relayer_rest_draining",
            "relayer_rest_capsules_written",
            "relayer_rest_capsules_dropped",
            "relayer_rest_snapshot_changed_timestamp_seconds",
            "process_virtual_memory_bytes",
            "process_start_time_seconds",
        ]
    );
}

#[test]
fn each_alert_names_metrics_that_exist() {
    let rules = std::fs::read_to_string(root().join("docs/alerts.yml")).unwrap();
    let words = rules.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let named: BTreeSet<_> = words.filter(|word| word.starts_with("relayer_rest_")).collect();
    assert!(named.len() > 4, "{named:?}");
    for word in named {
        assert!(all_samples().contains(word), "{word}");
    }
}
