//! The relayer's state with its names resolved.
//!
//! In the contract, workers refer to names by index: thousands of workers repeat the same
//! few identifiers, and each is copied to the module once.

use crate::contract::{self, Field, RelayerState, WorkerData};

/// The connected chains and the active workers, with names resolved.
#[derive(Debug, Clone, Copy)]
pub struct State<'a>(&'a RelayerState);

/// The texts that workers refer to, by index.
#[derive(Debug, Clone, Copy)]
pub struct Names<'a>(&'a contract::Names);

/// A worker: one task of the relayer.
#[derive(Debug, Clone, Copy)]
pub struct Worker<'a> {
    /// The worker's number, unique among the active workers.
    pub id: u64,
    /// The object that the worker serves.
    pub object: Object<'a>,
    /// The worker's settings, if they are known.
    pub data: Option<&'a WorkerData>,
}

/// An object that a worker serves.
#[derive(Debug, Clone, Copy)]
pub enum Object<'a> {
    /// A light client that is kept up to date.
    Client {
        /// The chain that the client is on.
        dst_chain_id: &'a str,
        /// The client's identifier on that chain.
        dst_client_id: &'a str,
        /// The chain that the client follows.
        src_chain_id: &'a str,
    },
    /// A channel whose handshake is completed.
    Channel {
        /// The chain at the far end.
        dst_chain_id: &'a str,
        /// The chain at the near end.
        src_chain_id: &'a str,
        /// The channel's identifier at the near end.
        src_channel_id: &'a str,
        /// The port's identifier at the near end.
        src_port_id: &'a str,
    },
    /// A connection whose handshake is completed.
    Connection {
        /// The chain at the far end.
        dst_chain_id: &'a str,
        /// The chain at the near end.
        src_chain_id: &'a str,
        /// The connection's identifier at the near end.
        src_connection_id: &'a str,
    },
    /// A channel whose packets are relayed.
    Packet {
        /// The chain at the far end.
        dst_chain_id: &'a str,
        /// The chain at the near end.
        src_chain_id: &'a str,
        /// The channel's identifier at the near end.
        src_channel_id: &'a str,
        /// The port's identifier at the near end.
        src_port_id: &'a str,
    },
    /// A wallet whose balance is watched.
    Wallet {
        /// The chain that the wallet is on.
        chain_id: &'a str,
    },
    /// A query from one chain to another.
    CrossChainQuery {
        /// The chain that sends the query.
        src_chain_id: &'a str,
        /// The chain that is queried.
        dst_chain_id: &'a str,
        /// The query's identifier.
        query_id: &'a str,
        /// The connection that carries the query.
        connection_id: &'a str,
    },
    /// An object of a kind that the contract does not define.
    Other {
        /// The name of the kind.
        kind: &'a str,
        /// The fields. Their names and texts are indices into [`State::names`].
        fields: &'a [Field],
    },
}

impl<'a> State<'a> {
    /// Wraps a state that [`crate::Host::state`] returned.
    #[must_use]
    pub fn new(state: &'a RelayerState) -> Self {
        Self(state)
    }

    /// Returns the identifiers of the connected chains, sorted.
    #[must_use]
    pub fn chains(&self) -> &'a [String] {
        &self.0.chains
    }

    /// Returns the texts that workers refer to.
    #[must_use]
    pub fn names(&self) -> Names<'a> {
        Names(&self.0.names)
    }

    /// Returns the active workers, sorted by kind in the order of [`Object`].
    #[must_use]
    pub fn workers(&self) -> impl ExactSizeIterator<Item = Worker<'a>> + use<'a> {
        let names = self.names();
        self.0.workers.iter().map(move |worker| Worker {
            id: worker.id,
            object: Object::new(&worker.object, names),
            data: worker.data.as_ref(),
        })
    }
}

impl<'a> Names<'a> {
    /// Wraps the names of a [`RelayerState`].
    #[must_use]
    pub fn new(names: &'a contract::Names) -> Self {
        Self(names)
    }

    /// Returns the text with this index.
    ///
    /// # Panics
    /// Panics if no text has this index.
    #[must_use]
    pub fn text(&self, name: contract::Name) -> &'a str {
        let name = name as usize;
        let start = name.checked_sub(1).map_or(0, |before| self.0.ends[before]);
        &self.0.text[start as usize..self.0.ends[name] as usize]
    }
}

impl<'a> Names<'a> {
    /// Returns the name of an object's kind, as the API writes it: `Client`, `Packet`.
    ///
    /// # Panics
    /// Panics if the name of a kind that the contract does not define is not among the
    /// texts.
    #[must_use]
    pub fn kind(&self, object: &contract::Object) -> &'a str {
        match object {
            contract::Object::Client(_) => "Client",
            contract::Object::Channel(_) => "Channel",
            contract::Object::Connection(_) => "Connection",
            contract::Object::Packet(_) => "Packet",
            contract::Object::Wallet(_) => "Wallet",
            contract::Object::CrossChainQuery(_) => "CrossChainQuery",
            contract::Object::Other(other) => self.text(other.kind),
        }
    }
}

impl<'a> Object<'a> {
    fn new(object: &'a contract::Object, names: Names<'a>) -> Self {
        let text = |name| names.text(name);
        match object {
            contract::Object::Client(client) => Self::Client {
                dst_chain_id: text(client.dst_chain_id),
                dst_client_id: text(client.dst_client_id),
                src_chain_id: text(client.src_chain_id),
            },
            contract::Object::Channel(channel) => Self::Channel {
                dst_chain_id: text(channel.dst_chain_id),
                src_chain_id: text(channel.src_chain_id),
                src_channel_id: text(channel.src_channel_id),
                src_port_id: text(channel.src_port_id),
            },
            contract::Object::Connection(connection) => Self::Connection {
                dst_chain_id: text(connection.dst_chain_id),
                src_chain_id: text(connection.src_chain_id),
                src_connection_id: text(connection.src_connection_id),
            },
            contract::Object::Packet(channel) => Self::Packet {
                dst_chain_id: text(channel.dst_chain_id),
                src_chain_id: text(channel.src_chain_id),
                src_channel_id: text(channel.src_channel_id),
                src_port_id: text(channel.src_port_id),
            },
            contract::Object::Wallet(wallet) => Self::Wallet { chain_id: text(wallet.chain_id) },
            contract::Object::CrossChainQuery(query) => Self::CrossChainQuery {
                src_chain_id: text(query.src_chain_id),
                dst_chain_id: text(query.dst_chain_id),
                query_id: text(query.query_id),
                connection_id: text(query.connection_id),
            },
            contract::Object::Other(other) => {
                Self::Other { kind: text(other.kind), fields: &other.fields }
            }
        }
    }

    /// Returns the name of the kind, as the API writes it: `Client`, `Packet`.
    #[must_use]
    pub fn kind(&self) -> &'a str {
        match self {
            Self::Client { .. } => "Client",
            Self::Channel { .. } => "Channel",
            Self::Connection { .. } => "Connection",
            Self::Packet { .. } => "Packet",
            Self::Wallet { .. } => "Wallet",
            Self::CrossChainQuery { .. } => "CrossChainQuery",
            Self::Other { kind, .. } => kind,
        }
    }

    /// Returns the source and the destination chain; `None` for a wallet or a kind that
    /// the contract does not define.
    #[must_use]
    pub fn pair(&self) -> Option<(&'a str, &'a str)> {
        match self {
            Self::Client { dst_chain_id, src_chain_id, .. }
            | Self::Channel { dst_chain_id, src_chain_id, .. }
            | Self::Connection { dst_chain_id, src_chain_id, .. }
            | Self::Packet { dst_chain_id, src_chain_id, .. }
            | Self::CrossChainQuery { dst_chain_id, src_chain_id, .. } => {
                Some((src_chain_id, dst_chain_id))
            }
            Self::Wallet { .. } | Self::Other { .. } => None,
        }
    }
}
