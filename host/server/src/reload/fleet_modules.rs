//! Deploys the modules of a fleet to the mounts of this host.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use relayer_rest_fleet::{ActiveModule, DeployError, Deployment, FleetMounts, Observation};
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
    fn deploy(&self, deployment: Deployment) -> BoxFuture<'static, Result<(), DeployError>> {
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
            mount: Arc::as_ptr(&mount).addr(),
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
) -> Result<(), DeployError> {
    let Deployment { mount: path, module, observation } = deployment;
    let mount = modules.registry.at(&path).ok_or_else(|| {
        DeployError::Rejected(format!("unknown mount {path}; add it to the settings of this host"))
    })?;
    let candidate = match module {
        None => modules.specified(&path).await.ok_or_else(|| {
            DeployError::NotYet(format!("mount {path}: a reload is replacing it"))
        })?,
        Some(reference) => {
            let reference: Reference =
                reference.parse().map_err(|error| DeployError::Rejected(format!("{error}")))?;
            let location = ModuleLocation::Registry(reference);
            Candidate::new(Source::new(location, mount.registries()))
        }
    };
    let shadow = observation.map(shadow).transpose().map_err(DeployError::Rejected)?;
    // The operator of the fleet decides whether a module that failed before is tried again.
    let candidate = Candidate { force: true, shadow, ..candidate };
    match mount.swap(candidate, state).await.outcome {
        SwapOutcome::Rejected { reason, message } => Err(match reason {
            Rejection::Busy
            | Rejection::Unreadable
            | Rejection::Conflict
            | Rejection::TooFewRequests
            | Rejection::Cancelled
            | Rejection::Timeout
            | Rejection::Host => DeployError::NotYet(message),
            Rejection::TooLarge
            | Rejection::DigestMismatch
            | Rejection::Unsigned
            | Rejection::Quarantined
            | Rejection::Invalid
            | Rejection::Failures
            | Rejection::Nonconforming
            | Rejection::Differences => DeployError::Rejected(message),
        }),
        SwapOutcome::Swapped
        | SwapOutcome::DryRun
        | SwapOutcome::Unchanged
        | SwapOutcome::CircuitClosed => Ok(()),
    }
}

/// Returns the shadow that compares a module as the plan requests.
fn shadow(observation: Observation) -> Result<Shadow, String> {
    let Observation { time, min_requests, expected } = observation;
    let time = ShadowTime::try_from(time).map_err(|error| error.to_string())?;
    let expected = expected.parse().map_err(|error| format!("expected changes: {error}"))?;
    Ok(Shadow { expected, min_requests, abort: true, ..Shadow::new(time) })
}
