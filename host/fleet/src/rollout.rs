//! Roll-outs: the modules of a fleet, brought to its hosts in stages.
//!
//! The plan is stored on NATS, and names modules of OCI registries by their digests. Each host
//! derives from its own name whether it belongs to a stage, and reports the result. The
//! host that writes the state begins the next stage, or rolls back.
//!
//! | file | job |
//! |---|---|
//! | `stages.rs` | the stages of a roll-out |
//! | `plan.rs` | the plan: the module of each mount, and its roll-out |
//! | `message.rs` | the reports of hosts, and the requests for them |
//! | `coordinator.rs` | begins the next stage, or rolls back, without its connection |
//! | `follower.rs` | the deployments of a host that a plan asks for, without its connection |
//! | `mounts.rs` | the mounts of a host, as a follower sees them |
//! | `plan_store.rs` | the stored plan |
//! | `coordination.rs` | coordinates the roll-outs of a fleet |
//! | `following.rs` | follows the plan of a fleet |
//! | `operator.rs` | the requests of an operator: deploy, roll back, pause and status |
//! | `simulation.rs` | coordinators and hosts in virtual time, with faults, as a test |

pub(crate) mod coordination;
mod coordinator;
mod follower;
mod following;
mod message;
mod mounts;
mod operator;
mod plan;
mod plan_store;
#[cfg(test)]
mod simulation;
mod stages;

pub use following::Following;
pub use message::{HostReport, MountReport, MountState};
pub use mounts::{
    ActiveModule, Comparison, DeployError, Deployed, Deployment, FleetMounts, Observation,
};
pub use operator::{FleetStatus, Operator, OperatorError};
pub use plan::{MountPlan, NewRollout, Phase, Plan, PlanError, Rollout};
pub use stages::{Stage, Stages, StagesError};
