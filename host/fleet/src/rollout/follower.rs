//! The deployments of a host that a plan asks for, without its connection.
//!
//! A module that is rolled out is compared with the module of the fleet before its activation, so
//! that one is deployed first. If it fails, the module before it stays or becomes active, and the host
//! waits for the next plan.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::message::{MountReport, MountState};
use super::mounts::{ActiveModule, DeployError, Deployment, FleetMounts, Observation};
use super::plan::{MountPlan, Plan, truncated};

/// The time after which a deployment is repeated that did not succeed yet.
const RETRY: Duration = Duration::from_secs(5);

/// The interval in which the active modules are checked.
const CHECK_INTERVAL: Duration = Duration::from_millis(500);

/// The maximum length of a reason in a report, in bytes.
const MAX_REASON: usize = 512;

/// Follows the plan of a fleet on a host.
pub(crate) struct Follower {
    host: String,
    plan: Option<(u64, Plan)>,
    mounts: BTreeMap<String, Followed>,
    next_check: Instant,
}

/// An action of a follower.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Action {
    /// Deploy a module, and stop the deployment in progress to this mount.
    Deploy { attempt: u64, deployment: Deployment },
}

/// A mount of the plan.
#[derive(Debug, Default)]
struct Followed {
    /// The module that was deployed last, or is being deployed.
    target: Target,
    progress: Progress,
    attempt: u64,
}

/// A module, and the roll-out of which it is the new one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Target {
    /// None for the module of the host's settings.
    module: Option<String>,
    rollout: Option<u64>,
}

#[derive(Debug, Default)]
enum Progress {
    /// The module of the settings is active from the start.
    #[default]
    Own,
    Deploying {
        reason: Option<String>,
    },
    Waiting {
        reason: String,
        until: Instant,
    },
    Active(ActiveModule),
    Failed {
        reason: String,
    },
}

impl Follower {
    pub(crate) fn new(host: String, now: Instant) -> Self {
        Self { host, plan: None, mounts: BTreeMap::new(), next_check: now + CHECK_INTERVAL }
    }

    /// Returns the time of the next check of the active modules.
    pub(crate) fn deadline(&self) -> Instant {
        self.next_check
    }

    /// Returns the number of the plan; 0 for none.
    pub(crate) fn plan_number(&self) -> u64 {
        self.plan.as_ref().map_or(0, |(number, _)| *number)
    }

    /// Returns whether it follows a plan.
    pub(crate) fn has_plan(&self) -> bool {
        self.plan.is_some()
    }

    /// Returns whether the modules of the fleet are active that it has apart from roll-outs.
    pub(crate) fn is_ready(&self) -> bool {
        let Some((_, plan)) = &self.plan else { return false };
        plan.mounts.iter().all(|plan| {
            let followed = self.mounts.get(&plan.mount);
            followed.is_some_and(|followed| match followed.progress {
                Progress::Own => plan.module.is_none(),
                Progress::Active(_) | Progress::Failed { .. } => true,
                // It is compared with the one of the fleet.
                Progress::Deploying { .. } | Progress::Waiting { .. } => {
                    followed.target.rollout.is_some()
                }
            })
        })
    }

    /// Follows a plan with its number, if it is newer.
    pub(crate) fn follow(&mut self, number: u64, plan: Plan) -> Vec<Action> {
        if self.has_plan() && number <= self.plan_number() {
            return Vec::new();
        }
        for mount in &plan.mounts {
            self.mounts.entry(mount.mount.clone()).or_default();
        }
        // The coordinator removes no mounts.
        self.plan = Some((number, plan));
        self.act(None)
    }

    /// Notes the result of a deployment.
    pub(crate) fn deployed(
        &mut self,
        mount: &str,
        attempt: u64,
        result: Result<(), DeployError>,
        mounts: &dyn FleetMounts,
        now: Instant,
    ) -> Vec<Action> {
        let Some(followed) = self.mounts.get_mut(mount) else { return Vec::new() };
        if followed.attempt != attempt {
            return Vec::new();
        }
        let until = now + RETRY;
        followed.progress = match (result, mounts.active(mount)) {
            (Ok(()), Some(active)) => Progress::Active(active),
            (Ok(()), None) => {
                let reason = "another module was activated meanwhile".to_owned();
                Progress::Waiting { reason, until }
            }
            (Err(DeployError::Rejected(reason)), _) if followed.target.rollout.is_some() => {
                Progress::Failed { reason: truncated(&reason, MAX_REASON) }
            }
            (Err(DeployError::Rejected(reason) | DeployError::NotYet(reason)), _) => {
                Progress::Waiting { reason: truncated(&reason, MAX_REASON), until }
            }
        };
        self.act(None)
    }

    /// Checks the active modules, and repeats deployments, if it is time.
    pub(crate) fn wake(&mut self, mounts: &dyn FleetMounts, now: Instant) -> Vec<Action> {
        if now < self.next_check {
            return Vec::new();
        }
        self.next_check = now + CHECK_INTERVAL;
        for (mount, followed) in &mut self.mounts {
            let Progress::Active(known) = &mut followed.progress else { continue };
            let active = mounts.active(mount);
            if active.as_ref().is_none_or(|active| active.mount != known.mount) {
                // A reload has replaced it, with the module of the settings.
                followed.target = Target::default();
                followed.progress = Progress::Own;
                continue;
            }
            let Some(active) = active else { continue };
            if followed.target.rollout.is_none() {
                continue;
            }
            if active.digest != known.digest {
                let reason = mounts.failure(mount, &known.digest);
                let reason = reason.unwrap_or_else(|| "another module was activated".to_owned());
                followed.progress = Progress::Failed { reason: truncated(&reason, MAX_REASON) };
            } else if let Some((cause, count)) = active.failures.first_key_value() {
                let reason = format!("{count} of {} runs failed: {cause}", active.runs);
                followed.progress = Progress::Failed { reason };
            } else {
                *known = active;
            }
        }
        self.act(Some(now))
    }

    /// Returns the report on each mount.
    pub(crate) fn reports(&self) -> Vec<MountReport> {
        let Some((_, plan)) = &self.plan else { return Vec::new() };
        let report = |plan: &MountPlan| {
            let followed = self.mounts.get(&plan.mount)?;
            let is_new = followed.target.rollout == Some(plan.rollout.id);
            let state = match &followed.progress {
                Progress::Own => MountState::Active { is_new: false, runs: 0 },
                Progress::Active(active) => MountState::Active { is_new, runs: active.runs },
                Progress::Deploying { reason } => MountState::Deploying { reason: reason.clone() },
                Progress::Waiting { reason, .. } => {
                    MountState::Deploying { reason: Some(reason.clone()) }
                }
                Progress::Failed { reason } => MountState::Failed { reason: reason.clone() },
            };
            Some(MountReport { mount: plan.mount.clone(), rollout: plan.rollout.id, state })
        };
        plan.mounts.iter().filter_map(report).collect()
    }

    /// Begins the deployments that the plan asks for. A deployment that did not succeed yet is
    /// repeated if `now` is given, and late enough.
    fn act(&mut self, now: Option<Instant>) -> Vec<Action> {
        let Some((_, plan)) = &self.plan else { return Vec::new() };
        let mut actions = Vec::new();
        for plan in &plan.mounts {
            let Some(followed) = self.mounts.get_mut(&plan.mount) else { continue };
            let target = followed.next_target(plan, &self.host);
            let reason = match &followed.progress {
                Progress::Waiting { reason, until }
                    if target == followed.target && now.is_some_and(|now| now >= *until) =>
                {
                    Some(reason.clone())
                }
                // The new module has become the module of the fleet.
                Progress::Active(_) if target.module == followed.target.module => {
                    followed.target = target;
                    continue;
                }
                _ if target == followed.target => continue,
                _ => None,
            };
            followed.attempt += 1;
            followed.progress = Progress::Deploying { reason };
            let new = &plan.rollout.new;
            let observation = target.rollout.map(|_| Observation {
                time: new.hold,
                min_requests: new.min_requests,
                expected: new.expected.clone(),
            });
            let (mount, module) = (plan.mount.clone(), target.module.clone());
            followed.target = target;
            let deployment = Deployment { mount, module, observation };
            actions.push(Action::Deploy { attempt: followed.attempt, deployment });
        }
        actions
    }
}

impl Followed {
    /// Returns the module to be deployed next.
    fn next_target(&self, plan: &MountPlan, host: &str) -> Target {
        let of_fleet = Target { module: plan.module.clone(), rollout: None };
        if !plan.rollout.includes(host) {
            return of_fleet;
        }
        let module = Some(plan.rollout.new.module.clone());
        let new = Target { module, rollout: Some(plan.rollout.id) };
        let is_settled = matches!(self.progress, Progress::Own | Progress::Active(_));
        if self.target == new || (self.target.module == plan.module && is_settled) {
            new
        } else {
            of_fleet
        }
    }
}
