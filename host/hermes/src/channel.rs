//! The API of the relayer, over the channel to its REST server.

use crossbeam_channel::Sender;
use ibc_relayer::rest::RestApiError;
use ibc_relayer::rest::request::{ReplySender, Request, reply_channel};
use ibc_relayer_types::core::ics24_host::identifier::ChainId;
use relayer_rest_host::state::{
    Command, CommandError, CommandExecutor, CommandResult, Endpoint, RelayerApi, RequestError,
    SourceKind, TraceContext,
};
use serde::Serialize;
use tokio::sync::Mutex;
use tokio::task::{JoinHandle, spawn_blocking};

type Response = Result<Vec<u8>, RequestError>;

/// A relayer that is asked over its channel, one request at a time.
pub(crate) struct Channel {
    sender: Sender<Request>,
    /// The request in progress. After a time-out, the next request waits for its end, so that
    /// a relayer that is busy does not find a queue of requests.
    pending: Mutex<Option<JoinHandle<Response>>>,
}

impl Channel {
    pub(crate) fn new(sender: Sender<Request>) -> Self {
        Self { sender, pending: Mutex::new(None) }
    }

    /// Returns the relayer as one that executes commands.
    pub(crate) fn commands(&self) -> ChannelCommands {
        ChannelCommands(self.sender.clone())
    }
}

impl RelayerApi for Channel {
    fn source(&self) -> (SourceKind, String) {
        (SourceKind::Relayer, String::new())
    }

    async fn get(&self, endpoint: &Endpoint) -> Response {
        let mut pending = self.pending.lock().await;
        if let Some(given_up) = pending.as_mut() {
            given_up.await.ok();
        }
        let sender = self.sender.clone();
        let endpoint = endpoint.clone();
        let request = pending.insert(spawn_blocking(move || respond(&sender, endpoint)));
        let response = request.await;
        *pending = None;
        response.unwrap_or_else(|error| Err(RequestError::Unreachable(error.to_string())))
    }
}

/// Gives commands to a relayer over its channel.
pub(crate) struct ChannelCommands(pub(crate) Sender<Request>);

impl CommandExecutor for ChannelCommands {
    fn execute(&self, command: &Command, _: Option<&TraceContext>) -> CommandResult {
        let Command::ClearPackets { chain } = command.clone();
        let sender = self.0.clone();
        Box::pin(async move {
            let execute = move || {
                let chain_id = chain.map(|id| ChainId::from_string(id.as_str()));
                ask(&sender, |reply_to| Request::ClearPackets { chain_id, reply_to })
            };
            let refused = |error: String| CommandError::Refused(error);
            let response =
                spawn_blocking(execute).await.map_err(|error| refused(error.to_string()))?;
            let result = response.map_err(|error| refused(error.to_string()))?;
            result.map_err(|error| refused(error.to_string()))
        })
    }
}

/// Sends a request, and waits for the response.
fn respond(sender: &Sender<Request>, endpoint: Endpoint) -> Response {
    match endpoint {
        Endpoint::Version => {
            let version = ask(sender, |reply_to| Request::Version { reply_to })?;
            json(version.map(|version| [version]))
        }
        Endpoint::Chains => json(ask(sender, |reply_to| Request::GetChains { reply_to })?),
        Endpoint::Chain(id) => {
            let chain_id = ChainId::from_string(id.as_str());
            json(ask(sender, |reply_to| Request::GetChain { chain_id, reply_to })?)
        }
        Endpoint::State => json(ask(sender, |reply_to| Request::State { reply_to })?),
    }
}

fn ask<T>(
    sender: &Sender<Request>,
    request: impl FnOnce(ReplySender<T>) -> Request,
) -> Result<Result<T, RestApiError>, RequestError> {
    let has_ended = |_: String| RequestError::Unreachable("the relayer has ended".to_owned());
    let (reply_to, reply) = reply_channel();
    sender.send(request(reply_to)).map_err(|error| has_ended(error.to_string()))?;
    reply.recv().map_err(|error| has_ended(error.to_string()))
}

/// Returns the body of a response as the original sends it.
fn json<T: Serialize>(result: Result<T, RestApiError>) -> Response {
    #[derive(Serialize)]
    #[serde(tag = "status", content = "result", rename_all = "lowercase")]
    enum Envelope<T> {
        Success(T),
        Error(RestApiError),
    }
    let envelope = result.map_or_else(Envelope::Error, Envelope::Success);
    serde_json::to_vec(&envelope)
        .map_err(|error| RequestError::Unreachable(format!("the response is not JSON: {error}")))
}

#[cfg(test)]
mod tests {
    use super::{Channel, ChannelCommands};
    use crossbeam_channel::{Receiver, unbounded};
    use ibc_relayer::rest::RestApiError;
    use ibc_relayer::rest::request::{Request, VersionInfo};
    use relayer_rest_host::state::{
        Command, CommandError, CommandExecutor, Endpoint, RelayerApi, RequestError,
    };
    use std::thread;
    use std::time::Duration;
    use tokio::time::timeout;

    /// Starts a relayer that handles requests with this function.
    fn relayer(handle: impl Fn(Request) + Send + 'static) -> Channel {
        let (sender, requests): (_, Receiver<Request>) = unbounded();
        thread::spawn(move || requests.into_iter().for_each(handle));
        Channel::new(sender)
    }

    async fn text(channel: &Channel, endpoint: Endpoint) -> String {
        String::from_utf8(channel.get(&endpoint).await.unwrap()).unwrap()
    }

    #[tokio::test]
    async fn responses_have_the_form_of_the_original() {
        let channel = relayer(|request| match request {
            Request::Version { reply_to } => {
                let version = VersionInfo { name: "ibc-relayer".into(), version: "1".into() };
                reply_to.send(Ok(version)).unwrap();
            }
            Request::GetChain { chain_id, reply_to } => {
                reply_to.send(Err(RestApiError::ChainConfigNotFound(chain_id))).unwrap();
            }
            _ => {}
        });
        assert_eq!(
            text(&channel, Endpoint::Version).await,
            r#"{"status":"success","result":[{"name":"ibc-relayer","version":"1"}]}"#
        );
        assert_eq!(
            text(&channel, Endpoint::Chain("x-1".into())).await,
            r#"{"status":"error","result":{"name":"ChainConfigNotFound","msg":"could not find configuration for chain: x-1"}}"#
        );
    }

    #[tokio::test]
    async fn a_command_is_a_request_over_the_channel() {
        let (sender, requests) = unbounded();
        thread::spawn(move || {
            for request in requests {
                let Request::ClearPackets { chain_id, reply_to } = request else { continue };
                let result = match chain_id {
                    Some(id) if id.as_str() == "ibc-0" => Ok(()),
                    Some(id) => Err(RestApiError::ChainConfigNotFound(id)),
                    // The relayer ends.
                    None => return,
                };
                reply_to.send(result).unwrap();
            }
        });
        let commands = ChannelCommands(sender);
        let clear = |chain: Option<&str>| {
            commands.execute(&Command::ClearPackets { chain: chain.map(Into::into) }, None)
        };
        assert_eq!(clear(Some("ibc-0")).await, Ok(()));
        for chain in [Some("ibc-9"), None, None] {
            assert!(matches!(clear(chain).await, Err(CommandError::Refused(_))));
        }
    }

    #[tokio::test]
    async fn a_relayer_that_ends_is_unreachable() {
        let ended = Err(RequestError::Unreachable("the relayer has ended".to_owned()));
        // It drops the request, or the channel.
        assert_eq!(relayer(drop).get(&Endpoint::State).await, ended);
        let (sender, _) = unbounded();
        assert_eq!(Channel::new(sender).get(&Endpoint::State).await, ended);
    }

    #[tokio::test]
    async fn a_request_that_is_given_up_is_the_only_one() {
        let (sender, requests) = unbounded();
        let channel = Channel::new(sender);
        for _ in 0..3 {
            timeout(Duration::from_millis(10), channel.get(&Endpoint::Chains)).await.unwrap_err();
        }
        let Ok(Request::GetChains { reply_to }) = requests.recv() else { panic!("no request") };
        assert!(requests.is_empty(), "there are more requests");
        reply_to.send(Ok(Vec::new())).unwrap();
        let answer = thread::spawn(move || match requests.recv().unwrap() {
            Request::Version { reply_to } => {
                let version = VersionInfo { name: "n".into(), version: "v".into() };
                reply_to.send(Ok(version)).unwrap();
            }
            _ => panic!("another request"),
        });
        // The late response does not belong to the next request.
        assert!(text(&channel, Endpoint::Version).await.contains(r#""name":"n""#));
        answer.join().unwrap();
    }
}
