//! Capsules: failed requests of a server, to repeat in native tests.

use std::cell::RefCell;
use std::fs;
use std::path::Path;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::contract::{ChainConfig, Component, MetricFamily, NotReady, RelayerState, Source};
use crate::host::{Host, Level};
use crate::request::Request;

/// A failed request of a server, with the values that the module read, and its outcome. The
/// server writes it with `serve --capsules DIR`.
///
/// ```no_run
/// # use relayer_rest_sdk::{Host, Request, Response};
/// # fn handle<H: Host>(host: &H, request: &Request) -> Response { Response::empty(200) }
/// use relayer_rest_sdk::testing::Capsule;
///
/// let response = Capsule::read("tests/failure.capsule.json").replay(handle);
/// assert_eq!(response.status, 200);
/// ```
#[derive(Debug, Clone, Deserialize)]
pub struct Capsule {
    #[serde(rename = "capsule")]
    version: u32,
    contract: String,
    module: Module,
    request: RecordedRequest,
    outcome: Value,
    state: Recorded,
}

#[derive(Debug, Clone, Deserialize)]
struct Module {
    mount: String,
}

#[derive(Debug, Clone, Deserialize)]
struct RecordedRequest {
    method: String,
    target: String,
    headers: Vec<(String, Octets)>,
}

/// Bytes: a text, or hexadecimal digits.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
enum Octets {
    Text(String),
    Hex { hex: String },
}

/// The reads and their results.
#[derive(Debug, Clone, Deserialize)]
struct Recorded {
    complete: bool,
    reads: Vec<Read>,
    values: serde_json::Map<String, Value>,
}

#[derive(Debug, Clone, Deserialize)]
struct Read {
    function: String,
    argument: Option<String>,
    value: String,
}

/// A host that returns the recorded values of a [`Capsule`].
#[derive(Debug)]
pub struct RecordedHost {
    capsule: Capsule,
    log: RefCell<Vec<(Level, String)>>,
    cleared: RefCell<Vec<Option<String>>>,
}

/// The recorded response of a [`Capsule`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedResponse {
    /// The status.
    pub status: u16,
    /// The names and values of the headers.
    pub headers: Vec<(String, Vec<u8>)>,
    /// The body.
    pub body: Vec<u8>,
}

/// The version of the format.
const VERSION: u32 = 1;

/// The package of the contract, and the start of its compatible versions.
const CONTRACT: &str = "relayer:rest@0.1.";

impl Capsule {
    /// Reads a file, relative to the folder of the package.
    ///
    /// # Panics
    /// Panics if it cannot be read, or is not a capsule.
    #[must_use]
    #[track_caller]
    pub fn read(file: impl AsRef<Path>) -> Self {
        let file = file.as_ref();
        match fs::read_to_string(file) {
            Ok(json) => Self::parse(&json),
            Err(error) => panic!("{}: {error}", file.display()),
        }
    }

    /// Parses the content of a file.
    ///
    /// # Panics
    /// Panics if it is not a capsule, or one of another version or contract.
    #[must_use]
    #[track_caller]
    pub fn parse(json: &str) -> Self {
        match serde_json::from_str::<Self>(json) {
            Ok(capsule) if capsule.version != VERSION => {
                panic!("the capsule has version {}, not {VERSION}", capsule.version)
            }
            Ok(capsule) if !capsule.contract.starts_with(CONTRACT) => panic!(
                "the capsule is of contract {}, and this SDK of {CONTRACT}0: use the SDK for that contract",
                capsule.contract
            ),
            Ok(capsule) => capsule,
            Err(error) => panic!("not a capsule: {error}"),
        }
    }

    /// Returns the request.
    #[must_use]
    pub fn request(&self) -> Request {
        let RecordedRequest { method, target, headers } = &self.request;
        let headers = headers.iter().map(|(name, value)| (name.clone(), value.bytes()));
        Request::new(method, target).with_headers(headers.collect())
    }

    /// Returns a host with the recorded values.
    #[must_use]
    pub fn host(&self) -> RecordedHost {
        RecordedHost { capsule: self.clone(), log: RefCell::default(), cleared: RefCell::default() }
    }

    /// Handles the request natively, on the recorded values, and returns what the handler does.
    /// A handler that panicked for the server panics here, too, in the debugger or with a
    /// backtrace.
    ///
    /// # Panics
    /// Panics if the handler does, or if it reads a value that the recorded module has not read.
    pub fn replay<R>(&self, handle: impl FnOnce(&RecordedHost, &Request) -> R) -> R {
        handle(&self.host(), &self.request())
    }

    /// Returns the recorded response; `None` if there was none.
    #[must_use]
    pub fn response(&self) -> Option<RecordedResponse> {
        let outcome = &self.outcome;
        let status = u16::try_from(outcome["status"].as_u64()?).ok()?;
        let headers = Vec::<(String, Octets)>::deserialize(&outcome["headers"]).ok()?;
        let headers = headers.into_iter().map(|(name, value)| (name, value.bytes())).collect();
        let body = Octets::deserialize(&outcome["body"]).ok()?;
        Some(RecordedResponse { status, headers, body: body.bytes() })
    }

    /// Returns the cause of the recorded trap, such as the message of a panic; `None` if there
    /// was none.
    #[must_use]
    pub fn trap(&self) -> Option<&str> {
        self.outcome["cause"].as_str()
    }

    /// Returns the result of a function.
    fn value<T: DeserializeOwned>(&self, function: &str, argument: Option<&str>) -> Option<T> {
        let Recorded { reads, values, .. } = &self.state;
        let is_same =
            |read: &&Read| read.function == function && read.argument.as_deref() == argument;
        let read = reads.iter().find(is_same)?;
        let value = values.get(&read.value).unwrap_or(&Value::Null);
        match T::deserialize(value) {
            Ok(value) => Some(value),
            Err(error) => panic!("the capsule's value of {function} is not valid: {error}"),
        }
    }

    /// Returns the result of a function that must have been read.
    fn expect<T: DeserializeOwned>(&self, function: &str, argument: Option<&str>) -> T {
        self.value(function, argument).unwrap_or_else(|| {
            let argument = argument.map(|argument| format!(" {argument}")).unwrap_or_default();
            panic!("the recorded module did not read {function}{argument}: the capsule does not have it")
        })
    }

    /// Returns whether a chain or a family does not exist: the list of them does not have it, or
    /// all values of the function are here.
    fn is_absent(&self, list: &str, function: &str, name: &str) -> Result<bool, NotReady> {
        match self.value::<Result<Vec<String>, _>>(list, None) {
            // Without the list, none of them was known.
            Some(Err(reason)) => Err(reason),
            Some(Ok(names)) if !names.iter().any(|listed| listed == name) => Ok(true),
            _ => Ok(self.has_all(function)),
        }
    }

    /// Returns whether all values of a function are here, although not all of its reads are
    /// listed: an absent one does not exist.
    fn has_all(&self, function: &str) -> bool {
        !self.state.complete && self.state.reads.iter().any(|read| read.function == function)
    }
}

impl Octets {
    fn bytes(&self) -> Vec<u8> {
        match self {
            Self::Text(text) => text.clone().into_bytes(),
            Self::Hex { hex } => {
                let pair = |pair: &[u8]| {
                    let digits = str::from_utf8(pair).ok();
                    digits.and_then(|digits| u8::from_str_radix(digits, 16).ok())
                };
                let bytes = hex.as_bytes().chunks(2).map(pair).collect::<Option<_>>();
                bytes.expect("the capsule has pairs of hexadecimal digits")
            }
        }
    }
}

impl RecordedHost {
    /// Returns the chains of the commands to clear packets; `None` for all chains.
    #[must_use]
    pub fn cleared(&self) -> Vec<Option<String>> {
        self.cleared.borrow().clone()
    }

    /// Returns the lines that were written to the log.
    #[must_use]
    pub fn logged(&self) -> Vec<(Level, String)> {
        self.log.borrow().clone()
    }
}

impl Host for RecordedHost {
    fn components(&self) -> Vec<Component> {
        self.capsule.expect("version.components", None)
    }

    fn chain_ids(&self) -> Result<Vec<String>, NotReady> {
        self.capsule.expect("chains.ids", None)
    }

    fn chain(&self, id: &str) -> Result<Option<ChainConfig>, NotReady> {
        const FUNCTION: &str = "chains.config";
        if let Some(chain) = self.capsule.value(FUNCTION, Some(id)) {
            return chain;
        }
        if self.capsule.is_absent("chains.ids", FUNCTION, id)? {
            return Ok(None);
        }
        self.capsule.expect(FUNCTION, Some(id))
    }

    fn state(&self) -> Result<RelayerState, NotReady> {
        self.capsule.expect("state.current", None)
    }

    fn changed(&self) -> u64 {
        self.capsule.expect("snapshot.changed", None)
    }

    fn unconfirmed_since(&self) -> Option<u64> {
        self.capsule.expect("snapshot.unconfirmed-since", None)
    }

    fn sources(&self) -> Vec<Source> {
        self.capsule.expect("snapshot.sources", None)
    }

    fn metric_families(&self) -> Result<Vec<String>, NotReady> {
        self.capsule.expect("telemetry.families", None)
    }

    fn metric_family(&self, name: &str) -> Result<Option<MetricFamily>, NotReady> {
        const FUNCTION: &str = "telemetry.family";
        if let Some(family) = self.capsule.value::<Value>(FUNCTION, Some(name)) {
            return family_from_json(family);
        }
        if self.capsule.is_absent("telemetry.families", FUNCTION, name)? {
            return Ok(None);
        }
        self.capsule.expect(FUNCTION, Some(name))
    }

    fn scraped(&self) -> Result<u64, NotReady> {
        self.capsule.expect("telemetry.scraped", None)
    }

    fn clear_packets(&self, chain: Option<&str>) {
        self.cleared.borrow_mut().push(chain.map(str::to_owned));
    }

    fn mount(&self) -> String {
        self.capsule.module.mount.clone()
    }

    fn log(&self, level: Level, message: &str) {
        self.log.borrow_mut().push((level, message.to_owned()));
    }
}

/// Returns a family of metrics. The values that JSON does not have are texts, such as `NaN`.
fn family_from_json(mut json: Value) -> Result<Option<MetricFamily>, NotReady> {
    let mut others = Vec::new();
    let samples = json.pointer_mut("/Ok/samples").and_then(Value::as_array_mut);
    for (place, sample) in samples.into_iter().flatten().enumerate() {
        if let Some(value) = sample["value"].as_str().and_then(|value| value.parse::<f64>().ok()) {
            others.push((place, value));
            sample["value"] = 0.into();
        }
    }
    let family = Result::<Option<MetricFamily>, NotReady>::deserialize(json);
    let mut family = family.unwrap_or_else(|error| {
        panic!("the capsule's value of telemetry.family is not valid: {error}")
    });
    if let Ok(Some(family)) = &mut family {
        for (place, value) in others {
            family.samples[place].value = value;
        }
    }
    family
}

#[cfg(test)]
mod tests {
    use super::{CONTRACT, Capsule};
    use crate::host::Host;
    use serde_json::{Value, json};

    fn capsule(reads: &[(&str, Option<&str>, Value)]) -> Capsule {
        let entries = reads.iter().enumerate();
        let list: Vec<_> = entries
            .clone()
            .map(|(place, (function, argument, _))| {
                json!({"function": function, "argument": argument, "value": place.to_string()})
            })
            .collect();
        let values: serde_json::Map<_, _> =
            entries.map(|(place, (_, _, value))| (place.to_string(), value.clone())).collect();
        let json = json!({
            "capsule": 1,
            "contract": format!("{CONTRACT}0"),
            "module": {"mount": "/ext/a"},
            "request": {
                "method": "GET",
                "target": "/b?c=d",
                "headers": [["x-a", "text"], ["x-b", {"hex": "ff01"}]],
            },
            "outcome": {"kind": "trap", "trap": "panic", "cause": "panicked at 1"},
            "state": {"complete": true, "reads": list, "values": values},
        });
        Capsule::parse(&json.to_string())
    }

    #[test]
    fn capsules_are_of_the_contract_of_the_bindings() {
        let package = include_str!("../wit/world.wit").lines().next().unwrap();
        assert!(package.starts_with(&format!("package {CONTRACT}")), "{package}");
    }

    #[test]
    #[should_panic(
        expected = "is of contract relayer:rest@0.2.0, and this SDK of relayer:rest@0.1.0"
    )]
    fn a_capsule_of_another_contract_is_rejected() {
        let json = json!({
            "capsule": 1,
            "contract": "relayer:rest@0.2.0",
            "module": {"mount": "/"},
            "request": {"method": "GET", "target": "/", "headers": []},
            "outcome": {},
            "state": {"complete": true, "reads": [], "values": {}},
        });
        let _ = Capsule::parse(&json.to_string());
    }

    #[test]
    fn a_capsule_has_the_request_and_the_values() {
        let not_ready = json!({"Err": {"message": "later", "retry_after": 2}});
        let sample = |value: Value| json!({"name": "n", "labels": [], "value": value, "since": 3});
        let samples = json!([sample(json!(0.1)), sample(json!("NaN")), sample(json!("-inf"))]);
        let family = json!({"name": "n", "kind": "Gauge", "help": "", "samples": samples});
        let capsule = capsule(&[
            ("chains.ids", None, json!({"Ok": ["a", "b"]})),
            ("chains.config", Some("c"), json!({"Ok": null})),
            ("state.current", None, not_ready),
            ("telemetry.family", Some("n"), json!({"Ok": family})),
        ]);
        let (ids, state, path) = capsule.replay(|host, request| {
            assert_eq!(host.chain("c").unwrap().map(|chain| chain.id), None);
            // It is not in the list.
            assert!(host.chain("d").unwrap().is_none());
            assert_eq!(request.header_all("x-b"), [[0xff, 1]]);
            assert_eq!(request.query_text(), Some("c=d"));
            let family = host.metric_family("n").unwrap().unwrap();
            let values: Vec<_> = family.samples.iter().map(|sample| sample.value).collect();
            assert_eq!(values[0].to_bits(), 0.1_f64.to_bits());
            assert!(values[1].is_nan() && values[2] == f64::NEG_INFINITY);
            (host.chain_ids().unwrap(), host.state(), request.path.clone())
        });
        assert_eq!((ids, &*path), (vec!["a".to_owned(), "b".to_owned()], "/b"));
        assert_eq!(state.unwrap_err().retry_after, 2);
        assert_eq!(
            (capsule.host().mount(), capsule.trap()),
            ("/ext/a".into(), Some("panicked at 1"))
        );
    }

    #[test]
    #[should_panic(expected = "the recorded module did not read chains.config x")]
    fn a_value_that_was_not_read_is_not_invented() {
        let _ = capsule(&[]).host().chain("x");
    }
}
