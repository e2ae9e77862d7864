//! The state of a scripted chain. It has one client, of the counterparty, and one connection;
//! tests open channels.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant, SystemTime};

use ibc_proto::google::protobuf::{Any, Duration as ProtoDuration, Timestamp};
use ibc_proto::ibc::core::channel::v1 as channel;
use ibc_proto::ibc::core::client::v1::Height;
use ibc_proto::ibc::core::commitment::v1::{MerklePrefix, MerkleRoot};
use ibc_proto::ibc::core::connection::v1 as connection;
use ibc_proto::ibc::lightclients::tendermint::v1::{ClientState, ConsensusState, Fraction};
use prost::Message;

/// The client of the counterparty, on each chain.
pub const CLIENT: &str = "07-tendermint-0";
/// The connection to the counterparty, on each chain.
pub const CONNECTION: &str = "connection-0";
/// The port of all channels.
pub const PORT: &str = "transfer";

/// The tokens of the relayer's wallet, on each chain.
pub const BALANCE: u64 = 1_000_000;
/// The denomination of the tokens.
pub const DENOM: &str = "stake";

/// The time between two blocks.
const BLOCK_TIME: Duration = Duration::from_millis(500);
/// The height at the start, so that earlier heights are valid.
const FIRST_HEIGHT: u64 = 100;
/// The open state of connections and channels.
const OPEN: i32 = 3;
const UNORDERED: i32 = 1;
const DAY: i64 = 24 * 60 * 60;

/// An event of a block, with its attributes.
#[derive(Clone)]
pub(crate) struct Event {
    pub(crate) kind: &'static str,
    pub(crate) attributes: Vec<(&'static str, String)>,
}

/// A scripted chain.
pub(crate) struct Chain {
    id: String,
    counterparty: String,
    started: Instant,
    /// The numbers of the open channels, which are the same on the counterparty.
    channels: BTreeSet<u32>,
    events: BTreeMap<u64, Vec<Event>>,
}

impl Chain {
    pub(crate) fn new(id: &str, counterparty: &str) -> Self {
        Self {
            id: id.to_owned(),
            counterparty: counterparty.to_owned(),
            started: Instant::now(),
            channels: BTreeSet::new(),
            events: BTreeMap::new(),
        }
    }

    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// Returns the height of the latest block, which grows with time.
    pub(crate) fn height(&self) -> u64 {
        let blocks = self.started.elapsed().as_millis() / BLOCK_TIME.as_millis();
        FIRST_HEIGHT + u64::try_from(blocks).unwrap()
    }

    pub(crate) fn ibc_height(&self) -> Height {
        height_of(&self.id, self.height())
    }

    pub(crate) fn events(&self, height: u64) -> &[Event] {
        self.events.get(&height).map_or(&[], Vec::as_slice)
    }

    pub(crate) fn open_channel(&mut self, number: u32) {
        self.channels.insert(number);
    }

    /// Adds the event of a channel that is open on both chains to the next block.
    pub(crate) fn confirm_channel(&mut self, number: u32) {
        let channel = format!("channel-{number}");
        self.add_event(Event {
            kind: "channel_open_confirm",
            attributes: vec![
                ("port_id", PORT.to_owned()),
                ("channel_id", channel.clone()),
                ("counterparty_port_id", PORT.to_owned()),
                ("counterparty_channel_id", channel),
                ("connection_id", CONNECTION.to_owned()),
            ],
        });
    }

    /// Adds the event of a sent packet to the next block. The counterparty has received it.
    pub(crate) fn send_packet(&mut self, number: u32) {
        let channel = format!("channel-{number}");
        let timeout = SystemTime::now() + Duration::from_hours(1);
        let timeout = timeout.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_nanos();
        self.add_event(Event {
            kind: "send_packet",
            attributes: vec![
                ("packet_data_hex", "7b7d".to_owned()),
                ("packet_timeout_height", "0-0".to_owned()),
                ("packet_timeout_timestamp", timeout.to_string()),
                ("packet_sequence", "1".to_owned()),
                ("packet_src_port", PORT.to_owned()),
                ("packet_src_channel", channel.clone()),
                ("packet_dst_port", PORT.to_owned()),
                ("packet_dst_channel", channel),
                ("packet_channel_ordering", "ORDER_UNORDERED".to_owned()),
                ("packet_connection", CONNECTION.to_owned()),
            ],
        });
    }

    fn add_event(&mut self, event: Event) {
        // The relayer may have read the latest block.
        self.events.entry(self.height() + 1).or_default().push(event);
    }

    /// Returns the value of a key of the store `ibc`, encoded.
    pub(crate) fn value(&self, key: &str) -> Option<Vec<u8>> {
        let client = format!("clients/{CLIENT}/");
        let channels = format!("channelEnds/ports/{PORT}/channels/channel-");
        if let Some(part) = key.strip_prefix(&client) {
            let is_state = part == "clientState";
            let is_consensus = part.starts_with("consensusStates/");
            return match (is_state, is_consensus) {
                (true, _) => Some(self.client_state().encode_to_vec()),
                (_, true) => Some(consensus_state().encode_to_vec()),
                _ => None,
            };
        }
        let number = key.strip_prefix(&channels)?.parse().ok()?;
        let end = self.channels.contains(&number).then(|| channel_end(number))?;
        Some(end.encode_to_vec())
    }

    /// Returns the state of the counterparty's client. Its latest height is the first one, so
    /// that the relayer finds headers at it.
    pub(crate) fn client_state(&self) -> Any {
        #[allow(deprecated)]
        let state = ClientState {
            chain_id: self.counterparty.clone(),
            trust_level: Some(Fraction { numerator: 1, denominator: 3 }),
            trusting_period: Some(ProtoDuration { seconds: 14 * DAY, nanos: 0 }),
            unbonding_period: Some(ProtoDuration { seconds: 21 * DAY, nanos: 0 }),
            max_clock_drift: Some(ProtoDuration { seconds: 40, nanos: 0 }),
            frozen_height: Some(Height { revision_number: 0, revision_height: 0 }),
            latest_height: Some(height_of(&self.counterparty, FIRST_HEIGHT)),
            proof_specs: vec![],
            upgrade_path: vec!["upgrade".to_owned()],
            allow_update_after_expiry: false,
            allow_update_after_misbehaviour: false,
        };
        any("/ibc.lightclients.tendermint.v1.ClientState", &state)
    }

    pub(crate) fn channel_ends(&self) -> Vec<channel::IdentifiedChannel> {
        let identified = |number: &u32| {
            let end = channel_end(*number);
            channel::IdentifiedChannel {
                state: end.state,
                ordering: end.ordering,
                counterparty: end.counterparty,
                connection_hops: end.connection_hops,
                version: end.version,
                port_id: PORT.to_owned(),
                channel_id: format!("channel-{number}"),
                upgrade_sequence: 0,
            }
        };
        self.channels.iter().map(identified).collect()
    }
}

pub(crate) fn connection_end() -> connection::ConnectionEnd {
    connection::ConnectionEnd {
        client_id: CLIENT.to_owned(),
        versions: vec![connection::Version {
            identifier: "1".to_owned(),
            features: vec!["ORDER_ORDERED".to_owned(), "ORDER_UNORDERED".to_owned()],
        }],
        state: OPEN,
        counterparty: Some(connection::Counterparty {
            client_id: CLIENT.to_owned(),
            connection_id: CONNECTION.to_owned(),
            prefix: Some(MerklePrefix { key_prefix: b"ibc".to_vec() }),
        }),
        delay_period: 0,
    }
}

fn channel_end(number: u32) -> channel::Channel {
    channel::Channel {
        state: OPEN,
        ordering: UNORDERED,
        counterparty: Some(channel::Counterparty {
            port_id: PORT.to_owned(),
            channel_id: format!("channel-{number}"),
        }),
        connection_hops: vec![CONNECTION.to_owned()],
        version: "ics20-1".to_owned(),
        upgrade_sequence: 0,
    }
}

/// Returns a consensus state of now, so that the client needs no update.
fn consensus_state() -> Any {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    let state = ConsensusState {
        timestamp: Some(Timestamp { seconds: i64::try_from(now.as_secs()).unwrap(), nanos: 0 }),
        root: Some(MerkleRoot { hash: vec![0; 32] }),
        next_validators_hash: vec![0; 32],
    };
    any("/ibc.lightclients.tendermint.v1.ConsensusState", &state)
}

fn any(type_url: &str, message: &impl Message) -> Any {
    Any { type_url: type_url.to_owned(), value: message.encode_to_vec() }
}

/// Returns a height of a chain. Its revision is the number at the end of the chain's id.
fn height_of(chain: &str, height: u64) -> Height {
    let revision = chain.rsplit_once('-').and_then(|(_, number)| number.parse().ok());
    Height { revision_number: revision.unwrap_or(0), revision_height: height }
}
