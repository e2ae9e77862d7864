//! Runs the test cases on a module and a state, and records the responses.

use std::fmt::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::uri::PathAndQuery;
use http::{HeaderMap, Method, Response};
use relayer_rest_sandbox::{CallError, GuestRequest, GuestResponse, Module, RunPermit};
use relayer_rest_state::{ChainConfig, Command, Known, Snapshot};
use serde::{Deserialize, Serialize};

use super::Recorded;
use super::states::State;

/// The maximum number of chains that are requested: a relayer may have many.
const MAX_CHAINS: usize = 50;

/// The paths of the API, without those of single chains.
const PATHS: [(TestCase, &str); 3] =
    [(TestCase::Version, "/version"), (TestCase::Chains, "/chains"), (TestCase::State, "/state")];

/// A chain that no relayer has.
const UNKNOWN_CHAIN: &str = "no-such-chain";

/// A path that the API does not have.
const UNKNOWN_PATH: &str = "/no/such/path";

/// Methods that would change something, on existing paths.
const REJECTED_METHODS: [(&str, &str); 7] = [
    ("POST", "/version"),
    ("POST", "/chains"),
    ("PUT", "/chains"),
    ("PATCH", "/chains"),
    ("DELETE", "/chains"),
    ("POST", "/chain/no-such-chain"),
    ("POST", "/state"),
];

/// A query without a meaning.
const WITH_QUERY: &str = "/chains?a=b&page=2";

/// The path of a command of relayers from 1.7 on, which names nothing.
const COMMAND: &str = "/clear_packets";

/// Unusual targets that clients should not request, but may.
const ODD: [&str; 8] = [
    "/",
    "//",
    "/chain/",
    "/chain/%FF",
    "/chain/%00%0A%22",
    "/state?a=%&b",
    "/chain/../version",
    "/%F0%9F%A6%80/%",
];

/// The maximum size of all response bodies on one state, in bytes.
const MAX_BYTES: usize = 64 << 20;

/// The cost of a request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RequestCost {
    /// The name of the state.
    pub state: String,
    /// The request: its method and target.
    pub request: String,
    /// The response's status; `None` without a response.
    pub status: Option<u16>,
    /// The length of the body, in bytes.
    pub body: usize,
    /// The time from the call to the response, in microseconds.
    pub micros: u64,
    /// The peak memory of the instance, in bytes; `None` without a response.
    pub memory: Option<usize>,
}

/// A module's responses to the test cases on one state.
pub(super) struct Probe {
    pub(super) exchanges: Vec<Exchange>,
}

/// A test case and its response, or the reason for its absence.
pub(super) struct Exchange {
    pub(super) test: TestCase,
    pub(super) outcome: Result<Response<Bytes>, String>,
    /// The commands that the module recorded, which are not executed.
    pub(super) commands: Vec<Command>,
    cost: RequestCost,
}

/// A test case: one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum TestCase {
    Version,
    Chains,
    /// An existing chain, by its index among the identifiers.
    Chain(usize),
    UnknownChain,
    State,
    UnknownPath,
    /// The chains, with a query.
    WithQuery,
    /// A method that the API does not have, on a path that it has.
    Refused(&'static str, &'static str),
    /// A command that names nothing, which no module may execute.
    Command,
    /// The command for the first chain, or for one that no relayer has.
    ClearPackets,
    Odd(&'static str),
    /// A GET that the module declares, by its target.
    Declared(String),
}

impl Probe {
    /// Runs the test cases, until one of them fails.
    pub(super) async fn run(module: &Module, state: &State) -> Self {
        let chains = state.chains().as_ref().map_or(0, Vec::len).min(MAX_CHAINS);
        let mut tests = Vec::from(PATHS.map(|(test, _)| test));
        tests.extend((0..chains).map(TestCase::Chain));
        tests.extend([TestCase::WithQuery, TestCase::UnknownChain, TestCase::UnknownPath]);
        tests.extend(REJECTED_METHODS.map(|(method, target)| TestCase::Refused(method, target)));
        tests.extend([TestCase::Command, TestCase::ClearPackets]);
        tests.extend(ODD.map(TestCase::Odd));
        let known: Vec<_> = tests.iter().map(|test| test.target(state)).collect();
        let declared = declared(module, state).filter(|target| !known.contains(target));
        tests.extend(declared.map(TestCase::Declared));
        let mut exchanges = Vec::new();
        let mut bytes = 0;
        for test in tests {
            let mut exchange = run(module, state, test).await;
            bytes += exchange.cost.body;
            if bytes > MAX_BYTES {
                let most = bytesize::ByteSize::b(MAX_BYTES as u64);
                exchange.outcome = Err(format!("the responses on one state exceed {most}"));
            }
            let has_failed = exchange.outcome.is_err();
            exchanges.push(exchange);
            if has_failed {
                break;
            }
        }
        Self { exchanges }
    }

    /// Returns the test case without a response, which is the last, and the reason.
    pub(super) fn failure(&self) -> Option<(&TestCase, &str)> {
        let last = self.exchanges.last()?;
        last.outcome.as_ref().err().map(|error| (&last.test, error.as_str()))
    }

    /// Returns the test cases and the responses to them.
    pub(super) fn responses(&self) -> impl Iterator<Item = (&TestCase, &Response<Bytes>)> {
        self.exchanges.iter().filter_map(|exchange| {
            let response = exchange.outcome.as_ref().ok()?;
            Some((&exchange.test, response))
        })
    }

    /// Returns the commands that the module recorded for a test case.
    pub(super) fn commands(&self, test: &TestCase) -> &[Command] {
        let exchange = self.exchanges.iter().find(|exchange| exchange.test == *test);
        exchange.map_or(&[], |exchange| &exchange.commands)
    }

    /// Returns the response to a test case.
    pub(super) fn response(&self, test: &TestCase) -> Option<&Response<Bytes>> {
        self.responses().find(|(known, _)| *known == test).map(|(_, response)| response)
    }

    pub(super) fn into_recorded(self) -> impl Iterator<Item = Recorded> {
        let recorded = |exchange: Exchange| Recorded {
            request: exchange.cost.request,
            outcome: exchange.outcome,
        };
        self.exchanges.into_iter().map(recorded)
    }

    pub(super) fn into_costs(self) -> impl Iterator<Item = RequestCost> {
        self.exchanges.into_iter().map(|exchange| exchange.cost)
    }
}

impl State {
    /// Returns the chains in their order, if they are known.
    pub(super) fn chains(&self) -> Known<Vec<&ChainConfig>> {
        let snapshot = &self.snapshot;
        let ids = snapshot.chain_ids().value().as_ref().map_err(Clone::clone)?;
        Ok(ids
            .iter()
            .filter_map(|id| Some(snapshot.chain(id.as_str())?.config().ok()?.value()))
            .collect())
    }
}

impl TestCase {
    /// Returns the request: its method and target.
    pub(super) fn request(&self, state: &State) -> String {
        format!("{} {}", self.method(), self.target(state))
    }

    fn target(&self, state: &State) -> String {
        match self {
            Self::Version | Self::Chains | Self::State => {
                let path = PATHS.into_iter().find(|(test, _)| test == self);
                path.map_or_else(String::new, |(_, path)| path.to_owned())
            }
            Self::WithQuery => WITH_QUERY.to_owned(),
            Self::Command => COMMAND.to_owned(),
            Self::ClearPackets => format!("{COMMAND}?chain={}", first_chain(state)),
            Self::Chain(place) => {
                let id =
                    state.chains().ok().and_then(|chains| Some(chains.get(*place)?.id.clone()));
                chain_target(id.as_ref().map_or("", |id| id.as_str()))
            }
            Self::UnknownChain => format!("/chain/{UNKNOWN_CHAIN}"),
            Self::UnknownPath => UNKNOWN_PATH.to_owned(),
            Self::Refused(_, target) | Self::Odd(target) => (*target).to_owned(),
            Self::Declared(target) => target.clone(),
        }
    }

    fn method(&self) -> Method {
        match self {
            Self::Refused(method, _) => {
                Method::from_bytes(method.as_bytes()).expect("the methods are valid")
            }
            Self::Command | Self::ClearPackets => Method::POST,
            _ => Method::GET,
        }
    }
}

/// Returns the targets of the API on a state with these chains.
pub fn targets<'a>(chains: impl IntoIterator<Item = &'a str>) -> impl Iterator<Item = String> {
    let paths = PATHS.into_iter().map(|(_, path)| path.to_owned());
    paths.chain(chains.into_iter().map(chain_target))
}

/// Returns the targets of the GET requests that a module declares, with a chain of a state as
/// the value of each parameter.
#[must_use]
pub fn declared_targets(module: &Module, snapshot: &Arc<Snapshot>) -> Vec<String> {
    declared(module, &State { name: "present", snapshot: Arc::clone(snapshot) }).collect()
}

/// Returns the targets of the GET requests that a module declares, with a chain as the
/// value of each parameter.
fn declared<'a>(module: &'a Module, state: &State) -> impl Iterator<Item = String> + use<'a> {
    let chain = first_chain(state);
    module.openapi().into_iter().flat_map(move |openapi| {
        let read = openapi.routes().filter(|route| openapi.operation(route, "get").is_some());
        read.map(|route| route.with(&chain)).collect::<Vec<_>>()
    })
}

/// Returns the identifier of the first chain, percent-encoded, or one that no relayer has.
fn first_chain(state: &State) -> String {
    let id = state.chains().ok().and_then(|chains| Some(chains.first()?.id.clone()));
    encoded(id.as_ref().map_or(UNKNOWN_CHAIN, |id| id.as_str()))
}

/// Returns the target of a chain's configuration.
fn chain_target(id: &str) -> String {
    format!("/chain/{}", encoded(id))
}

/// Percent-encodes a text as a segment of a path.
fn encoded(text: &str) -> String {
    let mut segment = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            segment.push(byte.into());
        } else {
            write!(segment, "%{byte:02X}").expect("writing to a text succeeds");
        }
    }
    segment
}

async fn run(module: &Module, state: &State, test: TestCase) -> Exchange {
    let target = PathAndQuery::try_from(test.target(state)).expect("the targets are valid");
    let request = Arc::new(GuestRequest::new(test.method(), target, HeaderMap::new()));
    let (outcome, time) = run_request(module, &request, &state.snapshot).await;
    let memory = outcome.as_ref().ok().map(|response| response.memory);
    let commands =
        outcome.as_ref().map_or_else(|_| Vec::new(), |response| response.commands.clone());
    let outcome = outcome.map(|response| response.response).map_err(|error| error.to_string());
    let cost = RequestCost {
        state: state.name.to_owned(),
        request: test.request(state),
        status: outcome.as_ref().ok().map(|response| response.status().as_u16()),
        body: outcome.as_ref().map_or(0, |response| response.body().len()),
        micros: u64::try_from(time.as_micros()).unwrap_or(u64::MAX),
        memory,
    };
    Exchange { test, outcome, commands, cost }
}

/// Calls a module, and returns its response and the time that it took.
pub async fn run_request(
    module: &Module,
    request: &Arc<GuestRequest>,
    snapshot: &Arc<Snapshot>,
) -> (Result<GuestResponse, CallError>, Duration) {
    match RunPermit::acquire_background(module).await {
        Ok(permit) => {
            let start = Instant::now();
            let response = permit.execute(Arc::clone(request), Arc::clone(snapshot)).await;
            (response, start.elapsed())
        }
        Err(error) => (Err(error), Duration::ZERO),
    }
}
