//! Generated relayers of several sizes, the same in each run.

use std::collections::BTreeSet;

use fastrand::Rng;
use relayer_rest_host::state::{
    ChainConfig, ChainId, ChainKind, Object, OtherObject, RelayerState, StatePublisher, Value,
    Worker,
};

/// Identifiers of chains, long ones and short ones.
const CHAINS: [&str; 40] = [
    "cosmoshub-4",
    "osmosis-1",
    "noble-1",
    "neutron-1",
    "celestia",
    "axelar-dojo-1",
    "stargaze-1",
    "juno-1",
    "stride-1",
    "injective-1",
    "akashnet-2",
    "secret-4",
    "kaiyo-1",
    "evmos_9001-2",
    "crescent-1",
    "umee-1",
    "regen-1",
    "agoric-3",
    "sommelier-3",
    "phoenix-1",
    "dydx-mainnet-1",
    "dymension_1100-1",
    "archway-1",
    "kava_2222-10",
    "persistence-1",
    "core-1",
    "quicksilver-2",
    "chihuahua-1",
    "comdex-1",
    "irishub-1",
    "sentinelhub-2",
    "mars-1",
    "migaloo-1",
    "columbus-5",
    "nolus-pirin-1",
    "provenance-pio-mainnet-1",
    "omniflixhub-1",
    "jackal-1",
    "passage-2",
    "coreum-mainnet-1",
];

/// The configuration and state of a relayer.
#[derive(Debug, Clone)]
pub(crate) struct Relayer {
    pub(crate) chains: Vec<ChainConfig>,
    pub(crate) state: RelayerState,
}

impl Relayer {
    /// Generates a relayer whose first chains relay with most others, and the rest with
    /// some. Two chains that relay have two clients. With more than a few chains there is
    /// a worker of every kind, and a chain that is not connected.
    pub(crate) fn of_size(chains: usize, workers: usize) -> Self {
        let mut random = Rng::with_seed(7);
        let ids = CHAINS[..chains].iter().map(|id| ChainId::from(*id)).collect::<Vec<_>>();
        let mut objects: Vec<Object> = Vec::new();
        let mut pairs = Vec::new();
        for (a, one) in ids.iter().enumerate() {
            objects.push(Object::Wallet { chain_id: one.clone() });
            for (b, other) in ids.iter().enumerate().skip(a + 1) {
                if a < 2 || a < 5 && random.u8(..3) == 0 || random.u8(..30) == 0 {
                    pairs.push((one, other));
                    for (src, dst) in [(one, other), (other, one)] {
                        objects.push(Object::Client {
                            dst_chain_id: dst.clone(),
                            dst_client_id: format!("07-tendermint-{}", a + b).into(),
                            src_chain_id: src.clone(),
                        });
                    }
                }
            }
        }
        if chains > 4 {
            objects.extend(one_of_each(&ids));
        }
        let mut channel = 0;
        while objects.len() < workers {
            // Some pairs have many channels, and some have none.
            let place = random.usize(..pairs.len()) * random.usize(..pairs.len()) / pairs.len();
            let (one, other) = pairs[place];
            let is_ignored = chains > 2 && place % 9 == 5;
            let is_one_way = chains > 2 && place % 11 == 3;
            let ways = [(one, other), (other, one)];
            for (src, dst) in ways.into_iter().take(if is_one_way { 1 } else { 2 }) {
                if !is_ignored && objects.len() < workers {
                    objects.push(Object::Packet {
                        dst_chain_id: dst.clone(),
                        src_chain_id: src.clone(),
                        src_channel_id: format!("channel-{channel}").into(),
                        src_port_id: if channel % 7 == 0 { "icahost" } else { "transfer" }.into(),
                    });
                }
            }
            channel += 1;
        }
        let worker = |(id, object)| Worker { id, object, data: None };
        let connected = ids.iter().enumerate().filter(|(place, _)| chains <= 4 || *place != 9);
        Self {
            chains: ids
                .iter()
                .map(|id| ChainConfig::new(id.clone(), ChainKind::CosmosSdk))
                .collect(),
            state: RelayerState {
                chains: connected.map(|(_, id)| id.clone()).collect(),
                workers: (1..).zip(objects).map(worker).collect(),
            },
        }
    }

    pub(crate) fn publish(&self, publisher: &StatePublisher) {
        publisher.set_chains(self.chains.clone()).unwrap();
        publisher.set_state(self.state.clone());
    }

    /// Connects all chains except for the last ones.
    pub(crate) fn without(mut self, count: usize) -> Self {
        let connected = self.chains.len() - count;
        self.state.chains = self.chains[..connected].iter().map(|chain| chain.id.clone()).collect();
        self
    }

    /// Returns the number of workers with a chain that is not connected.
    pub(crate) fn blocked(&self) -> usize {
        let is_connected =
            |chain: &str| self.state.chains.iter().any(|connected| connected.as_str() == chain);
        let is_blocked = |worker: &&Worker| match &worker.object {
            Object::Wallet { chain_id } => !is_connected(chain_id.as_str()),
            object => ends(object).is_some_and(|(a, b)| !is_connected(a) || !is_connected(b)),
        };
        self.state.workers.iter().filter(is_blocked).count()
    }

    /// Returns the number of chains with workers between them and this chain.
    pub(crate) fn neighbours(&self, chain: &str) -> usize {
        let ends = self.state.workers.iter().filter_map(|worker| ends(&worker.object));
        let others = ends.filter_map(|(a, b)| match (a == chain, b == chain) {
            (true, false) => Some(b),
            (false, true) => Some(a),
            _ => None,
        });
        others.collect::<BTreeSet<_>>().len()
    }

    /// Returns the number of pairs of chains with workers between them.
    pub(crate) fn pairs(&self) -> usize {
        let ends = self.state.workers.iter().filter_map(|worker| ends(&worker.object));
        let pairs: BTreeSet<_> = ends.map(|(a, b)| (a.min(b), a.max(b))).collect();
        pairs.len()
    }

    /// Returns the number of workers with this chain at an end.
    pub(crate) fn workers_of(&self, chain: &str) -> usize {
        let is_of = |worker: &&Worker| match &worker.object {
            Object::Wallet { chain_id } => chain_id.as_str() == chain,
            object => ends(object).is_some_and(|(a, b)| a == chain || b == chain),
        };
        self.state.workers.iter().filter(is_of).count()
    }
}

/// Returns one worker of each of the rare kinds.
fn one_of_each(ids: &[ChainId]) -> [Object; 4] {
    let [a, b] = [&ids[0], &ids[1]];
    [
        Object::Channel {
            dst_chain_id: b.clone(),
            src_chain_id: a.clone(),
            src_channel_id: "channel-1000".into(),
            src_port_id: "transfer".into(),
        },
        Object::Connection {
            dst_chain_id: a.clone(),
            src_chain_id: b.clone(),
            src_connection_id: "connection-12".into(),
        },
        Object::CrossChainQuery {
            src_chain_id: a.clone(),
            dst_chain_id: b.clone(),
            query_id: "query-3".into(),
            connection_id: "connection-12".into(),
        },
        Object::Other(OtherObject {
            kind: "Future".into(),
            fields: vec![("sequence".into(), Value::Natural(5))],
        }),
    ]
}

fn ends(object: &Object) -> Option<(&str, &str)> {
    match object {
        Object::Client { src_chain_id, dst_chain_id, .. }
        | Object::Channel { src_chain_id, dst_chain_id, .. }
        | Object::Connection { src_chain_id, dst_chain_id, .. }
        | Object::Packet { src_chain_id, dst_chain_id, .. }
        | Object::CrossChainQuery { src_chain_id, dst_chain_id, .. } => {
            Some((src_chain_id.as_str(), dst_chain_id.as_str()))
        }
        Object::Wallet { .. } | Object::Other(_) => None,
    }
}
