//! Capsules: files with all inputs of a run and its outcome, from which it can be repeated.
//!
//! A module is a pure function of its request and of the values that it reads. A capsule has
//! both, so that the same module has the same outcome on any machine. `docs/debugging.md`
//! describes the format.
//!
//! | file | job |
//! |---|---|
//! | `redaction.rs` | masks secrets |
//! | `replay.rs` | repeats the run |
//! | `values.rs` | the values that a run read, by their hashes |

mod redaction;
mod replay;
mod values;

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use relayer_rest_common::Digest;
use relayer_rest_common::text::for_log;
use relayer_rest_state::Snapshot;
use serde::{Deserialize, Serialize};

use super::contract::{CONTRACT_PACKAGE, CONTRACT_VERSION};
use super::header_grants::HeaderGrants;
use super::import_check::compatible;
use super::limits::Limits;
use super::octets::Octets;
use super::options::EngineOptions;
use super::outcome::Outcome;
use super::request::GuestRequest;
use super::request_headers::RequestHeaders;
use super::run_record::RunRecord;
use redaction::Masks;
pub use redaction::Redaction;
pub use replay::Replay;
use values::RecordedState;

/// The maximum size of a capsule, in bytes.
pub const MAX_CAPSULE_SIZE: u64 = 64 << 20;

/// The version of the format.
const VERSION: u32 = 1;

/// How much slower than the server a machine may be that repeats a run, and the limit of processor
/// time up to which that extends the recorded one.
const SLOWER: u32 = 10;
const MAX_TIME: Duration = Duration::from_mins(1);

/// The inputs of a run, and its outcome.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Capsule {
    /// The version of the format.
    #[serde(rename = "capsule")]
    version: u32,
    /// The version of the host.
    host: String,
    /// The time, as in RFC 3339.
    time: String,
    /// The id of the request.
    id: String,
    /// The version of the contract.
    contract: String,
    module: ModuleEntry,
    request: RequestEntry,
    /// The masked parts, such as `header authorization`.
    redacted: Vec<String>,
    outcome: Outcome,
    state: RecordedState,
}

/// A module, and the settings that its outcome depends on.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct ModuleEntry {
    name: String,
    sha256: Digest,
    mount: String,
    wasi: bool,
    headers: HeaderGrants,
    #[serde(default)]
    request_headers: Option<RequestHeaders>,
    limits: Limits,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RequestEntry {
    method: String,
    target: String,
    headers: Vec<(String, Octets)>,
    body: Octets,
}

/// The reason why a capsule cannot be made or read.
#[derive(Debug, thiserror::Error)]
pub enum CapsuleError {
    /// It is larger than [`MAX_CAPSULE_SIZE`].
    #[error("capsule: larger than {}", bytesize::ByteSize::b(MAX_CAPSULE_SIZE))]
    TooLarge,
    /// It is not JSON of this format.
    #[error("capsule: not valid: {}; take a copy from its server", for_log(&.0.to_string()))]
    Syntax(serde_json::Error),
    /// It has another version of the format.
    #[error(
        "capsule: its format has version {0}; expected {VERSION}: use the relayer-rest that wrote it"
    )]
    Version(u32),
    /// It has the results of functions of another contract.
    #[error(
        "capsule: it is of contract {0}; expected {CONTRACT_PACKAGE}@{CONTRACT_VERSION} or a compatible version: use the relayer-rest that wrote it"
    )]
    Contract(String),
    /// A part has an invalid value.
    #[error("capsule: {part}: {problem}; the file was changed, take a copy from its server")]
    Invalid {
        /// The part.
        part: String,
        /// The problem.
        problem: String,
    },
}

impl Capsule {
    /// Makes the capsule of a run for the request with this id, without the secrets that the
    /// redaction masks.
    pub fn new(
        run: &RunRecord,
        id: &str,
        time: SystemTime,
        redaction: &Redaction,
    ) -> Result<Self, CapsuleError> {
        let RunRecord { module, request, snapshot, reads, outcome } = run;
        let mut masks = Masks::new(redaction, reads);
        let (target, headers) = masks.request(request);
        let body = Octets::new(&request.body);
        let values = RecordedState::new(snapshot, request, reads, &mut masks)?;
        let options = &module.engine().options;
        let capsule = Self {
            version: VERSION,
            host: env!("CARGO_PKG_VERSION").to_owned(),
            time: humantime::format_rfc3339_millis(time).to_string(),
            id: id.to_owned(),
            contract: format!("{CONTRACT_PACKAGE}@{CONTRACT_VERSION}"),
            module: ModuleEntry {
                name: module.name().to_owned(),
                sha256: module.digest(),
                mount: module.mount().to_owned(),
                wasi: options.wasi,
                headers: options.headers.clone(),
                request_headers: options
                    .request_headers
                    .names()
                    .map(|_| options.request_headers.clone()),
                limits: options.limits.clone(),
            },
            request: RequestEntry { method: request.method.to_string(), target, headers, body },
            outcome: outcome.map_texts(|text| masks.outcome(text)),
            redacted: masks.into_names(),
            state: values,
        };
        Ok(capsule)
    }

    /// Parses a capsule, which may come from anyone: its size is checked, the hashes of its
    /// values, and that its request and its values are valid.
    pub fn parse(json: &[u8]) -> Result<Self, CapsuleError> {
        #[derive(Deserialize)]
        struct Version {
            capsule: u32,
        }
        if json.len() as u64 > MAX_CAPSULE_SIZE {
            return Err(CapsuleError::TooLarge);
        }
        let Version { capsule } = serde_json::from_slice(json).map_err(CapsuleError::Syntax)?;
        if capsule != VERSION {
            return Err(CapsuleError::Version(capsule));
        }
        let capsule: Self = serde_json::from_slice(json).map_err(CapsuleError::Syntax)?;
        let version = capsule.contract.strip_prefix(CONTRACT_PACKAGE);
        let version = version.and_then(|version| version.strip_prefix('@'));
        if !version.is_some_and(compatible) {
            return Err(CapsuleError::Contract(for_log(&capsule.contract)));
        }
        if let Err(error) = capsule.module.limits.check() {
            return Err(invalid("module.limits", error));
        }
        let mount = &capsule.module.mount;
        let is_path = |byte: u8| byte.is_ascii_graphic() && !b"\";,".contains(&byte);
        if !mount.starts_with('/') || !mount.bytes().all(is_path) {
            return Err(invalid("module.mount", "not a path"));
        }
        capsule.request()?;
        capsule.snapshot()?;
        Ok(capsule)
    }

    /// Returns the capsule as JSON.
    pub fn to_json(&self) -> Result<Vec<u8>, CapsuleError> {
        let mut json = serde_json::to_vec_pretty(self).map_err(CapsuleError::Syntax)?;
        json.push(b'\n');
        if json.len() as u64 > MAX_CAPSULE_SIZE {
            return Err(CapsuleError::TooLarge);
        }
        Ok(json)
    }

    /// Returns the id of the request.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Returns the method and the target of the request, relative to the mount.
    #[must_use]
    pub fn summary(&self) -> String {
        format!("{} {}", for_log(&self.request.method), for_log(&self.request.target))
    }

    /// Returns the digest of the module.
    #[must_use]
    pub fn digest(&self) -> Digest {
        self.module.sha256
    }

    /// Returns the path of the mount.
    #[must_use]
    pub fn mount(&self) -> &str {
        &self.module.mount
    }

    /// Returns whether both have the same settings of their modules: one engine can repeat both.
    #[must_use]
    pub fn has_settings_of(&self, other: &Self) -> bool {
        let settings = |capsule: &Self| {
            let ModuleEntry { wasi, headers, request_headers, limits, .. } = &capsule.module;
            let limits = Limits { time: capsule.time_limit(), ..limits.clone() };
            (*wasi, headers.clone(), request_headers.clone(), limits)
        };
        settings(self) == settings(other)
    }

    /// Returns the masked parts, such as `header authorization`. The outcome may be another one
    /// if the module depends on them.
    #[must_use]
    pub fn redacted(&self) -> &[String] {
        &self.redacted
    }

    /// Returns the outcome of the run.
    #[must_use]
    pub fn outcome(&self) -> &Outcome {
        &self.outcome
    }

    /// Returns the options of an engine on which the run can be repeated: all interfaces are
    /// granted, and it has room for one run at a time.
    #[must_use]
    pub fn engine_options(&self) -> EngineOptions {
        let ModuleEntry { wasi, headers, request_headers, limits, .. } = &self.module;
        EngineOptions {
            wasi: *wasi,
            headers: headers.clone(),
            request_headers: request_headers.clone().unwrap_or_default(),
            ..(&Limits {
                concurrency: 1,
                verify_reset: 0,
                time: self.time_limit(),
                ..limits.clone()
            })
                .into()
        }
    }

    /// Returns the limit of processor time for a repetition. Another machine may need more of it, and
    /// the run ended within the limit unless that is its outcome.
    fn time_limit(&self) -> Duration {
        let time = self.module.limits.time;
        if self.outcome.is_timeout() {
            return time;
        }
        time.saturating_mul(SLOWER).min(MAX_TIME.max(time))
    }

    /// Returns the request.
    fn request(&self) -> Result<GuestRequest, CapsuleError> {
        let RequestEntry { method, target, headers, body } = &self.request;
        let method: Method = method.parse().map_err(|error| invalid("request.method", error))?;
        let target: PathAndQuery =
            target.parse().map_err(|error| invalid("request.target", error))?;
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            let part = || format!("request.headers: {}", for_log(name));
            let name: HeaderName = name.parse().map_err(|error| invalid(&part(), error))?;
            let value = value.bytes().map_err(|error| invalid(&part(), error))?;
            let value = HeaderValue::from_bytes(&value).map_err(|error| invalid(&part(), error))?;
            map.try_append(name, value).map_err(|error| invalid("request.headers", error))?;
        }
        let body = body.bytes().map_err(|error| invalid("request.body", error))?;
        Ok(GuestRequest { body: Bytes::from(body), ..GuestRequest::new(method, target, map) })
    }

    /// Returns a snapshot with the recorded values.
    fn snapshot(&self) -> Result<Arc<Snapshot>, CapsuleError> {
        self.state.to_snapshot().map(Arc::new)
    }
}

#[expect(clippy::needless_pass_by_value, reason = "errors are passed on")]
fn invalid(part: &str, problem: impl ToString) -> CapsuleError {
    CapsuleError::Invalid { part: for_log(part), problem: for_log(&problem.to_string()) }
}
