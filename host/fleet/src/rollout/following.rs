//! Follows the plan of a fleet on this host, and reports the results.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use async_nats::Client;
use futures_util::{FutureExt, StreamExt};
use relayer_rest_common::text::for_log;
use relayer_rest_state::StateReader;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{MissedTickBehavior, interval, interval_at, sleep_until};
use tracing::{info, warn};

use super::follower::{Action, Follower};
use super::message::{Call, HostReport};
use super::mounts::{DeployError, Deployed, Deployment, FleetMounts};
use super::plan::{MAX_NAME, truncated};
use super::plan_store;
use crate::connection::Connection;
use crate::message::{Message, VERSION};
use crate::subjects::Subjects;

/// The interval in which the plan is read. Requests for reports name the newest plan meanwhile.
const READ_INTERVAL: Duration = Duration::from_mins(10);

/// The interval in which the plan is read until it is known.
const FIRST_READ_INTERVAL: Duration = Duration::from_secs(1);

/// The maximum time within which a host reports.
const MAX_SPREAD: Duration = Duration::from_mins(1);

/// Follows the plan of a fleet.
pub struct Following {
    client: Client,
    subjects: Subjects,
    host: String,
    mounts: Arc<dyn FleetMounts>,
    state: StateReader,
}

/// A deployment that has ended.
struct Ended {
    mount: String,
    attempt: u64,
    result: Result<Option<Deployed>, DeployError>,
}

/// The deployments in progress.
struct Deployments {
    mounts: Arc<dyn FleetMounts>,
    tasks: JoinSet<()>,
    by_mount: HashMap<String, AbortHandle>,
    results: UnboundedSender<Ended>,
}

impl Following {
    pub(crate) fn new(
        connection: &Connection,
        host: &str,
        mounts: Arc<dyn FleetMounts>,
        state: StateReader,
    ) -> Self {
        let Connection { client, subjects, .. } = connection;
        let host = truncated(host, MAX_NAME);
        Self { client: client.clone(), subjects: subjects.clone(), host, mounts, state }
    }

    /// Deploys the modules of the fleet to this host until the future is dropped. `on_ready` is
    /// called when those are active that the fleet has apart from roll-outs.
    pub async fn run(self, on_ready: impl FnOnce()) {
        let Self { client, subjects, host, mounts, .. } = &self;
        let plans = client.subscribe(subjects.planned()).await;
        let calls = client.subscribe(subjects.call()).await;
        let (Ok(mut plans), Ok(mut calls)) = (plans, calls) else { return };
        let (results, mut deployed) = unbounded_channel();
        let mut deployments = Deployments::new(Arc::clone(mounts), results);
        let mut follower = Follower::new(host.clone(), Instant::now());
        let mut reads = interval(FIRST_READ_INTERVAL);
        reads.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut on_ready = Some(on_ready);
        let mut report_at = None;
        let mut is_known = false;
        let mut connects = 0;
        loop {
            let actions = tokio::select! {
                biased;
                () = sleep_until(follower.deadline().into()) => {
                    let now = client.statistics().connects.load(Ordering::Relaxed);
                    if std::mem::replace(&mut connects, now) != now {
                        // Plans and requests for reports may be lost.
                        reads.reset_immediately();
                    }
                    follower.wake(&**mounts, Instant::now())
                }
                () = due(report_at) => {
                    report_at = None;
                    client.publish(subjects.report(), self.report(&follower).encode()).await.ok();
                    continue;
                }
                Some(Ended { mount, attempt, result }) = deployed.recv() => {
                    log(&mount, &result);
                    follower.deployed(&mount, attempt, result, &**mounts, Instant::now())
                }
                _ = reads.tick() => match plan_store::read(client, subjects).await {
                    Ok((number, plan)) => {
                        if !std::mem::replace(&mut is_known, true) {
                            // Not all hosts of a fleet at once.
                            let first = READ_INTERVAL.mul_f64(fastrand::f64());
                            reads = interval_at(tokio::time::Instant::now() + first, READ_INTERVAL);
                            reads.set_missed_tick_behavior(MissedTickBehavior::Delay);
                        }
                        follower.follow(number, plan)
                    }
                    Err(problem) => {
                        if !is_known {
                            warn!(problem = %for_log(&problem), "plan of the fleet not read; retrying");
                        }
                        continue;
                    }
                },
                Some(message) = plans.next() => match plan_store::decode(&message) {
                    Ok((number, plan)) => follower.follow(number, plan),
                    Err(problem) => {
                        warn!(problem = %for_log(&problem), "plan of the fleet rejected");
                        continue;
                    }
                },
                Some(message) = calls.next() => {
                    if let Ok(call) = Call::decode(&message.payload) {
                        if call.plan > follower.plan_number() {
                            reads.reset_immediately();
                        }
                        let spread = call.spread.min(MAX_SPREAD).mul_f64(fastrand::f64());
                        report_at.get_or_insert(Instant::now() + spread);
                    }
                    continue;
                }
            };
            for Action::Deploy { attempt, deployment } in actions {
                deployments.begin(attempt, deployment);
            }
            if follower.is_ready()
                && let Some(on_ready) = on_ready.take()
            {
                on_ready();
            }
        }
    }

    fn report(&self, follower: &Follower) -> HostReport {
        let snapshot = self.state.snapshot();
        let now = Instant::now();
        let age = snapshot.stale().map(|stale| now.duration_since(stale.since).as_secs());
        HostReport {
            version: VERSION,
            host: self.host.clone(),
            plan: follower.plan_number(),
            generation: snapshot.fleet_generation(),
            age,
            mounts: follower.reports(),
        }
    }
}

impl Deployments {
    fn new(mounts: Arc<dyn FleetMounts>, results: UnboundedSender<Ended>) -> Self {
        Self { mounts, tasks: JoinSet::new(), by_mount: HashMap::new(), results }
    }

    /// Begins a deployment instead of the one to the same mount.
    fn begin(&mut self, attempt: u64, deployment: Deployment) {
        let mount = deployment.mount.clone();
        if let Some(running) = self.by_mount.remove(&mount) {
            running.abort();
        }
        let (mounts, results) = (Arc::clone(&self.mounts), self.results.clone());
        let module = deployment.module.as_deref().map(for_log);
        info!(mount = %for_log(&mount), module, "deploying a module of the fleet");
        let to = mount.clone();
        let task = self.tasks.spawn(async move {
            let deployed = AssertUnwindSafe(mounts.deploy(deployment)).catch_unwind().await;
            let panicked = |_| Err(DeployError::Unavailable("the deployment panicked".to_owned()));
            let result = deployed.unwrap_or_else(panicked);
            results.send(Ended { mount: to, attempt, result }).ok();
        });
        self.by_mount.insert(mount, task);
        while self.tasks.try_join_next().is_some() {}
    }
}

fn log(mount: &str, result: &Result<Option<Deployed>, DeployError>) {
    let mount = for_log(mount);
    match result {
        Ok(_) => info!(%mount, "module of the fleet active"),
        Err(DeployError::Rejected(reason)) => {
            warn!(%mount, reason = %for_log(reason), "module of the fleet rejected");
        }
        Err(error) => {
            let reason = for_log(error.reason());
            warn!(%mount, %reason, "module of the fleet not yet active; retrying");
        }
    }
}

/// Waits until a time, or forever without one.
async fn due(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time.into()).await,
        None => std::future::pending().await,
    }
}
