//! A relayer's state: versioned snapshots, from their publisher to the requests.
//!
//! A source publishes state through a [`StatePublisher`]; a request reads a single
//! [`Snapshot`] from a [`StateReader`].
//!
//! | file | job |
//! |---|---|
//! | `chain.rs` | a chain and its configuration |
//! | `relayer.rs` | the state of a relayer: chains and workers, and their order |
//! | `snapshot.rs` | a snapshot of a relayer: versioned values, each with its generation |
//! | `requested_chains.rs` | chains that clients request before they are known |
//! | `source.rs` | the sources of the state, and their failures |
//! | `publisher.rs` | publishes snapshots and gives access to the current one |

mod chain;
mod publisher;
mod relayer;
mod requested_chains;
mod snapshot;
mod source;

pub use chain::{
    AddressType, ChainConfig, ChainId, ChainKind, ChannelFilter, ChannelMinFees, DynamicGasPrice,
    EventSource, ExcludedSequences, ExtensionOption, FilterPolicy, GasPrice, MinFee, PacketFilter,
    Ratio,
};
pub use publisher::{DuplicateChain, SourceReporter, StatePublisher, StateReader};
pub use relayer::{
    Component, Name, NotReady, Object, OtherObject, RelayerState, Value, Worker, WorkerData,
};
pub use snapshot::{Changed, Generation, Known, ListedChain, Snapshot, Stale, Versioned};
pub use source::{Source, SourceFailure, SourceKind};
