//! Counts of workers by kind and pair of chains.
//!
//! A relayer has up to tens of thousands of workers between some hundred pairs of chains.
//! They are therefore counted by the indices of their names; only the resulting groups
//! look up texts.

use std::collections::{BTreeMap, HashMap};

use relayer_rest_sdk::contract::{Name, Object, RelayerState};
use relayer_rest_sdk::{Names, State};

/// Workers that are counted together. Ordered by texts, so that the same state always
/// gives the same output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Group<'a> {
    /// The kind, as the API writes it.
    pub(crate) kind: &'a str,
    /// The source chain, or the chain of wallets; empty for kinds without one.
    pub(crate) src_chain: &'a str,
    /// The destination chain; empty for kinds without one.
    pub(crate) dst_chain: &'a str,
}

/// A group, by the indices of its names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Numbers {
    Client { src: Name, dst: Name },
    Channel { src: Name, dst: Name },
    Connection { src: Name, dst: Name },
    Packet { src: Name, dst: Name },
    Wallet { chain: Name },
    CrossChainQuery { src: Name, dst: Name },
    Other { kind: Name },
}

/// Counts the workers of each group.
pub(crate) fn count(state: &RelayerState) -> BTreeMap<Group<'_>, u64> {
    let mut by_number = HashMap::<Numbers, u64>::new();
    for worker in &state.workers {
        *by_number.entry(Numbers::new(&worker.object)).or_default() += 1;
    }
    let names = State::new(state).names();
    let mut by_text = BTreeMap::new();
    for (numbers, workers) in by_number {
        // An unknown kind may have the name of a known kind: both are one group.
        *by_text.entry(numbers.group(names)).or_default() += workers;
    }
    by_text
}

impl Numbers {
    fn new(object: &Object) -> Self {
        match object {
            Object::Client(client) => {
                Self::Client { src: client.src_chain_id, dst: client.dst_chain_id }
            }
            Object::Channel(channel) => {
                Self::Channel { src: channel.src_chain_id, dst: channel.dst_chain_id }
            }
            Object::Connection(connection) => {
                Self::Connection { src: connection.src_chain_id, dst: connection.dst_chain_id }
            }
            Object::Packet(channel) => {
                Self::Packet { src: channel.src_chain_id, dst: channel.dst_chain_id }
            }
            Object::Wallet(wallet) => Self::Wallet { chain: wallet.chain_id },
            Object::CrossChainQuery(query) => {
                Self::CrossChainQuery { src: query.src_chain_id, dst: query.dst_chain_id }
            }
            Object::Other(other) => Self::Other { kind: other.kind },
        }
    }

    fn group(self, names: Names<'_>) -> Group<'_> {
        let pair =
            |kind, src, dst| Group { kind, src_chain: names.text(src), dst_chain: names.text(dst) };
        match self {
            Self::Client { src, dst } => pair("Client", src, dst),
            Self::Channel { src, dst } => pair("Channel", src, dst),
            Self::Connection { src, dst } => pair("Connection", src, dst),
            Self::Packet { src, dst } => pair("Packet", src, dst),
            Self::Wallet { chain } => {
                Group { kind: "Wallet", src_chain: names.text(chain), dst_chain: "" }
            }
            Self::CrossChainQuery { src, dst } => pair("CrossChainQuery", src, dst),
            Self::Other { kind } => Group { kind: names.text(kind), src_chain: "", dst_chain: "" },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::count;
    use relayer_rest_sdk::Object;
    use relayer_rest_sdk::testing::FakeHost;

    fn packet<'a>(src: &'a str, dst: &'a str, channel: &'a str) -> Object<'a> {
        Object::Packet {
            dst_chain_id: dst,
            src_chain_id: src,
            src_channel_id: channel,
            src_port_id: "transfer",
        }
    }

    #[track_caller]
    fn check(objects: &[Object<'_>], expected: &[(&str, &str, &str, u64)]) {
        let host = objects.iter().fold(FakeHost::new(), FakeHost::with_worker);
        let state = host.state.unwrap();
        let counted = count(&state).into_iter();
        let counted: Vec<_> = counted
            .map(|(group, workers)| (group.kind, group.src_chain, group.dst_chain, workers))
            .collect();
        assert_eq!(counted, expected);
    }

    #[test]
    fn workers_are_counted_by_kind_and_chains_in_alphabetical_order() {
        check(
            &[
                packet("b", "a", "channel-0"),
                Object::Other { kind: "Sweep", fields: &[] },
                packet("a", "b", "channel-0"),
                Object::Wallet { chain_id: "b" },
                packet("b", "a", "channel-1"),
                Object::Client {
                    dst_chain_id: "b",
                    dst_client_id: "07-tendermint-0",
                    src_chain_id: "a",
                },
                Object::Wallet { chain_id: "a" },
                Object::Other { kind: "Sweep", fields: &[] },
                Object::Channel {
                    dst_chain_id: "b",
                    src_chain_id: "a",
                    src_channel_id: "channel-0",
                    src_port_id: "transfer",
                },
                Object::Connection {
                    dst_chain_id: "b",
                    src_chain_id: "a",
                    src_connection_id: "connection-0",
                },
                Object::CrossChainQuery {
                    src_chain_id: "a",
                    dst_chain_id: "b",
                    query_id: "q",
                    connection_id: "connection-0",
                },
            ],
            &[
                ("Channel", "a", "b", 1),
                ("Client", "a", "b", 1),
                ("Connection", "a", "b", 1),
                ("CrossChainQuery", "a", "b", 1),
                ("Packet", "a", "b", 1),
                ("Packet", "b", "a", 2),
                ("Sweep", "", "", 2),
                ("Wallet", "a", "", 1),
                ("Wallet", "b", "", 1),
            ],
        );
        check(&[], &[]);
    }

    #[test]
    fn workers_with_the_same_labels_are_counted_together() {
        let other = Object::Other { kind: "Packet", fields: &[] };
        check(&[packet("", "", "channel-0"), other], &[("Packet", "", "", 2)]);
    }
}
