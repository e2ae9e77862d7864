//! The REST server of the relayer, `ibc-relayer-rest`, with a relayer that responds at once:
//! `peer-original ADDRESS STATE`. `STATE` is a file with the result of `/state`.
//!
//! The relayer itself takes one request per 500 ms from the same channel.

use std::error::Error;
use std::fs;
use std::net::SocketAddr;
use std::thread;

use ibc_relayer::rest::request::Request;
use ibc_relayer::supervisor::dump_state::SupervisorState;
use tokio::runtime::Builder;

fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [address, state] = &arguments[..] else {
        return Err("usage: peer-original ADDRESS STATE".into());
    };
    let address: SocketAddr = address.parse()?;
    let state: SupervisorState = serde_json::from_slice(&fs::read(state)?)?;

    let (sender, requests) = crossbeam_channel::unbounded();
    thread::spawn(move || {
        for request in requests {
            // An error means that the client has left.
            match request {
                Request::State { reply_to } => drop(reply_to.send(Ok(state.clone()))),
                Request::GetChains { reply_to } => drop(reply_to.send(Ok(state.chains.clone()))),
                // Not measured: without a reply, the server responds with an error.
                _ => {}
            }
        }
    });
    // The relayer, too, runs its server on a runtime of one thread.
    let runtime = Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async { ibc_relayer_rest::spawn(address, sender)?.await.map_err(Into::into) })
}
