//! The relayer's state, from its sources to the requests.
//!
//! A source puts what it knows into a [`StatePublisher`]; a request takes one
//! [`Snapshot`] from a [`StateReader`] and sees nothing else.
//!
//! | file | job |
//! |---|---|
//! | `chain.rs` | a chain and its configuration |
//! | `relayer.rs` | what a relayer is doing: chains and workers, and their order |
//! | `snapshot.rs` | a relayer at one moment: slices, each with its generation |
//! | `publisher.rs` | publishing a snapshot, and reading the present one |
//! | `hermes_config.rs` | source: the relayer's configuration file |
//! | `sample.rs` | source: a made-up relayer, for trying things |

mod chain;
pub mod hermes_config;
mod publisher;
mod relayer;
mod sample;
mod snapshot;
mod written;

pub use chain::{
    AddressType, ChainConfig, ChainId, ChainKind, ChannelFilter, ChannelMinFees, DynamicGasPrice,
    EventSource, ExcludedSequences, ExtensionOption, FilterPolicy, GasPrice, MinFee, PacketFilter,
    Ratio,
};
pub use publisher::{DuplicateChain, StatePublisher, StateReader};
pub use relayer::{
    Component, Name, NotReady, Object, OtherObject, RelayerState, Value, Worker, WorkerData,
};
pub use sample::sample;
pub use snapshot::{Generation, Known, Slice, Snapshot};
