//! Do the rules for Prometheus fire when they must, and only then?

use std::collections::BTreeSet;
use std::process::Command;

use relayer_rest_tests::cargo::root;

/// Returns the names after this key.
fn names(file: &str, key: &str) -> BTreeSet<String> {
    let text = std::fs::read_to_string(root().join(file)).unwrap();
    let name = |part: &str| part.split([',', ' ', '\n', '}']).next().unwrap().to_owned();
    text.split(key).skip(1).map(name).collect()
}

#[test]
#[ignore = "needs promtool: apt install prometheus"]
fn the_alerts_pass_their_tests() {
    let output = Command::new("promtool")
        .args(["test", "rules", "tests/outside/alerts.yml"])
        .current_dir(root())
        .output()
        .expect("promtool is installed");
    let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    assert!(output.status.success(), "{text}");
}

#[test]
fn each_alert_has_a_test() {
    let alerts = names("docs/alerts.yml", "alert: ");
    assert!(!alerts.is_empty());
    assert_eq!(names("tests/outside/alerts.yml", "alertname: "), alerts);
}
