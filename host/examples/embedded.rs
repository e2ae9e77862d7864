//! A relayer that serves its own state: `cargo run -p relayer-rest-host --example embedded`.
//!
//! A thread of the relayer adds and removes workers, as it would while it relays; the API
//! is served beside it. The example requests its own API, prints the responses, and ends.

use std::error::Error;
use std::thread;

use relayer_rest_host::Server;
use relayer_rest_host::module::{Engine, Limits, Module};
use relayer_rest_host::state::{
    ChainConfig, ChainKind, Component, Object, RelayerState, StatePublisher, Worker,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, ToSocketAddrs};
use tokio::sync::oneshot;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    // The relayer's data goes into a publisher. It is cheap to clone, and can be used
    // from any thread, in or out of async code.
    let publisher = StatePublisher::new();
    publisher.set_components(vec![Component {
        name: "ibc-relayer".to_owned(),
        version: "1.13.1".to_owned(),
    }]);
    publisher.set_chains(vec![
        ChainConfig { max_gas: Some(400_000), ..ChainConfig::new("ibc-0", ChainKind::CosmosSdk) },
        ChainConfig::new("ibc-1", ChainKind::CosmosSdk),
    ])?;

    // The API is a module in a sandbox; this is the bundled one.
    let engine = Engine::new(&Limits::default())?;
    let server = Server::new(Module::embedded(&engine)?, publisher.reader());
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let (stop, stopped) = oneshot::channel::<()>();
    let serving = tokio::spawn(server.serve(listener, async { drop(stopped.await) }));
    println!("serving on http://{address}");

    println!("before it starts: {}", get(address, "/state").await?);
    relay(publisher.clone()).await?;
    println!("with two workers: {}", get(address, "/state").await?);
    publisher.update_state(|state| state.workers.retain(|worker| worker.id != 1));
    println!("with one worker:  {}", get(address, "/state").await?);

    stop.send(()).map_err(|()| "the server has stopped by itself")?;
    serving.await?;
    Ok(())
}

/// Runs the relayer: a thread that starts workers, and publishes each.
async fn relay(publisher: StatePublisher) -> Result<(), Box<dyn Error>> {
    let (done, started) = oneshot::channel();
    thread::spawn(move || {
        publisher.set_state(RelayerState {
            chains: vec!["ibc-0".into(), "ibc-1".into()],
            workers: Vec::new(),
        });
        let client = Object::Client {
            dst_chain_id: "ibc-1".into(),
            dst_client_id: "07-tendermint-0".into(),
            src_chain_id: "ibc-0".into(),
        };
        let packet = Object::Packet {
            dst_chain_id: "ibc-1".into(),
            src_chain_id: "ibc-0".into(),
            src_channel_id: "channel-0".into(),
            src_port_id: "transfer".into(),
        };
        for (id, object) in [(1, client), (2, packet)] {
            publisher.update_state(|state| {
                state.workers.push(Worker { id, object, data: None });
            });
        }
        done.send(()).ok();
    });
    Ok(started.await?)
}

/// Returns the body of the response to a GET.
async fn get(address: impl ToSocketAddrs, path: &str) -> Result<String, Box<dyn Error>> {
    let mut stream = TcpStream::connect(address).await?;
    let request = format!("GET {path} HTTP/1.1\r\nhost: relayer\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut response = String::new();
    stream.read_to_string(&mut response).await?;
    let (_, body) = response.split_once("\r\n\r\n").ok_or("the response has no body")?;
    Ok(body.to_owned())
}
