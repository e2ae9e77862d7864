//! One GET request to a relayer, within a time limit and a size limit.

use std::time::Duration;

use relayer_rest_common::text::for_log;
use reqwest::redirect::Policy;
use reqwest::{Client, Response, StatusCode};
use url::Url;

/// An HTTP client for a relayer's API.
pub(super) struct Relayer {
    base: Url,
    client: Client,
    body_limit: usize,
}

/// A request without a usable response.
#[derive(Debug, thiserror::Error)]
pub(super) enum GetError {
    /// The relayer did not respond.
    #[error("{}", with_sources(.0))]
    Unreachable(reqwest::Error),
    /// The response was too large.
    #[error("the response is larger than {0} bytes; raise upstream.body")]
    TooLarge(usize),
    /// The status is neither a success nor a client error with a JSON object.
    #[error("unexpected status {0}")]
    Status(StatusCode),
}

impl Relayer {
    pub(super) fn new(base: Url, timeout: Duration, body_limit: usize) -> reqwest::Result<Self> {
        let client = Client::builder()
            .no_proxy()
            .redirect(Policy::none())
            .timeout(timeout)
            .user_agent(concat!("relayer-rest/", env!("CARGO_PKG_VERSION")))
            .build()?;
        Ok(Self { base, client, body_limit })
    }

    /// Returns the body of the response. An error reported by the relayer is a response,
    /// too: it has status 200 or a client error status, depending on the relayer's
    /// version.
    pub(super) async fn get(&self, segments: &[&str]) -> Result<Vec<u8>, GetError> {
        let mut url = self.base.clone();
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty().extend(segments);
        }
        let response = self.client.get(url).send().await.map_err(unreachable)?;
        let status = response.status();
        let body = self.body(response).await?;
        if status.is_success() || (status.is_client_error() && body.starts_with(b"{")) {
            Ok(body)
        } else {
            Err(GetError::Status(status))
        }
    }

    async fn body(&self, mut response: Response) -> Result<Vec<u8>, GetError> {
        let announced = usize::try_from(response.content_length().unwrap_or(0));
        let announced = announced.unwrap_or(usize::MAX);
        if announced > self.body_limit {
            return Err(GetError::TooLarge(self.body_limit));
        }
        let mut body: Vec<u8> = Vec::with_capacity(announced);
        while let Some(chunk) = response.chunk().await.map_err(unreachable)? {
            if body.len() + chunk.len() > self.body_limit {
                return Err(GetError::TooLarge(self.body_limit));
            }
            if body.capacity() - body.len() < chunk.len() {
                // Grows by a quarter instead of doubling, as `Vec` does by default.
                body.reserve_exact(chunk.len().max(body.len() / 4));
            }
            body.extend_from_slice(&chunk);
        }
        Ok(body)
    }
}

/// Omits the URL from the error, because it may contain a password.
fn unreachable(error: reqwest::Error) -> GetError {
    GetError::Unreachable(error.without_url())
}

fn with_sources(error: &reqwest::Error) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    for_log(&text)
}
