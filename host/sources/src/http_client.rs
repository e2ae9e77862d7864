//! Requests to a relayer over HTTP, with a bounded body.

use relayer_rest_common::text::for_log;
use relayer_rest_state::TraceContext;
use reqwest::header::{CONNECTION, CONTENT_LENGTH};
use reqwest::redirect::Policy;
use reqwest::{Client, Response, StatusCode};
use url::Url;

use super::polling::RequestError;

/// A client of the servers of one relayer.
pub(super) struct HttpClient {
    client: Client,
    body_limit: usize,
}

impl HttpClient {
    /// Creates a client that keeps this number of idle connections.
    pub(super) fn new(body_limit: usize, idle_connections: usize) -> reqwest::Result<Self> {
        let client = Client::builder()
            .no_proxy()
            .redirect(Policy::none())
            .pool_max_idle_per_host(idle_connections)
            .user_agent(concat!("relayer-rest/", env!("CARGO_PKG_VERSION")))
            .build()?;
        Ok(Self { client, body_limit })
    }

    /// Requests a resource, and returns the status and the body of the response.
    pub(super) async fn get(&self, url: Url) -> Result<(StatusCode, Vec<u8>), RequestError> {
        let response = self.client.get(url).send().await.map_err(unreachable)?;
        let status = response.status();
        Ok((status, self.body(response).await?))
    }

    /// Sends a request without a body on a connection of its own, so that it is never sent
    /// twice: a connection that the relayer has closed meanwhile would cause that.
    pub(super) async fn post(
        &self,
        url: Url,
        trace: Option<&TraceContext>,
    ) -> Result<(StatusCode, Vec<u8>), RequestError> {
        let mut request =
            self.client.post(url).header(CONNECTION, "close").header(CONTENT_LENGTH, 0);
        if let Some(TraceContext { traceparent, tracestate }) = trace {
            request = request.header("traceparent", traceparent);
            if let Some(tracestate) = tracestate {
                request = request.header("tracestate", tracestate);
            }
        }
        let response = request.send().await.map_err(unreachable)?;
        let status = response.status();
        Ok((status, self.body(response).await?))
    }

    async fn body(&self, mut response: Response) -> Result<Vec<u8>, RequestError> {
        let announced = usize::try_from(response.content_length().unwrap_or(0));
        let announced = announced.unwrap_or(usize::MAX);
        if announced > self.body_limit {
            return Err(RequestError::TooLarge(self.body_limit));
        }
        let mut body: Vec<u8> = Vec::with_capacity(announced);
        while let Some(chunk) = response.chunk().await.map_err(unreachable)? {
            if body.len() + chunk.len() > self.body_limit {
                return Err(RequestError::TooLarge(self.body_limit));
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
fn unreachable(error: reqwest::Error) -> RequestError {
    let error = error.without_url();
    let mut text = error.to_string();
    let mut source = std::error::Error::source(&error);
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    RequestError::Unreachable(for_log(&text))
}
