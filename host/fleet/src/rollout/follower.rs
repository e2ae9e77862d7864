//! The deployments of a host that a plan asks for, without its connection.
//!
//! A module that is rolled out is compared with the module of the fleet before its activation, so
//! that one is deployed first, and again if the new one fails. A host does not try a module twice in
//! a roll-out.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::message::{MountReport, MountState};
use super::mounts::{
    ActiveModule, Comparison, DeployError, Deployed, Deployment, FleetMounts, Observation,
};
use super::plan::{MAX_REASON, MountPlan, Phase, Plan, truncated};

/// The time after which a deployment is repeated that did not succeed yet.
const RETRY: Duration = Duration::from_secs(5);

/// The interval in which the active modules are checked.
const CHECK_INTERVAL: Duration = Duration::from_millis(500);

/// The number of attempts after which a module that cannot be checked is rejected, and after which
/// a host becomes ready without the module of the fleet that it rejects.
const MAX_ATTEMPTS: u32 = 5;

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
    /// The number of the last deployment.
    attempt: u64,
    /// The deployments of the target that did not succeed, without those that only have to wait.
    failed_attempts: u32,
    /// The last roll-out whose module failed here, and the reason.
    failure: Option<(u64, String)>,
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
    Active {
        /// The module when it was activated: its runs and failures before do not count.
        first: ActiveModule,
        runs: u64,
        compared: Comparison,
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

    /// Returns whether the modules of the fleet are active that it has apart from roll-outs, or are
    /// rejected by this host.
    pub(crate) fn is_ready(&self) -> bool {
        let Some((_, plan)) = &self.plan else { return false };
        plan.mounts.iter().all(|plan| {
            let followed = self.mounts.get(&plan.mount);
            followed.is_some_and(|followed| match followed.progress {
                Progress::Own => plan.module.is_none(),
                Progress::Active { .. } => true,
                Progress::Deploying { .. } | Progress::Waiting { .. } => {
                    // A new module is compared with the one of the fleet.
                    followed.target.rollout.is_some() || followed.failed_attempts >= MAX_ATTEMPTS
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
        self.plan = Some((number, plan));
        self.act(None)
    }

    /// Notes the result of a deployment.
    pub(crate) fn deployed(
        &mut self,
        mount: &str,
        attempt: u64,
        result: Result<Option<Deployed>, DeployError>,
        mounts: &dyn FleetMounts,
        now: Instant,
    ) -> Vec<Action> {
        let followed = self.mounts.get_mut(mount).filter(|followed| followed.attempt == attempt);
        let Some(followed) = followed else { return Vec::new() };
        match result {
            Ok(None) => followed.progress = Progress::Own,
            Ok(Some(Deployed { mount: identity, digest, compared })) => {
                match mounts.active(mount) {
                    Some(first) if (first.mount, &first.digest) == (identity, &digest) => {
                        followed.failed_attempts = 0;
                        followed.progress = Progress::Active { first, runs: 0, compared };
                    }
                    // It was replaced before it was seen.
                    _ => followed.replaced(mounts.failure(mount, &digest), now),
                }
            }
            Err(DeployError::Rejected(reason)) => followed.fail(&reason, now),
            Err(DeployError::Unavailable(reason)) if followed.target.rollout.is_some() => {
                followed.failed_attempts += 1;
                if followed.failed_attempts < MAX_ATTEMPTS {
                    followed.wait(&reason, now);
                } else {
                    followed.fail(&reason, now);
                }
            }
            // A host is not ready while it cannot check the module of the fleet.
            Err(DeployError::Unavailable(reason) | DeployError::Waiting(reason)) => {
                followed.wait(&reason, now);
            }
        }
        self.act(None)
    }

    /// Checks the active modules, and repeats deployments, if it is time.
    pub(crate) fn wake(&mut self, mounts: &dyn FleetMounts, now: Instant) -> Vec<Action> {
        if now < self.next_check {
            return Vec::new();
        }
        self.next_check = now + CHECK_INTERVAL;
        for (mount, followed) in &mut self.mounts {
            let Progress::Active { first, runs, .. } = &mut followed.progress else { continue };
            let active = mounts.active(mount).filter(|active| active.mount == first.mount);
            let Some(active) = active else {
                // A reload has replaced the mount, with the module of the settings.
                followed.target = Target::default();
                followed.progress = Progress::Own;
                continue;
            };
            let is_new = followed.target.rollout.is_some();
            if active.digest != first.digest {
                if is_new {
                    let reason = mounts.failure(mount, &first.digest);
                    followed.replaced(reason, now);
                }
                continue;
            }
            *runs = active.runs.saturating_sub(first.runs);
            if !is_new {
                continue;
            }
            let failures = active.failures.iter().filter_map(|(cause, count)| {
                let before = first.failures.get(cause).copied().unwrap_or(0);
                let new = count.saturating_sub(before);
                (new > 0).then(|| format!("{new} because {cause}"))
            });
            let failures: Vec<_> = failures.collect();
            if !failures.is_empty() {
                let reason = format!("of {runs} runs, failed {}", failures.join(", "));
                followed.fail(&reason, now);
            }
        }
        self.act(Some(now))
    }

    /// Returns the report on each mount.
    pub(crate) fn reports(&self) -> Vec<MountReport> {
        let Some((_, plan)) = &self.plan else { return Vec::new() };
        let report = |plan: &MountPlan| {
            let followed = self.mounts.get(&plan.mount)?;
            let (mount, rollout) = (plan.mount.clone(), plan.rollout.id);
            Some(MountReport { mount, rollout, state: followed.state(plan) })
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
                Progress::Active { .. } if target.module == followed.target.module => {
                    followed.target = target;
                    continue;
                }
                _ if target == followed.target => continue,
                _ => None,
            };
            if target != followed.target {
                followed.failed_attempts = 0;
            }
            followed.attempt += 1;
            followed.progress = Progress::Deploying { reason };
            let new = &plan.rollout.new;
            let observation = target.rollout.map(|_| Observation {
                time: new.hold,
                min_requests: new.min_requests,
                max_slowdown: new.max_slowdown,
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
        let id = plan.rollout.id;
        if !plan.rollout.includes(host) || self.failure_in(id).is_some() {
            return of_fleet;
        }
        let new = Target { module: Some(plan.rollout.new.module.clone()), rollout: Some(id) };
        let is_settled = matches!(self.progress, Progress::Own | Progress::Active { .. });
        if self.target == new || (self.target.module == plan.module && is_settled) {
            new
        } else {
            of_fleet
        }
    }

    fn failure_in(&self, rollout: u64) -> Option<&str> {
        let failure = self.failure.as_ref().filter(|(failed, _)| *failed == rollout);
        failure.map(|(_, reason)| &**reason)
    }

    fn state(&self, plan: &MountPlan) -> MountState {
        let rollout = &plan.rollout;
        if let Some(reason) = self.failure_in(rollout.id) {
            return MountState::Failed { reason: reason.to_owned() };
        }
        let is_new = match rollout.phase {
            Phase::Completed => self.target.module.as_ref() == Some(&rollout.new.module),
            _ => self.target.rollout == Some(rollout.id),
        };
        match &self.progress {
            Progress::Own => {
                MountState::Active { is_new: false, runs: 0, compared: Comparison::default() }
            }
            Progress::Active { runs, compared, .. } => {
                MountState::Active { is_new, runs: *runs, compared: *compared }
            }
            Progress::Deploying { reason } => MountState::Deploying { reason: reason.clone() },
            Progress::Waiting { reason, .. } => {
                MountState::Deploying { reason: Some(reason.clone()) }
            }
        }
    }

    /// Notes that another module was activated.
    fn replaced(&mut self, failure: Option<String>, now: Instant) {
        let reason = failure.unwrap_or_else(|| "another module was activated".to_owned());
        self.fail(&reason, now);
    }

    /// Notes that the target failed. The host returns to the module of the fleet, or tries that one
    /// again.
    fn fail(&mut self, reason: &str, now: Instant) {
        if let Some(rollout) = self.target.rollout {
            self.failure = Some((rollout, truncated(reason, MAX_REASON)));
        } else {
            self.failed_attempts = self.failed_attempts.saturating_add(1);
        }
        self.wait(reason, now);
    }

    fn wait(&mut self, reason: &str, now: Instant) {
        let reason = truncated(reason, MAX_REASON);
        self.progress = Progress::Waiting { reason, until: now + RETRY };
    }
}

#[cfg(test)]
mod tests {
    use super::{Action, Follower, MAX_ATTEMPTS, RETRY};
    use crate::rollout::message::MountState;
    use crate::rollout::mounts::{
        ActiveModule, Comparison, DeployError, Deployed, Deployment, FleetMounts,
    };
    use crate::rollout::plan::tests::{module, new_rollout};
    use crate::rollout::plan::{Phase, Plan};
    use futures_util::future::BoxFuture;
    use std::collections::BTreeMap;
    use std::time::{Duration, Instant};

    /// A mount with this module, its runs and its failures.
    struct Mounts(String, u64, u64);

    impl FleetMounts for Mounts {
        fn deploy(
            &self,
            _: Deployment,
        ) -> BoxFuture<'static, Result<Option<Deployed>, DeployError>> {
            unreachable!("the tests make the results")
        }

        fn active(&self, _: &str) -> Option<ActiveModule> {
            let failures = BTreeMap::from([("it trapped".to_owned(), self.2)]);
            Some(ActiveModule { mount: 1, digest: self.0.clone(), runs: self.1, failures })
        }

        fn failure(&self, _: &str, digest: &str) -> Option<String> {
            (digest == module(2)).then(|| "it failed".to_owned())
        }
    }

    /// Returns a follower of a plan with the module 1, in which the module 2 is rolled out to all
    /// hosts, and the number of its deployment.
    fn in_rollout(now: Instant) -> (Follower, u64) {
        let mut plan = Plan::new();
        plan.deploy("/", new_rollout(2)).unwrap();
        plan.mounts[0].module = Some(module(1));
        plan.mounts[0].rollout.phase = Phase::Stage { stage: 2, last: u64::MAX };
        let mut follower = Follower::new("host".to_owned(), now);
        let first = attempt(&follower.follow(1, plan), &module(1), false);
        assert!(!follower.is_ready());
        let mounts = Mounts(module(1), 0, 0);
        let actions = follower.deployed("/", first, Ok(Some(deployed(&module(1)))), &mounts, now);
        assert!(follower.is_ready());
        (follower, attempt(&actions, &module(2), true))
    }

    fn deployed(digest: &str) -> Deployed {
        Deployed { mount: 1, digest: digest.to_owned(), compared: Comparison::default() }
    }

    /// Returns the number of the only deployment, which is of this module.
    #[track_caller]
    fn attempt(actions: &[Action], module: &str, is_compared: bool) -> u64 {
        let [Action::Deploy { attempt, deployment }] = actions else { panic!("{actions:?}") };
        assert_eq!(deployment.module.as_deref(), Some(module));
        assert_eq!(deployment.observation.is_some(), is_compared);
        *attempt
    }

    fn state(follower: &Follower) -> MountState {
        follower.reports().remove(0).state
    }

    #[test]
    fn a_module_that_is_replaced_before_it_is_seen_has_failed() {
        let now = Instant::now();
        let (mut follower, number) = in_rollout(now);
        let mounts = Mounts(module(1), 1000, 0);
        let actions = follower.deployed("/", number, Ok(Some(deployed(&module(2)))), &mounts, now);
        assert_eq!(state(&follower), MountState::Failed { reason: "it failed".to_owned() });
        let number = attempt(&actions, &module(1), false);
        let actions = follower.deployed("/", number, Ok(Some(deployed(&module(1)))), &mounts, now);
        assert_eq!(actions, [], "it is not tried again");
        assert!(matches!(state(&follower), MountState::Failed { .. }));
        assert!(follower.is_ready());
    }

    #[test]
    fn runs_and_failures_before_do_not_count() {
        let now = Instant::now();
        let (mut follower, number) = in_rollout(now);
        let before = Mounts(module(2), 10, 5);
        assert_eq!(
            follower.deployed("/", number, Ok(Some(deployed(&module(2)))), &before, now),
            []
        );
        let mut wake = |runs, failures, after: u64| {
            let now = now + Duration::from_secs(after);
            let actions = follower.wake(&Mounts(module(2), runs, failures), now);
            (actions, state(&follower))
        };
        let (actions, reported) = wake(13, 5, 1);
        let compared = Comparison::default();
        assert_eq!(actions, []);
        assert_eq!(reported, MountState::Active { is_new: true, runs: 3, compared });
        let (actions, reported) = wake(14, 6, 2);
        attempt(&actions, &module(1), false);
        let reason = "of 4 runs, failed 1 because it trapped".to_owned();
        assert_eq!(reported, MountState::Failed { reason });
    }

    #[test]
    fn a_host_is_ready_without_a_module_that_it_rejects_but_not_without_its_registry() {
        let mut plan = Plan::new();
        plan.deploy("/", new_rollout(1)).unwrap();
        plan.mounts[0].module = Some(module(1));
        plan.mounts[0].rollout.phase = Phase::Completed;
        let mounts = Mounts("of the settings".to_owned(), 0, 0);
        for (error, is_ready) in [
            (DeployError::Rejected as fn(String) -> DeployError, true),
            (DeployError::Unavailable, false),
            (DeployError::Waiting, false),
        ] {
            let mut now = Instant::now();
            let mut follower = Follower::new("host".to_owned(), now);
            let mut number = attempt(&follower.follow(1, plan.clone()), &module(1), false);
            for _ in 0..MAX_ATTEMPTS {
                assert!(!follower.is_ready());
                let result = Err(error("a reason".to_owned()));
                assert_eq!(follower.deployed("/", number, result, &mounts, now), []);
                now += RETRY;
                number = attempt(&follower.wake(&mounts, now), &module(1), false);
            }
            assert_eq!(follower.is_ready(), is_ready);
            let reason = Some("a reason".to_owned());
            assert_eq!(state(&follower), MountState::Deploying { reason });
        }
    }
}
