//! The state of a relayer: its connected chains and its workers.

use std::cmp::Ordering;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::ChainId;

/// A component of the relayer and its version.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
pub struct Component {
    /// The component's name, such as `ibc-relayer`.
    pub name: String,
    /// The version as text, in the relayer's notation.
    pub version: String,
}

/// The connected chains and the active workers. Their order does not matter: they are
/// sorted when they are published.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
pub struct RelayerState {
    /// The connected chains.
    pub chains: Vec<ChainId>,
    /// The active workers.
    pub workers: Vec<Worker>,
}

/// The reason why a part of the relayer's state is not known.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
pub struct NotReady {
    /// The reason and a remedy, in a sentence that clients see.
    pub message: String,
    /// The time after which a client should retry.
    pub retry_after: Duration,
}

/// The dialect of the API that a relayer speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
pub enum RelayerDialect {
    /// The one of version 0.7, whose `/version` is a bare list, as until version 1.4.0.
    V0_7,
    /// The one of current relayers.
    V1_13,
}

impl Default for NotReady {
    fn default() -> Self {
        Self {
            message: "the relayer's state is not known yet".to_owned(),
            retry_after: Duration::from_secs(1),
        }
    }
}

/// A task of the relayer.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
pub struct Worker {
    /// The worker's number.
    pub id: u64,
    /// The object that the worker serves.
    pub object: Object,
    /// The worker's settings, if they are known.
    pub data: Option<WorkerData>,
}

/// A text that workers share: a client's, channel's or port's identifier.
pub type Name = Arc<str>;

/// An object that a worker serves. The kinds are in listing order.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
pub enum Object {
    /// A light client that is kept up to date.
    Client {
        /// The chain that the client is on.
        dst_chain_id: ChainId,
        /// The client's identifier on that chain.
        dst_client_id: Name,
        /// The chain that the client follows.
        src_chain_id: ChainId,
    },
    /// A channel whose handshake the worker completes.
    Channel {
        /// The chain at the far end.
        dst_chain_id: ChainId,
        /// The chain at the near end.
        src_chain_id: ChainId,
        /// The channel's identifier at the near end.
        src_channel_id: Name,
        /// The port's identifier at the near end.
        src_port_id: Name,
    },
    /// A connection whose handshake the worker completes.
    Connection {
        /// The chain at the far end.
        dst_chain_id: ChainId,
        /// The chain at the near end.
        src_chain_id: ChainId,
        /// The connection's identifier at the near end.
        src_connection_id: Name,
    },
    /// A channel whose packets are relayed.
    Packet {
        /// The chain at the far end.
        dst_chain_id: ChainId,
        /// The chain at the near end.
        src_chain_id: ChainId,
        /// The channel's identifier at the near end.
        src_channel_id: Name,
        /// The port's identifier at the near end.
        src_port_id: Name,
    },
    /// A wallet whose balance is watched.
    Wallet {
        /// The chain that the wallet is on.
        chain_id: ChainId,
    },
    /// A query from one chain to another.
    CrossChainQuery {
        /// The chain that sends the query.
        src_chain_id: ChainId,
        /// The chain that is queried.
        dst_chain_id: ChainId,
        /// The query's identifier.
        query_id: Name,
        /// The connection that carries the query.
        connection_id: Name,
    },
    /// An object of an unknown kind, with its fields.
    Other(OtherObject),
}

/// An object of an unknown kind.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
pub struct OtherObject {
    /// The kind's name.
    pub kind: Name,
    /// The fields in their order, without the kind.
    pub fields: Vec<(Name, Value)>,
}

/// A plain value.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
pub enum Value {
    /// No value.
    Null,
    /// True or false.
    Boolean(bool),
    /// A whole number of 0 or more.
    Natural(u64),
    /// A whole number below 0.
    Integer(i64),
    /// Any other number. Finite.
    Number(f64),
    /// A text.
    Text(Name),
}

/// The settings of a worker.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
pub enum WorkerData {
    /// The settings of a worker that serves a client.
    Client {
        /// Whether the worker looks for misbehaviour.
        misbehaviour: bool,
        /// Whether the worker refreshes the client.
        refresh: bool,
    },
    /// Settings of an unknown kind, with their fields.
    Other(OtherObject),
}

impl RelayerState {
    /// Sorts the chains and the workers in the order in which a relayer lists them. Costs
    /// one pass if they are sorted already.
    pub(super) fn sort(&mut self) {
        self.chains.sort();
        self.workers.sort_by(Worker::order);
    }
}

impl Worker {
    /// Compares by kind, then by the bytes of the short name.
    fn order(&self, other: &Self) -> Ordering {
        let ranks = self.object.rank().cmp(&other.object.rank());
        ranks.then_with(|| order(self.object.short_name(), other.object.short_name()))
    }
}

/// Compares texts that consist of parts, by their bytes. The parts are not concatenated,
/// because states of thousands of workers are published often.
fn order<const N: usize>(a: [&str; N], b: [&str; N]) -> Ordering {
    let mut a_parts = a.into_iter();
    let mut b_parts = b.into_iter();
    let mut a: &[u8] = &[];
    let mut b: &[u8] = &[];
    loop {
        while a.is_empty() {
            match a_parts.next() {
                Some(part) => a = part.as_bytes(),
                // `a` has ended: it equals `b`, or is a prefix of it.
                None if b.is_empty() && b_parts.all(str::is_empty) => return Ordering::Equal,
                None => return Ordering::Less,
            }
        }
        while b.is_empty() {
            match b_parts.next() {
                Some(part) => b = part.as_bytes(),
                None => return Ordering::Greater,
            }
        }
        let common = a.len().min(b.len());
        match a[..common].cmp(&b[..common]) {
            Ordering::Equal => (a, b) = (&a[common..], &b[common..]),
            different => return different,
        }
    }
}

impl Object {
    /// Returns parts of a text that is equal for objects between which the order of the state
    /// does not decide, and only for these if they are of one kind.
    #[must_use]
    pub fn order_key(&self) -> [&str; 7] {
        self.short_name()
    }

    /// Returns the rank of the kind in listing order.
    fn rank(&self) -> u8 {
        match self {
            Self::Client { .. } => 0,
            Self::Channel { .. } => 1,
            Self::Connection { .. } => 2,
            Self::Packet { .. } => 3,
            Self::Wallet { .. } => 4,
            Self::CrossChainQuery { .. } => 5,
            Self::Other(_) => 6,
        }
    }

    /// Returns the parts of the relayer's short name of the object, without the kind,
    /// which is the same for all objects of a rank. Objects of unknown kinds are grouped
    /// by kind and keep their order within a kind.
    fn short_name(&self) -> [&str; 7] {
        match self {
            Self::Client { dst_chain_id, dst_client_id, src_chain_id } => {
                [src_chain_id.as_str(), "->", dst_chain_id.as_str(), ":", dst_client_id, "", ""]
            }
            Self::Connection { dst_chain_id, src_chain_id, src_connection_id } => {
                [src_connection_id, ":", src_chain_id.as_str(), "->", dst_chain_id.as_str(), "", ""]
            }
            Self::Channel { dst_chain_id, src_chain_id, src_channel_id, src_port_id }
            | Self::Packet { dst_chain_id, src_chain_id, src_channel_id, src_port_id } => [
                src_channel_id,
                "/",
                src_port_id,
                ":",
                src_chain_id.as_str(),
                "->",
                dst_chain_id.as_str(),
            ],
            Self::Wallet { chain_id } => [chain_id.as_str(), "", "", "", "", "", ""],
            Self::CrossChainQuery { dst_chain_id, query_id, .. } => {
                [dst_chain_id.as_str(), "/", query_id, "", "", "", ""]
            }
            Self::Other(other) => [&other.kind, "", "", "", "", "", ""],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Object, OtherObject, RelayerState, Worker, order};

    fn sorted(objects: Vec<Object>) -> Vec<u64> {
        let workers =
            (0..).zip(objects).map(|(id, object)| Worker { id, object, data: None }).collect();
        let mut state = RelayerState { chains: Vec::new(), workers };
        state.sort();
        state.workers.iter().map(|worker| worker.id).collect()
    }

    fn client(src: &str, dst: &str, client: &str) -> Object {
        Object::Client {
            dst_chain_id: dst.into(),
            dst_client_id: client.into(),
            src_chain_id: src.into(),
        }
    }

    fn packet(channel: &str, port: &str, src: &str, dst: &str) -> Object {
        Object::Packet {
            dst_chain_id: dst.into(),
            src_chain_id: src.into(),
            src_channel_id: channel.into(),
            src_port_id: port.into(),
        }
    }

    #[test]
    fn kinds_are_in_the_order_of_the_relayer() {
        let other =
            |kind: &str| Object::Other(OtherObject { kind: kind.into(), fields: Vec::new() });
        let query = Object::CrossChainQuery {
            src_chain_id: "a".into(),
            dst_chain_id: "b".into(),
            query_id: "1".into(),
            connection_id: "connection-0".into(),
        };
        let channel = Object::Channel {
            dst_chain_id: "b".into(),
            src_chain_id: "a".into(),
            src_channel_id: "channel-0".into(),
            src_port_id: "transfer".into(),
        };
        let connection = Object::Connection {
            dst_chain_id: "b".into(),
            src_chain_id: "a".into(),
            src_connection_id: "connection-0".into(),
        };
        let objects = vec![
            other("B"),
            other("A"),
            query,
            Object::Wallet { chain_id: "a".into() },
            packet("channel-0", "transfer", "a", "b"),
            connection,
            channel,
            client("a", "b", "07-tendermint-0"),
        ];
        assert_eq!(sorted(objects), [7, 6, 5, 4, 3, 2, 1, 0]);
    }

    #[test]
    fn clients_are_sorted_by_the_bytes_of_source_destination_and_client() {
        let objects = vec![
            client("ibc-1", "ibc-0", "07-tendermint-1"),
            client("ibc-0", "ibc-1", "07-tendermint-2"),
            client("ibc-0", "ibc-1", "07-tendermint-10"),
            client("ibc-1", "ibc-0", "07-tendermint-0"),
            client("ibc", "z", "07-tendermint-0"),
        ];
        // "ibc->z" is after "ibc-0->…": the short names are compared as whole texts, and
        // '>' is after '0'.
        assert_eq!(sorted(objects), [2, 1, 3, 0, 4]);
    }

    #[test]
    fn packets_are_sorted_by_the_bytes_of_channel_port_and_chains() {
        let objects = vec![
            packet("channel-2", "transfer", "a", "b"),
            packet("channel-10", "transfer", "a", "b"),
            packet("channel-2", "icahost", "a", "b"),
            packet("channel-2", "transfer", "a", "a"),
        ];
        assert_eq!(sorted(objects), [1, 2, 3, 0]);
    }

    #[test]
    fn split_texts_are_compared_like_whole_ones() {
        let texts = [
            ["", "", ""],
            ["a", "", ""],
            ["", "a", ""],
            ["", "", "a"],
            ["a", "b", ""],
            ["ab", "", ""],
            ["", "ab", "c"],
            ["abc", "", ""],
            ["a", "bc", ""],
            ["b", "", ""],
            ["a", "", "c"],
            ["ü", "", "a"],
        ];
        for a in texts {
            for b in texts {
                assert_eq!(
                    order(a, b),
                    a.concat().as_bytes().cmp(b.concat().as_bytes()),
                    "{a:?} {b:?}"
                );
            }
        }
    }

    #[test]
    fn objects_of_unknown_kinds_keep_their_order_within_a_kind() {
        let other =
            |kind: &str| Object::Other(OtherObject { kind: kind.into(), fields: Vec::new() });
        assert_eq!(sorted(vec![other("B"), other("A"), other("B"), other("A")]), [1, 3, 0, 2]);
    }
}
