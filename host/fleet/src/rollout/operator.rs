//! The requests of an operator to a fleet.

use std::collections::BTreeMap;
use std::time::Duration;

use async_nats::Client;
use async_nats::jetstream::Context;
use futures_util::StreamExt;
use relayer_rest_common::text::for_log;
use serde::Serialize;
use tokio::time::{Instant, timeout, timeout_at};

use super::message::{Call, HostReport};
use super::plan::{NewRollout, Plan, PlanError};
use super::plan_store;
use crate::address::FleetAddress;
use crate::connection::{Change, Connection, FleetError};
use crate::message::{Message, VERSION};
use crate::settings::FleetSettings;
use crate::subjects::Subjects;

/// The time limit of a connection.
const CONNECT_TIME: Duration = Duration::from_secs(5);

/// The number of attempts to change a plan that others change at the same time.
const MAX_ATTEMPTS: usize = 20;

/// A connection of an operator to a fleet.
pub struct Operator {
    client: Client,
    jetstream: Context,
    subjects: Subjects,
    address: FleetAddress,
}

/// The plan of a fleet, and the reports of its hosts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FleetStatus {
    /// The number of the plan; 0 for none.
    pub number: u64,
    /// The plan.
    pub plan: Plan,
    /// The reports, by the name of the host.
    pub hosts: Vec<HostReport>,
}

/// The reason why a request of an operator failed.
#[derive(Debug, thiserror::Error)]
pub enum OperatorError {
    /// The settings are invalid.
    #[error(transparent)]
    Settings(#[from] FleetError),
    /// The servers cannot be reached.
    #[error(
        "fleet {address}: not connected: {problem}; check the address, and that nats-server runs"
    )]
    NotConnected {
        /// The fleet.
        address: FleetAddress,
        /// The problem.
        problem: String,
    },
    /// The plan cannot be read or changed.
    #[error(
        "fleet {address}: the plan cannot be {what}: {problem}; check that a host publishes to the fleet, and the permissions of this user"
    )]
    Plan {
        /// The fleet.
        address: FleetAddress,
        /// The attempt: `read` or `changed`.
        what: &'static str,
        /// The problem.
        problem: String,
    },
    /// The change is not possible.
    #[error("fleet {address}: {problem}")]
    Change {
        /// The fleet.
        address: FleetAddress,
        /// The problem.
        problem: PlanError,
    },
}

impl Operator {
    /// Connects to a fleet.
    ///
    /// # Errors
    /// Returns an error if the settings are invalid, or no server can be reached.
    pub async fn connect(
        address: &FleetAddress,
        settings: &FleetSettings,
    ) -> Result<Self, OperatorError> {
        let Connection { client, jetstream, subjects, mut changes } =
            Connection::open(address, settings).await?;
        let mut problem = "no server responds".to_owned();
        let connected = async {
            while let Some(change) = changes.recv().await {
                match change {
                    Change::Connected => return,
                    Change::Failed(failure) => problem = failure,
                }
            }
        };
        if timeout(CONNECT_TIME, connected).await.is_err() {
            let problem = for_log(&problem);
            return Err(OperatorError::NotConnected { address: address.clone(), problem });
        }
        Ok(Self { client, jetstream, subjects, address: address.clone() })
    }

    /// Returns the plan with its number, which is 0 if there is none.
    pub async fn plan(&self) -> Result<(u64, Plan), OperatorError> {
        let plan = plan_store::read(&self.client, &self.subjects).await;
        plan.map_err(|problem| self.failed("read", &problem))
    }

    /// Begins a roll-out, and returns its number.
    pub async fn deploy(&self, mount: &str, new: NewRollout) -> Result<u64, OperatorError> {
        self.change(|plan| plan.deploy(mount, new.clone())).await
    }

    /// Rolls back the roll-out of a mount, in progress or completed, on all hosts.
    pub async fn roll_back(&self, mount: &str) -> Result<(), OperatorError> {
        self.change(|plan| plan.roll_back(mount, None, "an operator requested it")).await
    }

    /// Keeps the roll-out of a mount in its stage, or resumes it.
    pub async fn set_paused(&self, mount: &str, is_paused: bool) -> Result<(), OperatorError> {
        self.change(|plan| plan.set_paused(mount, is_paused)).await
    }

    /// Requests the reports of all hosts, and collects them for this time.
    pub async fn status(&self, time: Duration) -> Result<FleetStatus, OperatorError> {
        let (number, plan) = self.plan().await?;
        let failed = |problem: String| self.failed("read", &problem);
        let reports = self.client.subscribe(self.subjects.report()).await;
        let mut reports = reports.map_err(|error| failed(error.to_string()))?;
        let call = Call { version: VERSION, plan: number, spread: time / 2 };
        let called = self.client.publish(self.subjects.call(), call.encode()).await;
        called.map_err(|error| failed(error.to_string()))?;
        let deadline = Instant::now() + time;
        let mut hosts = BTreeMap::new();
        while let Ok(Some(message)) = timeout_at(deadline, reports.next()).await {
            if let Ok(report) = HostReport::decode(&message.payload) {
                hosts.insert(report.host.clone(), report);
            }
        }
        Ok(FleetStatus { number, plan, hosts: hosts.into_values().collect() })
    }

    async fn change<T>(
        &self,
        mut change: impl FnMut(&mut Plan) -> Result<T, PlanError>,
    ) -> Result<T, OperatorError> {
        for _ in 0..MAX_ATTEMPTS {
            let (number, mut plan) = self.plan().await?;
            let result = change(&mut plan).map_err(|problem| OperatorError::Change {
                address: self.address.clone(),
                problem,
            })?;
            let stored = plan_store::store(&self.jetstream, &self.subjects, number, &plan).await;
            if stored.map_err(|problem| self.failed("changed", &problem))?.is_some() {
                return Ok(result);
            }
        }
        Err(self.failed("changed", "others change it all the time"))
    }

    fn failed(&self, what: &'static str, problem: &str) -> OperatorError {
        let problem = for_log(problem);
        OperatorError::Plan { address: self.address.clone(), what, problem }
    }
}
