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
//! | `upstream.rs` | source: a running relayer, asked over its own API |
//! | `state_file.rs` | source: what a relayer is doing, in a file |
//! | `hermes_config.rs` | source: the relayer's configuration file |
//! | `sample.rs` | source: a made-up relayer, for trying things |
//! | `written.rs` | a chain as the relayer writes it, in its file and its answers |
//! | `relayer_json.rs` | the relayer's own answers |
//! | `watch.rs` | files that change |

mod chain;
pub mod hermes_config;
mod hermes_schema;
mod publisher;
mod relayer;
mod relayer_json;
mod sample;
mod snapshot;
mod state_file;
mod upstream;
mod watch;

pub use chain::{
    AddressType, ChainConfig, ChainId, ChainKind, ChannelFilter, ChannelMinFees, DynamicGasPrice,
    EventSource, ExcludedSequences, ExtensionOption, FilterPolicy, GasPrice, MinFee, PacketFilter,
    Ratio,
};
pub use publisher::{DuplicateChain, StatePublisher, StateReader};
pub use relayer::{
    Component, Name, NotReady, Object, OtherObject, RelayerState, Value, Worker, WorkerData,
};
#[doc(hidden)]
pub use relayer_json::read_answer;
pub use relayer_json::{AnswerError, UnreadField};
pub use sample::sample;
pub use snapshot::{Changed, Generation, Known, Snapshot, Stale, Versioned};
#[cfg(feature = "cli")]
pub(crate) use state_file::{MAX_STATE_FILE, of_file as state_of_file};
pub use state_file::{StateFileError, read_state_file};
pub use upstream::{Upstream, UpstreamLimits, UpstreamUrlError};
pub use watch::{Watch, WatchError, watch};
