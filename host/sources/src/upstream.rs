//! Source: a running relayer, polled over its own REST API.

use std::io;
use std::sync::Arc;

use relayer_rest_common::url_secrets::without_secrets;
use relayer_rest_state::{
    Command, CommandError, CommandExecutor, CommandResult, SourceKind, StatePublisher, TraceContext,
};
use tracing::warn;
use url::Url;

use super::http_client::HttpClient;
use super::polling::{Endpoint, Polling, RelayerApi, RequestError};
use super::relayer_json;
use super::settings::{UpstreamUrlError, upstream_url};

/// A relayer that is polled over its REST API.
#[derive(Debug, Clone)]
pub struct Upstream {
    /// The base address of the relayer's API: `http://127.0.0.1:3000`.
    pub url: Url,
    /// The maximum size of a response, in bytes. Default: 64 MiB.
    pub body_limit: usize,
    /// The settings for polling.
    pub polling: Polling,
}

impl Upstream {
    /// Creates the default settings for the relayer at this URL.
    ///
    /// # Errors
    /// Returns an error if the URL is invalid or its scheme is not http.
    pub fn new(url: &str) -> Result<Self, UpstreamUrlError> {
        let url = upstream_url(url)?;
        Ok(Self { url, body_limit: 64 << 20, polling: Polling::default() })
    }

    /// Returns the relayer as one that executes commands.
    ///
    /// # Errors
    /// Returns an error if no HTTP client can be created.
    pub fn commands(&self) -> io::Result<Arc<dyn CommandExecutor>> {
        let client = HttpClient::new(MAX_COMMAND_RESPONSE, 0).map_err(io::Error::other)?;
        Ok(Arc::new(HttpCommands { base: self.url.clone(), client: Arc::new(client) }))
    }

    /// Publishes the relayer's responses until the future is dropped.
    pub async fn run(self, publisher: StatePublisher) {
        match HttpClient::new(self.body_limit, 1) {
            Ok(client) => {
                self.polling.run(HttpApi { base: self.url, client }, publisher).await;
            }
            Err(error) => {
                warn!(%error, "cannot poll the relayer: no HTTP client can be created");
            }
        }
    }
}

/// A relayer's API over HTTP.
struct HttpApi {
    base: Url,
    client: HttpClient,
}

impl RelayerApi for HttpApi {
    fn source(&self) -> (SourceKind, String) {
        let url = self.base.as_str().to_owned();
        (SourceKind::Upstream, without_secrets(url).unwrap_or_default())
    }

    /// Returns the body of the response. An error reported by the relayer has status 200 or
    /// a client error status, depending on the relayer's version.
    async fn get(&self, endpoint: &Endpoint) -> Result<Vec<u8>, RequestError> {
        let mut url = self.base.clone();
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty().extend(endpoint.segments());
        }
        let (status, body) = self.client.get(url).await?;
        if status.is_success() || (status.is_client_error() && body.starts_with(b"{")) {
            Ok(body)
        } else {
            Err(RequestError::Status(status.as_u16()))
        }
    }
}

/// Sends commands to a relayer over HTTP.
struct HttpCommands {
    base: Url,
    client: Arc<HttpClient>,
}

/// The maximum size of the response to a command, in bytes.
const MAX_COMMAND_RESPONSE: usize = 64 << 10;

impl CommandExecutor for HttpCommands {
    fn execute(&self, command: &Command, trace: Option<&TraceContext>) -> CommandResult {
        let Command::ClearPackets { chain } = command;
        let mut url = self.base.clone();
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty().push("clear_packets");
        }
        url.set_query(None);
        if let Some(chain) = chain {
            url.query_pairs_mut().append_pair("chain", chain.as_str());
        }
        let client = Arc::clone(&self.client);
        let trace = trace.cloned();
        Box::pin(async move {
            let refused = |reason: RequestError| CommandError::Refused(reason.to_string());
            let (status, body) = client.post(url, trace.as_ref()).await.map_err(refused)?;
            if !status.is_success() {
                return Err(refused(RequestError::Status(status.as_u16())));
            }
            relayer_json::command(&body).map_err(|error| CommandError::Refused(error.to_string()))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Upstream;

    #[test]
    fn only_urls_of_an_api_are_accepted() {
        for url in ["http://127.0.0.1:3000", "http://relayer:80/base/", "http://[::1]:3000"] {
            Upstream::new(url).unwrap();
        }
        for url in ["", "127.0.0.1:3000", "localhost:3000", "https://h", "file:///x", "http://"] {
            let message = Upstream::new(url).unwrap_err().to_string();
            assert!(message.contains("expected one such as http://127.0.0.1:3000"), "{message}");
        }
    }
}
