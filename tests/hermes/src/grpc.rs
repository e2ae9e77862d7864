//! The responses of a scripted chain to gRPC requests, with the queries that Hermes makes.

use std::convert::Infallible;

use bytes::{BufMut, Bytes, BytesMut};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use hyper::Response;
use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use ibc_proto::cosmos::bank::v1beta1 as bank;
use ibc_proto::cosmos::base::v1beta1::Coin;
use ibc_proto::ibc::core::channel::v1 as channel;
use ibc_proto::ibc::core::client::v1 as client;
use ibc_proto::ibc::core::connection::v1 as connection;
use prost::Message;

use crate::chain::{BALANCE, CLIENT, CONNECTION, Chain, DENOM, connection_end};

/// The size of a message's head: a flag for compression, and the length.
const HEAD: usize = 5;
const UNIMPLEMENTED: HeaderValue = HeaderValue::from_static("12");
const OK: HeaderValue = HeaderValue::from_static("0");
const STATUS: HeaderName = HeaderName::from_static("grpc-status");

/// Returns the response to a request, which is the same for all parameters. Its trailers have
/// the status.
pub(crate) fn respond(chain: &Chain, path: &str) -> Response<BoxBody<Bytes, Infallible>> {
    let message = query(chain, path);
    let status = if message.is_some() { OK } else { UNIMPLEMENTED };
    let trailers = HeaderMap::from_iter([(STATUS, status)]);
    let body = Full::new(message.map_or_else(Bytes::new, |message| frame(&message)));
    let body = body.with_trailers(async move { Some(Ok(trailers)) });
    let mut response = Response::new(body.boxed());
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    response
}

fn frame(message: &[u8]) -> Bytes {
    let mut frame = BytesMut::with_capacity(HEAD + message.len());
    frame.put_u8(0);
    frame.put_u32(u32::try_from(message.len()).unwrap());
    frame.put_slice(message);
    frame.freeze()
}

/// Returns the response to a query, or `None` if it is not implemented.
fn query(chain: &Chain, path: &str) -> Option<Vec<u8>> {
    let response = match path.strip_prefix('/')? {
        "cosmos.bank.v1beta1.Query/Balance" => bank::QueryBalanceResponse {
            balance: Some(Coin { denom: DENOM.to_owned(), amount: BALANCE.to_string() }),
        }
        .encode_to_vec(),
        "ibc.core.client.v1.Query/ClientStates" => client::QueryClientStatesResponse {
            client_states: vec![client::IdentifiedClientState {
                client_id: CLIENT.to_owned(),
                client_state: Some(chain.client_state()),
            }],
            pagination: None,
        }
        .encode_to_vec(),
        "ibc.core.client.v1.Query/ConsensusStateHeights" => {
            client::QueryConsensusStateHeightsResponse::default().encode_to_vec()
        }
        "ibc.core.connection.v1.Query/ClientConnections" => {
            connection::QueryClientConnectionsResponse {
                connection_paths: vec![CONNECTION.to_owned()],
                ..Default::default()
            }
            .encode_to_vec()
        }
        "ibc.core.connection.v1.Query/Connection" => connection::QueryConnectionResponse {
            connection: Some(connection_end()),
            ..Default::default()
        }
        .encode_to_vec(),
        "ibc.core.channel.v1.Query/ConnectionChannels" => {
            channel::QueryConnectionChannelsResponse {
                channels: chain.channel_ends(),
                pagination: None,
                height: Some(chain.ibc_height()),
            }
            .encode_to_vec()
        }
        // All packets have been received and acknowledged.
        "ibc.core.channel.v1.Query/PacketCommitments" => channel::QueryPacketCommitmentsResponse {
            height: Some(chain.ibc_height()),
            ..Default::default()
        }
        .encode_to_vec(),
        "ibc.core.channel.v1.Query/PacketAcknowledgements" => {
            channel::QueryPacketAcknowledgementsResponse {
                height: Some(chain.ibc_height()),
                ..Default::default()
            }
            .encode_to_vec()
        }
        "ibc.core.channel.v1.Query/UnreceivedPackets" => channel::QueryUnreceivedPacketsResponse {
            height: Some(chain.ibc_height()),
            ..Default::default()
        }
        .encode_to_vec(),
        "ibc.core.channel.v1.Query/UnreceivedAcks" => channel::QueryUnreceivedAcksResponse {
            height: Some(chain.ibc_height()),
            ..Default::default()
        }
        .encode_to_vec(),
        _ => return None,
    };
    Some(response)
}
