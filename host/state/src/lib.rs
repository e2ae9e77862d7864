//! A relayer's state: versioned snapshots, from their publisher to the requests.
//!
//! A source publishes state through a [`StatePublisher`]; a request reads a single
//! [`Snapshot`] from a [`StateReader`].
//!
//! | file | job |
//! |---|---|
//! | `chain.rs` | a chain and its configuration |
//! | `relayer.rs` | the state of a relayer: chains and workers, and their order |
//! | `versioned.rs` | a value with the generation of its last change |
//! | `snapshot.rs` | a snapshot of a relayer, made of versioned values |
//! | `recorded.rs` | a snapshot of recorded values, for a replay |
//! | `requested_chains.rs` | chains that clients request before they are known |
//! | `source.rs` | the sources of the state, and their failures |
//! | `replica.rs` | the state that another host publishes |
//! | `telemetry.rs` | the telemetry of a relayer: metric families, each a versioned value |
//! | `command.rs` | commands to a relayer |
//! | `publisher.rs` | publishes snapshots and gives access to the current one |

mod chain;
mod command;
mod publisher;
mod recorded;
mod relayer;
mod replica;
mod requested_chains;
mod snapshot;
mod source;
mod telemetry;
mod versioned;

pub use chain::{
    AddressType, ChainConfig, ChainId, ChainKind, ChannelFilter, ChannelMinFees, DynamicGasPrice,
    EventSource, ExcludedSequences, ExtensionOption, FilterPolicy, GasPrice, GenesisRestart,
    MinFee, PacketFilter, Ratio,
};
pub use command::{Command, CommandError, CommandExecutor, CommandResult, TraceContext};
pub use publisher::{DuplicateChain, SourceReporter, StatePublisher, StateReader};
pub use recorded::RecordedValues;
pub use relayer::{
    Component, Name, NotReady, Object, OtherObject, RelayerDialect, RelayerState, Value, Worker,
    WorkerData,
};
pub use replica::{FleetGeneration, FleetGenerationError, Replica};
pub use snapshot::{Changed, ListedChain, Snapshot, Stale};
pub use source::{Source, SourceFailure, SourceKind};
pub use telemetry::{MetricFamily, MetricKind, Sample, Telemetry};
pub use versioned::{Generation, Known, Versioned};
