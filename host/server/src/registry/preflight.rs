//! Preflight: checks a candidate before it serves. The start, a reload, a swap, a watched file
//! and `config check` all use it, so that each rejects the same modules for the same reasons.

use std::collections::HashSet;
use std::error::Error;
use std::sync::Arc;

use bytes::Bytes;
use http::uri::PathAndQuery;
use http::{HeaderMap, Method};
use relayer_rest_common::text::{escape_control, truncate};
use relayer_rest_conformance as conformance;
use relayer_rest_conformance::{Dialect, Reference, Verdict};
use relayer_rest_sandbox::{Digest, GuestRequest, Limits, Module};
use relayer_rest_state::{ChainId, Snapshot, StateReader};
use tokio::task::spawn_blocking;
use tracing::{Instrument, info_span};

use super::active::ActiveModule;
use super::candidate::{Candidate, Source, SwapLimits};
use super::compare::{self, Change, ResponseDifference};
use super::deployment::Progress;
use super::report::{Rejection, SwapStep};
use super::run::{self, MAX_BYTES, MAX_REQUESTS};
use super::service::ModuleService;
use crate::cache::{RecordedResponse, RequestRef, RequestStats};

/// A candidate that may not serve, and why.
#[derive(Debug)]
pub(super) struct Rejected(pub(super) Rejection, pub(super) String);

/// The findings about a candidate that may serve.
pub(super) struct PreflightReport {
    pub(super) module: Module,
    pub(super) compared: usize,
    pub(super) differences: Vec<ResponseDifference>,
    /// Its responses to the compared requests.
    pub(super) responses: Vec<Arc<RecordedResponse>>,
}

impl PreflightReport {
    /// Creates the report on a candidate that was not compared.
    fn new(module: Module) -> Self {
        Self { module, compared: 0, differences: Vec::new(), responses: Vec::new() }
    }
}

/// The preflight of a candidate.
pub(super) struct Preflight {
    pub(super) service: Arc<ModuleService>,
    pub(super) limits: SwapLimits,
    pub(super) progress: Arc<Progress>,
    pub(super) candidate: Candidate,
    pub(super) dialect: Dialect,
    /// The active module; `None` if the mount has none yet.
    pub(super) active: Option<Arc<ActiveModule>>,
    pub(super) state: StateReader,
}

/// The thread on which a preflight runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PreflightThread {
    /// The thread of the caller, which waits for it.
    Caller,
    /// The mount's background thread, which leaves the processors to requests.
    Background,
}

/// The bytes of a candidate, from the first step.
struct CandidateFile {
    name: String,
    bytes: Bytes,
    digest: Digest,
}

/// Returns the requests that every candidate for the API is run on: all of the API's, for the
/// first [`MAX_REQUESTS`] chains.
fn of_api(snapshot: &Snapshot) -> Vec<Arc<GuestRequest>> {
    let chains = snapshot.chain_ids().value().as_ref().map_or(&[][..], |ids| ids);
    let chains = chains.iter().take(MAX_REQUESTS).map(ChainId::as_str);
    let requests = conformance::targets(chains).filter_map(|target| {
        let target = PathAndQuery::try_from(target).ok()?;
        Some(Arc::new(GuestRequest::new(Method::GET, target, HeaderMap::new())))
    });
    requests.collect()
}

/// Adds requests that no client sent, unless they are there already.
fn add(requests: &mut Vec<RequestStats>, more: &[Arc<GuestRequest>]) {
    let key = |request: &GuestRequest| (request.method.clone(), request.target.clone());
    let mut known: HashSet<_> = requests.iter().map(|stats| key(&stats.request)).collect();
    let new = more.iter().filter(|request| known.insert(key(request)));
    let new = new.map(Arc::clone);
    requests.extend(new.map(|request| RequestStats { request, hits: 0, response: None }));
}

impl Preflight {
    /// Runs the preflight. Returns `None` if the candidate is the active module. The
    /// preflight is cancelled when the returned future is dropped; but a compilation in
    /// this process, for lack of a code cache with a compiler, runs to its end.
    pub(super) async fn start(
        self,
        thread: PreflightThread,
    ) -> Result<Option<PreflightReport>, Rejected> {
        let service = Arc::clone(&self.service);
        // Tells its log lines apart from those of the active module.
        let name = escape_control(&truncate(&self.candidate.source.name()));
        let span = info_span!("candidate", mount = %service.path, name);
        let checks = self.run_checks().instrument(span);
        if thread == PreflightThread::Caller {
            return checks.await;
        }
        let result = service.background.run(checks).await;
        result.map_err(|error| {
            Rejected(Rejection::Host, format!("the host cannot run the preflight: {error}"))
        })?
    }

    async fn run_checks(self) -> Result<Option<PreflightReport>, Rejected> {
        let file = {
            let _step = self.progress.begin(SwapStep::Read);
            self.read().await?
        };
        let module = {
            let _step = self.progress.begin(SwapStep::Compile);
            match self.compile(&file).await? {
                Some(module) => module,
                None => return Ok(None),
            }
        };
        if self.is_known_to_pass() {
            return Ok(Some(PreflightReport::new(module)));
        }
        let verdict = {
            let _step = self.progress.begin(SwapStep::Probe);
            self.probe(&module).await.map_err(|error| {
                let message = format!("cannot be compared with the bundled module: {error}");
                self.rejected(Rejection::Host, &file.name, &message)
            })?
        };
        self.progress.judged(&verdict);
        if let Some(rejected) = self.rejection(&file, &verdict) {
            return Err(rejected);
        }
        let _step = self.progress.begin(SwapStep::Compare);
        // Its counters are separate, so that the comparison does not count as requests of
        // clients.
        let active = self.active.as_ref().map(|active| active.module().clone().afresh());
        let mut differences = Vec::new();
        let mut responses = Vec::new();
        let mut bytes = 0;
        // The most frequent requests now, on the state as of now.
        let snapshot = self.state.snapshot();
        for stats in &self.requests(&snapshot) {
            let response = self.run(&module, &stats.request, &snapshot).await.map_err(|error| {
                let GuestRequest { method, target, .. } = &*stats.request;
                let message =
                    format!("{method} {}: {}", truncate(target.as_str()), truncate(&error));
                self.rejected(Rejection::Failures, &file.name, &message)
            })?;
            response.set_hits(stats.hits);
            if let Some(active) = &active {
                differences.extend(self.difference(active, stats, &response, &snapshot).await);
            }
            bytes += response.plain().body.len();
            responses.push(response);
            if bytes > MAX_BYTES {
                break;
            }
        }
        let compared = responses.len();
        Ok(Some(PreflightReport { module, compared, differences, responses }))
    }

    /// Returns whether the candidate needs no probe: the bundled modules conform, and run
    /// under the default limits.
    fn is_known_to_pass(&self) -> bool {
        self.candidate.source.is_bundled() && *self.service.engine.limits() == Limits::default()
    }

    fn requests(&self, snapshot: &Snapshot) -> Vec<RequestStats> {
        let hottest =
            |active: &Arc<ActiveModule>| self.service.cache.hottest(active.module(), MAX_REQUESTS);
        let mut requests = self.active.as_ref().map(hottest).unwrap_or_default();
        if self.is_api() {
            add(&mut requests, &of_api(snapshot));
        }
        let more = &self.candidate.requests;
        add(&mut requests, &more[..more.len().min(MAX_REQUESTS)]);
        requests
    }

    fn is_api(&self) -> bool {
        !self.service.is_extension()
    }

    /// Reads the candidate, and checks its size, its digest and whether it is
    /// quarantined.
    async fn read(&self) -> Result<CandidateFile, Rejected> {
        let name = self.candidate.source.name();
        if self.service.registries.requires_signature() && !self.candidate.source.is_signed() {
            let message = "has no signature, which the settings require; \
                           push it to a registry, and sign it there with `cosign sign --key`";
            return Err(self.rejected(Rejection::Unsigned, &name, message));
        }
        let read = match &self.candidate.source {
            // The registry may not respond, and the time of a swap is limited.
            source @ Source::Registry(_) => {
                let source = source.clone();
                let size = self.limits.size;
                let read = spawn_blocking(move || source.read(size)).await;
                read.unwrap_or_else(|error| Err((Rejection::Host, error.to_string())))
            }
            source => source.read(self.limits.size),
        };
        let bytes = read.map_err(|(reason, message)| self.rejected(reason, &name, &message))?;
        let digest = Digest::new(&bytes);
        self.progress.read(digest);
        if let Some(wanted) = self.candidate.sha256
            && wanted != digest
        {
            let message = format!(
                "SHA-256 mismatch: expected {wanted}, found {digest}; \
                 give the expected file, or the digest of this one"
            );
            return Err(self.rejected(Rejection::DigestMismatch, &name, &message));
        }
        if let Some(reason) = self.service.slot.reason_against(digest)
            && !self.candidate.force
        {
            let message = format!(
                "quarantined: {reason}; \
                 swap in a corrected module, or this one with --force"
            );
            return Err(self.rejected(Rejection::Quarantined, &name, &message));
        }
        Ok(CandidateFile { name, bytes, digest })
    }

    /// Compiles the candidate and checks it against the contract. Returns `None` if it is
    /// the active module.
    async fn compile(&self, file: &CandidateFile) -> Result<Option<Module>, Rejected> {
        if self.active.as_ref().is_some_and(|active| active.module().digest() == file.digest) {
            return Ok(None);
        }
        let ModuleService { engine, path, name, .. } = &*self.service;
        let module = if self.candidate.source.is_bundled() {
            Module::from_bytes(engine, &file.name, &file.bytes)
        } else {
            let memory = self.limits.memory;
            Module::from_untrusted_bytes(engine, &file.name, &file.bytes, memory).await
        };
        module
            .map(|module| Some(module.named(name).mounted_at(path.as_str())))
            .map_err(|error| Rejected(Rejection::Invalid, format!("mount {path}: {error}")))
    }

    async fn probe(&self, module: &Module) -> Result<Verdict, Box<dyn Error + Send + Sync>> {
        let reference = if self.is_api() {
            let active = self.active.iter().map(|active| active.module());
            let loaded: Vec<_> = active.chain([module]).collect();
            self.service.references.get(self.dialect, &loaded).await?
        } else {
            Reference::Extension
        };
        let present = Some(self.state.snapshot());
        Ok(conformance::probe(module, reference, present).await?)
    }

    fn rejection(&self, file: &CandidateFile, verdict: &Verdict) -> Option<Rejected> {
        let mut failures = verdict.failures();
        let first = failures.next()?;
        let failure = first.failure.as_deref().unwrap_or_default();
        if verdict.fails_to_respond() {
            return Some(self.rejected(Rejection::Failures, &file.name, failure));
        }
        let message = match failures.count() {
            0 => String::new(),
            more => format!(" (and {more} more rules)"),
        };
        let dialect = self.dialect;
        let path = &self.service.path;
        let option =
            if self.is_api() { format!("--dialect {dialect}") } else { format!("--mount {path}") };
        let remedy = match dialect {
            Dialect::Any => "",
            _ => ", choose another --dialect, or name the mount of an extension with --mount",
        };
        let message = format!(
            "does not conform to dialect {dialect}: rule {}: {failure}{message}; \
             list all with `relayer-rest check {option}`{remedy}",
            first.rule
        );
        Some(self.rejected(Rejection::Nonconforming, &file.name, &message))
    }

    fn rejected(&self, reason: Rejection, name: &str, message: &str) -> Rejected {
        let mount = &self.service.path;
        Rejected(reason, format!("mount {mount}: module {name}: {message}"))
    }

    /// Returns how the candidate's response differs from that of the active module.
    async fn difference(
        &self,
        active: &Module,
        stats: &RequestStats,
        response: &Arc<RecordedResponse>,
        snapshot: &Arc<Snapshot>,
    ) -> Option<ResponseDifference> {
        let request_ref = RequestRef::from(&*stats.request);
        let is_current = |response: &&Arc<RecordedResponse>| {
            response.reads().is_valid_for(snapshot, request_ref.query, request_ref.headers)
        };
        let before = match stats.response.as_ref().filter(is_current) {
            Some(response) => Ok(Arc::clone(response)),
            None => self.run(active, &stats.request, snapshot).await,
        };
        let changes = match before {
            Ok(before) => compare::changes(&before, response),
            Err(error) => vec![Change {
                part: "status".to_owned(),
                from: Some(format!("no response: {}", truncate(&error))),
                to: Some(response.status().as_u16().to_string()),
            }],
        };
        let GuestRequest { method, target, .. } = &*stats.request;
        let request = format!("{method} {}", truncate(target.as_str()));
        (!changes.is_empty()).then_some(ResponseDifference { request, count: stats.hits, changes })
    }

    /// Runs a module on a snapshot.
    async fn run(
        &self,
        module: &Module,
        request: &Arc<GuestRequest>,
        snapshot: &Arc<Snapshot>,
    ) -> Result<Arc<RecordedResponse>, String> {
        let permits = self.service.cache.compression_permits();
        run::in_background(module, request, snapshot, permits).await
    }
}
