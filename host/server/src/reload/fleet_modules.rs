//! Deploys the modules of a fleet to the mounts of this host.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use relayer_rest_fleet::{
    ActiveModule, Comparison, DeployError, Deployed, Deployment, FleetMounts, Observation,
};
use relayer_rest_oci::Reference;
use relayer_rest_sandbox::Failures;
use relayer_rest_state::StateReader;

use super::modules::Modules;
use crate::registry::{
    Candidate, ModuleLocation, Mount, Rejection, Shadow, ShadowTime, Source, SwapOutcome,
};

/// The mounts of a server, for the modules of a fleet.
pub struct FleetModules {
    modules: Arc<Modules>,
    state: StateReader,
}

impl FleetModules {
    /// Deploys to these mounts, whose server reads this state.
    #[must_use]
    pub fn new(modules: Arc<Modules>, state: StateReader) -> Self {
        Self { modules, state }
    }

    fn mount(&self, path: &str) -> Option<Arc<Mount>> {
        self.modules.registry.at(path)
    }
}

impl FleetMounts for FleetModules {
    fn deploy(
        &self,
        deployment: Deployment,
    ) -> BoxFuture<'static, Result<Option<Deployed>, DeployError>> {
        let (modules, state) = (Arc::clone(&self.modules), self.state.clone());
        Box::pin(async move { deploy(&modules, deployment, &state).await })
    }

    fn active(&self, path: &str) -> Option<ActiveModule> {
        let mount = self.mount(path)?;
        let status = mount.status();
        let module = status.module()?;
        let Failures { trapped, timed_out, invalid, overloaded: _, host: _ } = module.failures;
        let failures = [
            ("it trapped", trapped),
            ("it took too long", timed_out),
            ("its response is not allowed", invalid),
        ];
        let failures = failures.into_iter().filter(|(_, count)| *count > 0);
        Some(ActiveModule {
            mount: mount.id(),
            digest: module.digest.clone(),
            runs: module.runs,
            failures: failures.map(|(cause, count)| (cause.to_owned(), count)).collect(),
        })
    }

    fn failure(&self, path: &str, digest: &str) -> Option<String> {
        let quarantined = self.mount(path)?.status().quarantined;
        quarantined.into_iter().find(|module| module.digest == digest).map(|module| module.reason)
    }
}

async fn deploy(
    modules: &Modules,
    deployment: Deployment,
    state: &StateReader,
) -> Result<Option<Deployed>, DeployError> {
    let Deployment { mount: path, module, observation } = deployment;
    let specified = match &module {
        None => match modules.specified(&path).await {
            None => return Ok(None),
            specified => specified,
        },
        Some(_) => None,
    };
    let mount = modules.registry.at(&path).ok_or_else(|| {
        DeployError::Rejected(format!("unknown mount {path}; add it to the settings of this host"))
    })?;
    let candidate = match (module, specified) {
        (Some(reference), _) => {
            let reference: Reference =
                reference.parse().map_err(|error| DeployError::Rejected(format!("{error}")))?;
            let location = ModuleLocation::Registry(reference);
            Candidate::new(Source::new(location, mount.registries()))
        }
        (None, Some(specified)) => specified,
        (None, None) => return Ok(None),
    };
    // A module of the fleet has been in service on other hosts, and the module before it may be the
    // one that the fleet has rolled back.
    let is_known = observation.is_none();
    // Without an active module, there is nothing to compare.
    let shadow = observation.filter(|_| mount.module().is_some()).map(shadow).transpose();
    let shadow = shadow.map_err(DeployError::Rejected)?;
    // The operator of the fleet decides whether a module that failed before is tried again.
    let candidate = Candidate { force: true, is_known, shadow, ..candidate };
    let report = mount.swap(candidate, state).await;
    match report.outcome {
        SwapOutcome::Rejected { reason, message } => Err(match reason {
            Rejection::Busy
            | Rejection::Conflict
            | Rejection::TooFewRequests
            | Rejection::Cancelled => DeployError::Waiting(message),
            Rejection::Unreadable | Rejection::Timeout | Rejection::Host => {
                DeployError::Unavailable(message)
            }
            Rejection::TooLarge
            | Rejection::DigestMismatch
            | Rejection::Unsigned
            | Rejection::Quarantined
            | Rejection::Invalid
            | Rejection::Failures
            | Rejection::Nonconforming
            | Rejection::Differences
            | Rejection::TooSlow => DeployError::Rejected(message),
        }),
        SwapOutcome::Swapped
        | SwapOutcome::DryRun
        | SwapOutcome::Unchanged
        | SwapOutcome::CircuitClosed => {
            let compared = report
                .shadow
                .map(|shadow| Comparison { requests: shadow.requests, expected: shadow.expected });
            Ok(Some(Deployed {
                mount: mount.id(),
                digest: report.to.or(report.from).unwrap_or_default(),
                compared: compared.unwrap_or_default(),
            }))
        }
    }
}

/// Returns the shadow that compares a module as the plan requests.
fn shadow(observation: Observation) -> Result<Shadow, String> {
    let Observation { time, min_requests, max_slowdown, expected } = observation;
    let time = ShadowTime::try_from(time).map_err(|error| error.to_string())?;
    let expected = expected.parse().map_err(|error| format!("expected changes: {error}"))?;
    let max_slowdown = Some(max_slowdown);
    Ok(Shadow { expected, min_requests, max_slowdown, abort: true, ..Shadow::new(time) })
}
