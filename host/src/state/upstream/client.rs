//! One question to a relayer: GET, within a time and a size.

use std::time::Duration;

use reqwest::redirect::Policy;
use reqwest::{Client, Response, StatusCode};
use url::Url;

use crate::text::for_log;

/// A relayer's API, as seen by a client of it.
pub(super) struct Relayer {
    base: Url,
    client: Client,
    body_limit: usize,
}

/// No answer, or none of use.
#[derive(Debug, thiserror::Error)]
pub(super) enum GetError {
    /// No answer came.
    #[error("{}", with_sources(.0))]
    Unreachable(reqwest::Error),
    /// The answer was too large.
    #[error("the answer is larger than {0} bytes")]
    TooLarge(usize),
    /// The answer was not one to such a question.
    #[error("the answer's status is {0}")]
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

    /// The body of the answer. An error of the relayer's is an answer, too:
    /// old ones come with status 200, others with one of their own.
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
                // Not twice the size, as a vector does on its own.
                body.reserve_exact(chunk.len().max(body.len() / 4));
            }
            body.extend_from_slice(&chunk);
        }
        Ok(body)
    }
}

/// The URL is left out: it may hold a password.
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
