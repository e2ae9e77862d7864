//! Readings of a server, for the tests of `top`.

use std::sync::OnceLock;
use std::time::{Duration, Instant, UNIX_EPOCH};

use relayer_rest_server::control::Status;
use serde_json::{Value, json};

use super::sample::Reading;

/// The time of the first reading.
static START: OnceLock<Instant> = OnceLock::new();

/// Returns the status of a server with mounts of these paths and names.
pub(super) fn status(pid: u32, mounts: &[(&str, &str)]) -> Status {
    let mount = |(path, name): &(&str, &str)| {
        json!({
            "name": name,
            "mount": path,
            "dialect": "0.7",
            "state": "active",
            "module": {
                "digest": "0123456789abcdef",
                "since": 0,
                "runs": 0,
                "failures":
                    { "trapped": 0, "timed_out": 0, "invalid": 0, "overloaded": 0, "host": 0 },
                "resets": { "passed": 0, "failed": 0 },
            },
            "circuit": null,
            "previous": null,
            "candidate": null,
            "quarantined": [],
            "cache_bytes": 0,
        })
    };
    let status = json!({
        "version": "1.2.3",
        "pid": pid,
        "ready": true,
        "not_ready": null,
        "stale_since": null,
        "sources": [{
            "kind": "upstream",
            "location": "http://127.0.0.1:3000",
            "last_response": null,
            "failure": null,
        }],
        "connections": { "open": 1, "accepted": 2, "refused": 3 },
        "mounts": mounts.iter().map(mount).collect::<Vec<Value>>(),
    });
    serde_json::from_value(status).unwrap()
}

/// Returns a reading after this number of seconds.
pub(super) fn reading(status: Status, metrics: &str, seconds: u64) -> Reading {
    let after = Duration::from_secs(seconds);
    let start = *START.get_or_init(Instant::now);
    let time = UNIX_EPOCH + Duration::from_secs(1000) + after;
    Reading::new(status, metrics, start + after, time).unwrap()
}
