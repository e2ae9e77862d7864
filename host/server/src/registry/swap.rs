//! Hot-swap: a candidate becomes the active module in these steps: read, compile, probe,
//! compare, shadow (if requested), warm, activate. Only the last step affects the active module, and it is one
//! store of a pointer. The first module of a mount is deployed in the same way.

use std::sync::Arc;
use std::time::Duration;

use relayer_rest_common::text::escape_control;
use relayer_rest_conformance::Dialect;
use relayer_rest_sandbox::Module;
use relayer_rest_state::StateReader;
use tokio::time::timeout;
use tracing::{info, warn};

use super::active::ActiveModule;
use super::candidate::{Candidate, SwapLimits};
use super::deployment::{Deployment, Progress};
use super::preflight::{Preflight, PreflightReport, PreflightThread, Rejected};
use super::report::{Rejection, SwapOutcome, SwapReport, SwapStep};
use super::service::ModuleService;
use super::shadow::{Shadow, ShadowResult, ShadowRun};
use crate::cache::RecordedResponse;

/// A swap of a mount's module.
pub(super) struct Swap<'a> {
    pub(super) service: &'a Arc<ModuleService>,
    pub(super) deployment: &'a Arc<Deployment>,
    pub(super) limits: &'a SwapLimits,
    pub(super) dialect: Dialect,
    pub(super) state: &'a StateReader,
    pub(super) thread: PreflightThread,
    /// Whether nothing is done if the mount has a module already.
    pub(super) is_first: bool,
}

impl Swap<'_> {
    /// Runs the preflight of a candidate, and activates it if it passes.
    pub(super) async fn run(self, candidate: Candidate) -> SwapReport {
        let name = candidate.source.name();
        let active = self.service.slot.load_full();
        let mut report = SwapReport {
            mount: self.service.path.to_string(),
            candidate: name.clone(),
            from: active.map(|active| active.module().digest().to_string()),
            to: None,
            dialect: self.dialect,
            outcome: SwapOutcome::Unchanged,
            steps: Vec::new(),
            verdict: None,
            compared: 0,
            differences: Vec::new(),
            shadow: None,
        };
        let Some(progress) = Progress::start(self.deployment, name) else {
            let message = format!(
                "mount {}: another deployment is in progress; try again later",
                self.service.path
            );
            report.outcome = SwapOutcome::Rejected { reason: Rejection::Busy, message };
            return report;
        };
        let progress = Arc::new(progress);
        report.outcome = self.deploy(candidate, &progress, &mut report).await;
        if matches!(report.outcome, SwapOutcome::Rejected { .. }) {
            self.service.slot.counts.rejected();
        }
        let findings = progress.interim();
        report.to = findings.digest.map(|digest| digest.to_string());
        report.verdict.clone_from(&findings.verdict);
        report.steps.clone_from(&findings.steps);
        drop(findings);
        report
    }

    async fn deploy(
        &self,
        candidate: Candidate,
        progress: &Arc<Progress>,
        report: &mut SwapReport,
    ) -> SwapOutcome {
        let dry_run = candidate.dry_run;
        let is_known = candidate.is_known;
        let shadow = candidate.shadow.clone();
        let active = self.service.slot.load_full();
        if self.is_first && active.is_some() {
            return SwapOutcome::Unchanged;
        }
        let time = if candidate.source.is_bundled() { Duration::MAX } else { self.limits.time };
        let preflight = Preflight {
            service: Arc::clone(self.service),
            limits: self.limits.clone(),
            progress: Arc::clone(progress),
            candidate,
            dialect: self.dialect,
            active: active.clone(),
            state: self.state.clone(),
        };
        let passed = match timeout(time, preflight.start(self.thread)).await {
            Ok(Ok(Some(passed))) => passed,
            Ok(Ok(None)) => {
                return match active.filter(|_| self.service.circuit().is_open()) {
                    None => SwapOutcome::Unchanged,
                    Some(active) => self.check_now(&active, &report.candidate, dry_run).await,
                };
            }
            Ok(Err(Rejected(reason, message))) => return SwapOutcome::Rejected { reason, message },
            Err(_) => {
                let step = self.deployment.candidate().as_ref().map(|candidate| candidate.step);
                let smaller = if step == Some(SwapStep::Compile) {
                    ", or make the module smaller"
                } else {
                    ""
                };
                let message = format!(
                    "mount {}: module {}: no result within {:?}{}; \
                     raise swap.time in the settings, which a reload applies, \
                     or RELAYER_REST_SWAP_TIME for dev{smaller}",
                    self.service.path,
                    report.candidate,
                    self.limits.time,
                    step.map(|step| format!(" (step {step})")).unwrap_or_default(),
                );
                return SwapOutcome::Rejected { reason: Rejection::Timeout, message };
            }
        };
        let PreflightReport { module, compared, differences, mut responses } = passed;
        (report.compared, report.differences) = (compared, differences);
        if let Some(shadow) = shadow {
            match self.shadow(shadow, active.as_ref(), &module, progress, report).await {
                Ok(newer) => responses = newer,
                Err((reason, message)) => return SwapOutcome::Rejected { reason, message },
            }
        }
        if dry_run {
            return SwapOutcome::DryRun;
        }
        let Some(active) = active else {
            let _step = progress.begin(SwapStep::Activate);
            let new = self.service.slot.fill(module, |module| self.service.known(module));
            return new.map_or_else(|| self.conflict(&report.candidate), |_| SwapOutcome::Swapped);
        };
        {
            let _step = progress.begin(SwapStep::Warm);
            // Like all cached responses, they are valid until the state that they were
            // derived from changes.
            for response in &responses {
                self.service.cache.insert(&module, response);
            }
        }
        let _step = progress.begin(SwapStep::Activate);
        let new = if is_known {
            self.service.slot.exchange_with(module, &active, |module| self.service.known(module))
        } else {
            self.service.slot.exchange(module, &active)
        };
        let Some(new) = new else {
            return self.conflict(&report.candidate);
        };
        let from = active.module().label();
        let to = new.module().label();
        info!(mount = %self.service.path, ?from, ?to, "module swapped");
        SwapOutcome::Swapped
    }

    /// Runs the shadow of a candidate. Returns its responses for the cache.
    async fn shadow(
        &self,
        options: Shadow,
        active: Option<&Arc<ActiveModule>>,
        module: &Module,
        progress: &Arc<Progress>,
        report: &mut SwapReport,
    ) -> Result<Vec<Arc<RecordedResponse>>, (Rejection, String)> {
        let mount = &self.service.path;
        let name = &report.candidate;
        let Some(active) = active else {
            let message = format!(
                "mount {mount}: module {name}: there is no active module to compare it with; swap without --shadow"
            );
            return Err((Rejection::TooFewRequests, message));
        };
        let time = options.time.get();
        let run = ShadowRun {
            service: Arc::clone(self.service),
            active: Arc::clone(active),
            candidate: module.clone(),
            name: name.clone(),
            options,
            state: self.state.clone(),
        };
        let comparisons = run.begin();
        // It receives misses before clients see it.
        let _step = progress.begin_shadow(comparisons.session());
        info!(%mount, candidate = name, ?time, "shadow started");
        let result = comparisons.run().await.map_err(|error| {
            let message =
                format!("mount {mount}: module {name}: the host cannot run the shadow: {error}");
            (Rejection::Host, message)
        })?;
        let ShadowResult { report: shadow, responses, rejection } = result;
        report.shadow = Some(shadow);
        rejection.map_or(Ok(responses), Err)
    }

    fn conflict(&self, name: &str) -> SwapOutcome {
        let message = format!(
            "mount {}: module {name}: another module was activated meanwhile; swap again",
            self.service.path
        );
        SwapOutcome::Rejected { reason: Rejection::Conflict, message }
    }

    /// Runs the health check of a module whose circuit is open, instead of at its next
    /// time.
    async fn check_now(
        &self,
        failed: &Arc<ActiveModule>,
        name: &str,
        dry_run: bool,
    ) -> SwapOutcome {
        let backoff = failed.backoff(&self.service.failure_policy);
        let module = failed.module().clone();
        let failure = match self.service.health_check().run(module, self.state).await {
            Ok(()) if dry_run => return SwapOutcome::DryRun,
            Ok(()) if self.service.close_circuit(failed, backoff) => {
                return SwapOutcome::CircuitClosed;
            }
            Ok(()) => return self.conflict(name),
            Err(reason) => reason,
        };
        let message = format!(
            "mount {}: module {name}: the health check failed, the circuit stays open: {failure}; \
             correct the cause, or swap in another module",
            self.service.path
        );
        SwapOutcome::Rejected { reason: Rejection::Failures, message }
    }
}

/// Logs the outcome of a swap.
pub(super) fn log(report: &SwapReport) {
    let SwapReport { mount, candidate, .. } = report;
    let from = report.from.as_deref().unwrap_or_default();
    let to = report.to.as_deref().unwrap_or_default();
    let differences = report.differences.len();
    match &report.outcome {
        SwapOutcome::Rejected { message, reason } => {
            let error = escape_control(message);
            warn!(mount, candidate, from, to, ?reason, %error, "swap rejected");
        }
        outcome => info!(mount, candidate, from, to, differences, ?outcome, "swap finished"),
    }
}
