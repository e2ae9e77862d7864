//! A fleet of hosts that serve the same state, on NATS with JetStream.
//!
//! One host publishes the state of its relayer, and any number of hosts serve it. The state is
//! sent in parts, of which a change replaces few, and readers install whole generations only.
//!
//! | file | job |
//! |---|---|
//! | `address.rs` | the address of a fleet |
//! | `settings.rs` | the section `[fleet]` |
//! | `part.rs` | a part of the state: its name, digest and compressed form |
//! | `state_part.rs` | the values of a state in parts |
//! | `cut.rs` | cuts a snapshot into parts |
//! | `assemble.rs` | assembles a state from its parts |
//! | `message.rs` | the messages between the writer and its readers |
//! | `writer.rs` | the writer, without its connection |
//! | `reader.rs` | a reader, without its connection |
//! | `age.rs` | bounds on the age of a state, from two clocks |
//! | `simulation.rs` | writers and readers in virtual time, with faults, as a test |
//! | `subjects.rs` | the subjects of a fleet, and its stream |
//! | `connection.rs` | a connection to NATS |
//! | `publication.rs` | publishes the state of this process, or stands by |
//! | `subscription.rs` | source: the fleet of another host |
//! | `rollout.rs`, `rollout/` | roll-outs: the modules of a fleet, brought to its hosts in stages |

mod address;
mod settings;

#[cfg(feature = "nats")]
mod age;
#[cfg(feature = "nats")]
mod assemble;
#[cfg(feature = "nats")]
mod connection;
#[cfg(feature = "nats")]
mod cut;
#[cfg(feature = "nats")]
mod message;
#[cfg(feature = "nats")]
mod part;
#[cfg(feature = "nats")]
mod publication;
#[cfg(feature = "nats")]
mod reader;
#[cfg(feature = "nats")]
mod rollout;
#[cfg(all(test, feature = "nats"))]
mod simulation;
#[cfg(feature = "nats")]
mod state_part;
#[cfg(feature = "nats")]
mod subjects;
#[cfg(feature = "nats")]
mod subscription;
#[cfg(feature = "nats")]
mod writer;

pub use address::{FleetAddress, FleetAddressError};
#[cfg(feature = "nats")]
pub use connection::{FleetError, machine_name};
#[cfg(feature = "nats")]
pub use publication::Publication;
#[cfg(feature = "nats")]
pub use rollout::{
    ActiveModule, Comparison, DeployError, Deployed, Deployment, FleetMounts, FleetStatus,
    Following, HostReport, MountPlan, MountReport, MountState, NewRollout, Observation, Operator,
    OperatorError, Phase, Plan, PlanError, Rollout, Stage, Stages, StagesError,
};
pub use settings::{FleetSettings, StreamReplicas, StreamReplicasError};
#[cfg(feature = "nats")]
pub use subscription::Subscription;
