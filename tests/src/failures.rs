//! Failures of a module, each with a random request on a random state.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hyper::header::HeaderValue;
use hyper::{HeaderMap, Method};
use relayer_rest_host::module::{
    Capsule, Engine, GuestRequest, Limits, Module, Redaction, RunRecord,
};
use relayer_rest_host::state::{
    ChainConfig, ChainKind, Component, GasPrice, MetricFamily, MetricKind, NotReady, Object,
    OtherObject, RelayerState, Sample, Snapshot, SourceKind, StatePublisher, Value, Worker,
    WorkerData,
};
use serde_json::json;

use crate::cargo::FAILING_GUEST;
use crate::folder::Folder;
use crate::program::Ended;
use crate::server::patient;

/// The number of failures, each with a request and a state of its own.
const FAILURES: u64 = 1_000;

/// One of this many failures is an endless loop.
const ENDLESS: u64 = 100;

/// The settings of the command that replays: a virtual machine is slow.
const SETTINGS: &str = "[module.limits]\ntime = '10min'\n[swap]\ntime = '1h'\n";

/// Random numbers by xorshift, which are equal in each run.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }

    fn one<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        let count = u64::try_from(all.len()).unwrap();
        &all[usize::try_from(self.below(count)).unwrap()]
    }

    fn is_lucky(&mut self, one_of: u64) -> bool {
        self.below(one_of) == 0
    }

    fn number(&mut self) -> f64 {
        let any = f64::from_bits(self.below(u64::MAX));
        *self.one(&[
            0.1,
            -0.0,
            1e300,
            f64::MIN_POSITIVE,
            1.0 / 3.0,
            if any.is_finite() { any } else { 2.5 },
        ])
    }

    fn text(&mut self) -> String {
        let parts = ["a", "channel-0", "\"", "\\", "\n", "é", "\u{1F600}", "", "ibc/", "\0"];
        (0..self.below(4)).map(|_| *self.one(&parts)).collect()
    }

    fn time(&mut self) -> SystemTime {
        UNIX_EPOCH + Duration::from_nanos(self.below(1 << 62))
    }

    fn reason(&mut self) -> NotReady {
        NotReady { message: self.text(), retry_after: Duration::from_nanos(self.below(1 << 40)) }
    }
}

fn chain(random: &mut Random, id: &str) -> ChainConfig {
    let kind = match random.below(3) {
        0 => ChainKind::CosmosSdk,
        1 => ChainKind::Namada,
        _ => ChainKind::Other(random.text()),
    };
    ChainConfig {
        rpc_addr: Some("https://user:password@node/x".to_owned()),
        rpc_timeout: Some(Duration::from_nanos(random.below(1 << 50))),
        max_gas: random.is_lucky(2).then(|| random.below(u64::MAX)),
        gas_multiplier: Some(random.number()),
        gas_price: Some(GasPrice { price: random.number(), denom: random.text() }),
        ..ChainConfig::new(id, kind)
    }
}

fn worker(random: &mut Random, id: u64) -> Worker {
    let object = match random.below(3) {
        0 => Object::Wallet { chain_id: random.text().into() },
        1 => Object::Packet {
            dst_chain_id: random.text().into(),
            src_chain_id: random.text().into(),
            src_channel_id: random.text().into(),
            src_port_id: random.text().into(),
        },
        _ => Object::Other(OtherObject {
            kind: random.text().into(),
            fields: vec![
                (random.text().into(), Value::Number(random.number())),
                (random.text().into(), Value::Text(random.text().into())),
                (random.text().into(), Value::Null),
            ],
        }),
    };
    let data = WorkerData::Client { misbehaviour: true, refresh: random.is_lucky(2) };
    Worker { id, object, data: random.is_lucky(2).then_some(data) }
}

/// Returns a random snapshot, of which some parts are not known.
fn snapshot(random: &mut Random) -> Arc<Snapshot> {
    let publisher = StatePublisher::new();
    if random.is_lucky(2) {
        let component = Component { name: random.text(), version: random.text() };
        publisher.set_components(vec![component]);
    }
    let ids = ["ibc-0", "ibc-1", "ibc-2"];
    match random.below(4) {
        0 => publisher.set_chains_not_ready(random.reason()),
        1 => {
            let reason = random.reason();
            publisher.set_chain_ids(ids.map(Into::into).to_vec(), &reason).unwrap();
            publisher.set_chain(chain(random, "ibc-1"));
        }
        _ => publisher.set_chains(ids.map(|id| chain(random, id)).to_vec()).unwrap(),
    }
    if random.is_lucky(4) {
        publisher.set_not_ready(random.reason());
    } else {
        let workers = (0..random.below(6)).map(|id| worker(random, id)).collect();
        publisher.set_state(RelayerState { chains: vec![random.text().into()], workers });
    }
    if random.is_lucky(2) {
        publisher.add_source(SourceKind::Upstream, "http://h").failed(&random.text());
    }
    if !random.is_lucky(4) {
        let families = (0..random.below(3)).map(|number| MetricFamily {
            name: format!("family-{number}").into(),
            kind: MetricKind::Gauge,
            help: random.text(),
            samples: [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, random.number()]
                .into_iter()
                .enumerate()
                .map(|(place, value)| Sample {
                    name: "sample".into(),
                    labels: vec![("place".into(), place.to_string().into())],
                    value,
                    since: UNIX_EPOCH,
                })
                .collect(),
        });
        let families = families.collect();
        publisher.set_telemetry(families, random.time());
    }
    publisher.reader().snapshot()
}

/// Returns a random request that fails.
fn request(random: &mut Random, is_endless: bool) -> GuestRequest {
    const READS: [&str; 17] = [
        "components",
        "ids",
        "chain:ibc-0",
        "chain:ibc-1",
        "chain:none",
        "state",
        "changed",
        "unconfirmed",
        "sources",
        "families",
        "family:family-0",
        "family:family-1",
        "family:none",
        "scraped",
        "header:x-a",
        "header:x-b",
        "mount",
    ];
    let then = if is_endless {
        "endless"
    } else {
        random.one(&["panic", "index", "divide", "invalid", "command", "error"])
    };
    let reads: Vec<_> =
        (0..random.below(6)).map(|_| format!("&read={}", random.one(&READS))).collect();
    let reads = reads.concat();
    let target = format!("/?then={then}{reads}").parse().unwrap();
    let mut headers = HeaderMap::new();
    headers.insert("x-a", random.below(1_000).into());
    headers.insert("x-b", HeaderValue::from_bytes(b"\xff\t").unwrap());
    GuestRequest::new(Method::GET, target, headers)
}

/// Returns the module in `tests/guests/failing`, with an engine of its own.
pub async fn module(limits: &Limits) -> Module {
    let engine = Engine::new(limits).unwrap();
    let bytes = limits.body;
    Module::from_untrusted_bytes(&engine, "failing", FAILING_GUEST, bytes).await.unwrap()
}

/// Returns the JSON of random capsules. Each run has the same requests, and values that differ only in
/// the times of publications.
pub async fn random_capsules() -> Vec<String> {
    let patient = module(&patient()).await;
    // An endless loop takes longer than any limit.
    let impatient = module(&Limits { time: Duration::from_millis(20), ..Limits::default() }).await;
    let mut random = Random(0x2545_f491_4f6c_dd1d);
    let mut capsules = Vec::new();
    for number in 0..FAILURES {
        let is_endless = number % ENDLESS == 0;
        let module = if is_endless { &impatient } else { &patient };
        let request = request(&mut random, is_endless);
        let run = RunRecord::from_run(module, request, snapshot(&mut random)).await.unwrap();
        assert!(run.outcome().is_failure(), "{:?}", run.outcome());
        let id = number.to_string();
        let capsule = Capsule::new(&run, &id, random.time(), &Redaction::default()).unwrap();
        capsules.push(String::from_utf8(capsule.to_json().unwrap()).unwrap());
    }
    capsules
}

/// Writes the module and its capsules to a folder.
pub fn write(folder: &Folder, capsules: &[String]) {
    for (number, json) in capsules.iter().enumerate() {
        folder.write(&format!("{number:04}.capsule.json"), json);
    }
    folder.write("failing.wasm", FAILING_GUEST);
    folder.write("settings.toml", SETTINGS);
}

/// Returns the arguments of the command that replays all capsules in a folder.
#[must_use]
pub fn replay_arguments(folder: &str) -> [String; 9] {
    let [module, settings] = ["failing.wasm", "settings.toml"].map(|it| format!("{folder}/{it}"));
    ["check", "--dialect", "any", "--json", "--config", &settings, "--capsules", folder, &module]
        .map(str::to_owned)
}

/// Checks that all capsules were replayed with the same outcomes.
pub fn check_replayed(ended: &Ended) {
    let report = serde_json::from_str(&ended.stdout);
    let report: serde_json::Value = report.unwrap_or_else(|error| panic!("{error}: {ended:?}"));
    let replayed = report["capsules"].as_array();
    let replayed = replayed.unwrap_or_else(|| panic!("not replayed: {report:#}"));
    assert_eq!(replayed.len() as u64, FAILURES, "{}", report["error"]);
    for replay in replayed {
        assert_eq!(replay["recorded"], replay["replayed"], "{replay:#}");
        assert_eq!(replay["missing"], json!([]), "{replay:#}");
    }
    // They fail again, so the module does not pass.
    assert_eq!(ended.status, Some(1));
}
