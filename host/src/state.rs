//! The relayer's state, from its sources to the requests.
//!
//! A source publishes state through a [`StatePublisher`]; a request reads a single
//! [`Snapshot`] from a [`StateReader`].
//!
//! | file | job |
//! |---|---|
//! | `chain.rs` | a chain and its configuration |
//! | `relayer.rs` | the state of a relayer: chains and workers, and their order |
//! | `snapshot.rs` | a snapshot of a relayer: versioned values, each with its generation |
//! | `publisher.rs` | publishes snapshots and gives access to the current one |
//! | `upstream.rs` | source: a running relayer, polled over its own API |
//! | `state_file.rs` | source: a file with a relayer's state |
//! | `hermes_config.rs` | source: the relayer's configuration file |
//! | `sample.rs` | source: a sample relayer for experiments |
//! | `hermes_schema.rs` | a chain in the relayer's own format, in files and responses |
//! | `relayer_json.rs` | parses the relayer's own responses |
//! | `watch.rs` | watches files for changes |

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
