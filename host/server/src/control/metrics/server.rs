//! The metrics of the server: connections, sources and snapshots.

use std::time::{SystemTime, UNIX_EPOCH};

use relayer_rest_state::Snapshot;

use super::family::{Family, FamilyKind, Samples, define_families};
use crate::capsules::CapsuleTally;
use crate::http::{ConnectionStatus, ConnectionTally, LiveStatus};

define_families! {
    CONNECTIONS = Gauge "relayer_rest_connections" [],
        "Connections of clients that are open now";
    ACCEPTED = Counter "relayer_rest_connections_accepted" [],
        "Connections that were accepted";
    REFUSED = Counter "relayer_rest_connections_refused" [],
        "Connections that were refused for lack of room";
    EVICTED = Counter "relayer_rest_connections_evicted" [],
        "Connections that were closed to make room for others";
    REFUSED_REQUESTS = Counter "relayer_rest_refused_requests" ["name"],
        "Requests that the host has refused before a module handled them, by the name of the error";
    UNSENT = Gauge "relayer_rest_unsent_bytes" [],
        "Bytes of responses that clients have not taken yet";
    DRAINING = Gauge "relayer_rest_draining" [],
        "Whether the server shuts down";
    LIVE_WAITERS = Gauge "relayer_rest_live_waiters" [],
        "Clients that wait for the next version of a response";
    LIVE_ENTRIES = Gauge "relayer_rest_live_entries" [],
        "Different responses that clients wait for";
    LIVE_BYTES = Gauge "relayer_rest_live_bytes" [],
        "Bytes of the versions of these responses";
    LIVE_RUNS = Counter "relayer_rest_live_runs" [],
        "Runs of modules for waiting clients";
    LIVE_UNCHANGED = Counter "relayer_rest_live_runs_without_change" [],
        "Runs of modules for waiting clients whose response was the one before";
    LIVE_WAKEUPS = Counter "relayer_rest_live_wakeups" [],
        "Versions that waiting clients were woken for";
    LIVE_REFUSED = Counter "relayer_rest_live_refused" [],
        "Requests that could not wait because of a limit in [live]";
    CAPSULES_WRITTEN = Counter "relayer_rest_capsules_written" [],
        "Capsules of failed requests that were written";
    CAPSULES_DROPPED = Counter "relayer_rest_capsules_dropped" [],
        "Failed requests without a capsule: too many at once, too large, or the file could not be written";
    STATE_READY = Gauge "relayer_rest_state_ready" [],
        "Whether the state of the relayer is known";
    GENERATION = Counter "relayer_rest_snapshot_publications" [],
        "Publications of the state, changed or not";
    CHANGED = Gauge "relayer_rest_snapshot_changed_timestamp_seconds" [],
        "Unix time of the last change of the state";
    CONFIRMED = Gauge "relayer_rest_snapshot_confirmed" [],
        "Whether the state is confirmed: 0 while the relayer does not respond";
    FLEET_EPOCH = Gauge "relayer_rest_fleet_epoch" [],
        "Tenure of the writer of the fleet that published the state; 0 outside of fleets";
    FLEET_GENERATION = Gauge "relayer_rest_fleet_generation" [],
        "Generation of the state in the tenure of its writer; 0 outside of fleets";
    SOURCE_UP = Gauge "relayer_rest_source_up" ["kind", "location"],
        "Whether a source of the state works: 0 while it does not respond, or its file is invalid";
    SOURCE_RESPONSES = Counter "relayer_rest_source_responses" ["kind", "location"],
        "Usable responses of a source, or reads of its file";
    SOURCE_FAILURES = Counter "relayer_rest_source_failures" ["kind", "location"],
        "Failures of a source";
    SOURCE_LAST = Gauge "relayer_rest_source_last_response_timestamp_seconds" ["kind", "location"],
        "Unix time of the last usable response of a source";
}

/// Adds the samples of the server.
pub(super) fn collect(
    snapshot: &Snapshot,
    connections: Option<&ConnectionTally>,
    capsules: Option<&CapsuleTally>,
    samples: &mut Samples,
) {
    if let Some(tally) = connections {
        let status = tally.status();
        let ConnectionStatus { open, accepted, refused, evicted, unsent, draining, live } = status;
        samples.add(&CONNECTIONS, [], open);
        samples.add(&ACCEPTED, [], accepted);
        samples.add(&REFUSED, [], refused);
        samples.add(&EVICTED, [], evicted);
        samples.add(&UNSENT, [], unsent);
        samples.add(&DRAINING, [], draining.into());
        let LiveStatus { waiters, entries, bytes, runs, unchanged_runs, wakeups, refused } = live;
        samples.add(&LIVE_WAITERS, [], waiters);
        samples.add(&LIVE_ENTRIES, [], entries);
        samples.add(&LIVE_BYTES, [], bytes);
        samples.add(&LIVE_RUNS, [], runs);
        samples.add(&LIVE_UNCHANGED, [], unchanged_runs);
        samples.add(&LIVE_WAKEUPS, [], wakeups);
        samples.add(&LIVE_REFUSED, [], refused);
        for (name, count) in tally.refused_requests() {
            samples.add(&REFUSED_REQUESTS, [name], count);
        }
    }
    if let Some(tally) = capsules {
        samples.add(&CAPSULES_WRITTEN, [], tally.written());
        samples.add(&CAPSULES_DROPPED, [], tally.dropped());
    }
    samples.add(&STATE_READY, [], snapshot.status().value().is_ok().into());
    samples.add(&GENERATION, [], snapshot.generation().number());
    samples.add_number(&CHANGED, [], seconds(snapshot.changed().time));
    samples.add(&CONFIRMED, [], snapshot.unconfirmed_since().is_none().into());
    let generation = snapshot.fleet_generation();
    samples.add(&FLEET_EPOCH, [], generation.map_or(0, |generation| generation.epoch));
    samples.add(&FLEET_GENERATION, [], generation.map_or(0, |generation| generation.number));
    for source in snapshot.sources().value() {
        let labels = [source.kind.name(), source.public_location()];
        samples.add(&SOURCE_UP, labels, source.failure.is_none().into());
        samples.add(&SOURCE_RESPONSES, labels, source.responses());
        samples.add(&SOURCE_FAILURES, labels, source.failures());
        if let Some(time) = source.last_response() {
            samples.add_number(&SOURCE_LAST, labels, seconds(time));
        }
    }
}

fn seconds(time: SystemTime) -> f64 {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}
