//! The relayer's telemetry: families and samples by their names in the relayer.

use crate::contract::{MetricFamily, NotReady, Sample};
use crate::host::Host;

/// Returns a family by its name without the prefix that the relayer may be configured to
/// give to all names, or `None` if the relayer does not export it.
///
/// The response depends on the names of all families if the relayer uses a prefix, and
/// else on this family only.
///
/// # Errors
/// Returns an error if the telemetry is not read, until it is first known, and when it is
/// too old.
pub fn relayer_metric<H: Host>(host: &H, name: &str) -> Result<Option<MetricFamily>, NotReady> {
    if let Some(family) = host.metric_family(name)? {
        return Ok(Some(family));
    }
    let has_name =
        |full: &String| full.strip_suffix(name).is_some_and(|prefix| prefix.ends_with('_'));
    match host.metric_families()?.iter().find(|full| has_name(full)) {
        Some(full) => host.metric_family(full),
        None => Ok(None),
    }
}

impl Sample {
    /// Returns the value of a label; empty if the sample does not have it, which means the
    /// same to Prometheus.
    #[must_use]
    pub fn label(&self, name: &str) -> &str {
        let label = self.labels.iter().find(|label| label.name == name);
        label.map_or("", |label| &label.value)
    }
}

#[cfg(test)]
mod tests {
    use super::relayer_metric;
    use crate::testing::FakeHost;

    #[test]
    fn a_family_is_found_with_any_prefix() {
        let value = |host: &FakeHost, name: &str| {
            relayer_metric(host, name).unwrap().map(|family| family.samples[0].value)
        };
        let host = FakeHost::new()
            .with_metric("hermes_backlog_size", &[("chain", "a")], 3.0)
            .with_metric("size", &[], 4.0);
        assert_eq!(value(&host, "backlog_size"), Some(3.0));
        assert_eq!(value(&host, "size"), Some(4.0));
        assert_eq!(value(&host, "log_size"), None);
        assert!(relayer_metric(&FakeHost::new(), "size").is_err());
        let family = relayer_metric(&host, "backlog_size").unwrap().unwrap();
        assert_eq!((family.samples[0].label("chain"), family.samples[0].label("port")), ("a", ""));
    }
}
