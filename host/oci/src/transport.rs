//! Requests to a registry, with the authentication that it asks for.
//!
//! Redirects are followed without credentials: they lead to stores of blobs with signed
//! addresses. HTTPS is never left, except for registries that are declared insecure.

use std::cell::RefCell;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use relayer_rest_common::text::for_log;
use rustls::crypto::aws_lc_rs;
use serde::Deserialize;
use ureq::http::header::{
    ACCEPT, AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, LOCATION, WWW_AUTHENTICATE,
};
use ureq::http::{HeaderMap, Method, Request, Response, StatusCode};
use ureq::tls::{Certificate, RootCerts, TlsConfig};
use ureq::{Agent, Body};
use url::Url;

use super::challenge::Challenge;
use super::credentials::{self, Credentials};
use super::error::RegistryError;
use super::reference::Reference;
use super::settings::RegistrySettings;

/// The maximum number of redirects of a request.
const MAX_REDIRECTS: usize = 5;

/// The maximum size of the response of a token service, in bytes.
const MAX_TOKEN: u64 = 256 << 10;

/// The maximum size of the description of an error, in bytes.
const MAX_FAULT: u64 = 16 << 10;

/// The registry of Docker, and the host of its API.
const DOCKER_HUB: (&str, &str) = ("docker.io", "registry-1.docker.io");

/// A connection to the repository of a registry.
pub(crate) struct Transport {
    agent: Agent,
    registry: String,
    /// The URL of the repository, with `/` at the end.
    repository: Url,
    is_insecure: bool,
    credentials: Option<Credentials>,
    /// The actions for which tokens are requested: `repository:NAME:pull`.
    scope: String,
    /// The value of the header `Authorization` that the registry accepts.
    authorization: RefCell<Option<String>>,
}

/// The actions for which a client needs permission.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    Pull,
    Push,
}

/// A body to send, and its media type.
#[derive(Clone, Copy)]
pub(crate) struct Content<'a> {
    pub(crate) media_type: &'a str,
    pub(crate) bytes: &'a [u8],
}

/// The response of a token service.
#[derive(Deserialize)]
struct TokenResponse {
    token: Option<String>,
    access_token: Option<String>,
}

/// The description of an error by a registry.
#[derive(Deserialize)]
struct Faults {
    #[serde(default)]
    errors: Vec<Fault>,
}

#[derive(Deserialize)]
struct Fault {
    #[serde(default)]
    code: String,
    #[serde(default)]
    message: String,
}

impl Transport {
    /// Prepares requests to the repository of a reference.
    pub(crate) fn new(
        settings: &RegistrySettings,
        reference: &Reference,
        access: Access,
    ) -> Result<Self, RegistryError> {
        let registry = reference.registry();
        let is_insecure = settings.is_insecure(registry);
        let host = if registry == DOCKER_HUB.0 { DOCKER_HUB.1 } else { registry };
        let scheme = if is_insecure { "http" } else { "https" };
        let repository = reference.repository();
        let url = Url::parse(&format!("{scheme}://{host}/v2/{repository}/"));
        let actions = match access {
            Access::Pull => "pull",
            Access::Push => "pull,push",
        };
        let mut config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .timeout_global(Some(settings.timeout))
            .user_agent(concat!("relayer-rest/", env!("CARGO_PKG_VERSION")))
            .accept_encoding("identity");
        config = if is_insecure { config.proxy(None) } else { config.tls_config(tls()?) };
        Ok(Self {
            agent: config.build().new_agent(),
            registry: registry.to_owned(),
            repository: url.map_err(|error| protocol(registry, &error.to_string()))?,
            is_insecure,
            credentials: credentials::read(settings.docker_config.as_deref(), registry)?,
            scope: format!("repository:{repository}:{actions}"),
            authorization: RefCell::new(None),
        })
    }

    /// Returns the body of a response to GET of at most this number of bytes; `None` if the
    /// registry does not have it.
    pub(crate) fn get(
        &self,
        path: &str,
        accept: &str,
        max: u64,
    ) -> Result<Option<Vec<u8>>, RegistryError> {
        let mut url = self.url(path)?;
        let mut response = self.send(&Method::GET, &url, Some(accept), None)?;
        for _ in 0..MAX_REDIRECTS {
            if !response.status().is_redirection() {
                break;
            }
            url = self.location(&url, response.headers())?;
            response = self.send(&Method::GET, &url, Some(accept), None)?;
        }
        match response.status() {
            StatusCode::OK => {
                let body = response.body_mut().with_config().limit(max).read_to_vec();
                body.map(Some).map_err(|error| match error {
                    ureq::Error::BodyExceedsLimit(_) => {
                        self.protocol(&format!("{path} is larger than {max} bytes"))
                    }
                    error => self.unreachable(&error),
                })
            }
            StatusCode::NOT_FOUND => Ok(None),
            _ => Err(self.fault(response)),
        }
    }

    /// Returns whether the registry has something.
    pub(crate) fn has(&self, path: &str) -> Result<bool, RegistryError> {
        let response = self.send(&Method::HEAD, &self.url(path)?, None, None)?;
        match response.status() {
            // A redirect leads to it.
            status if status.is_success() || status.is_redirection() => Ok(true),
            StatusCode::NOT_FOUND => Ok(false),
            _ => Err(self.fault(response)),
        }
    }

    /// Begins the upload of a blob, and returns the URL for its content.
    pub(crate) fn begin_upload(&self) -> Result<Url, RegistryError> {
        let url = self.url("blobs/uploads/")?;
        let empty = Content { media_type: "application/octet-stream", bytes: b"" };
        let response = self.send(&Method::POST, &url, None, Some(empty))?;
        match response.status() {
            StatusCode::ACCEPTED => self.location(&url, response.headers()),
            _ => Err(self.fault(response)),
        }
    }

    /// Sends content to a URL.
    pub(crate) fn put(&self, url: &Url, content: Content<'_>) -> Result<(), RegistryError> {
        let response = self.send(&Method::PUT, url, None, Some(content))?;
        if response.status() == StatusCode::CREATED {
            return Ok(());
        }
        Err(self.fault(response))
    }

    /// Returns the URL of a path in the repository.
    pub(crate) fn url(&self, path: &str) -> Result<Url, RegistryError> {
        self.repository.join(path).map_err(|error| self.protocol(&error.to_string()))
    }

    /// Returns the error for something that the registry does not have.
    pub(crate) fn not_found(&self, what: &'static str) -> RegistryError {
        RegistryError::NotFound { registry: self.registry.clone(), what }
    }

    /// Returns the error for a response that does not follow the specification.
    pub(crate) fn protocol(&self, problem: &str) -> RegistryError {
        protocol(&self.registry, problem)
    }

    /// Sends a request, and sends it again with authentication if the registry asks for it.
    fn send(
        &self,
        method: &Method,
        url: &Url,
        accept: Option<&str>,
        content: Option<Content<'_>>,
    ) -> Result<Response<Body>, RegistryError> {
        let is_own = url.origin() == self.repository.origin();
        let authorization = self.authorization.borrow().clone().filter(|_| is_own);
        let authorization = authorization.as_deref();
        let response = self.send_once(method, url, accept, authorization, content)?;
        if response.status() != StatusCode::UNAUTHORIZED || !is_own {
            return Ok(response);
        }
        let challenges = response.headers().get_all(WWW_AUTHENTICATE);
        let mut challenges = challenges.iter().filter_map(|header| header.to_str().ok());
        let Some(challenge) = challenges.find_map(Challenge::parse) else {
            return Ok(response);
        };
        let Some(authorization) = self.authorize(&challenge)? else { return Ok(response) };
        let response = self.send_once(method, url, accept, Some(&authorization), content)?;
        *self.authorization.borrow_mut() = Some(authorization);
        Ok(response)
    }

    fn send_once(
        &self,
        method: &Method,
        url: &Url,
        accept: Option<&str>,
        authorization: Option<&str>,
        content: Option<Content<'_>>,
    ) -> Result<Response<Body>, RegistryError> {
        let mut request = Request::builder().method(method).uri(url.as_str());
        if let Some(accept) = accept {
            request = request.header(ACCEPT, accept);
        }
        if let Some(authorization) = authorization {
            request = request.header(AUTHORIZATION, authorization);
        }
        let invalid = |error: ureq::http::Error| self.protocol(&error.to_string());
        let sent = match content {
            None => self.agent.run(request.body(()).map_err(invalid)?),
            Some(Content { media_type, bytes }) => {
                let request = request.header(CONTENT_TYPE, media_type);
                let request = request.header(CONTENT_LENGTH, bytes.len());
                self.agent.run(request.body(bytes).map_err(invalid)?)
            }
        };
        sent.map_err(|error| self.unreachable(&error))
    }

    /// Returns the value of the header `Authorization` for a challenge; `None` without
    /// credentials for it.
    fn authorize(&self, challenge: &Challenge) -> Result<Option<String>, RegistryError> {
        match (challenge, &self.credentials) {
            (Challenge::Basic, Some(Credentials::User { name, password })) => {
                Ok(Some(basic(name, password)))
            }
            (Challenge::Basic, _) => Ok(None),
            (Challenge::Bearer { realm, service, scope }, credentials) => {
                let realm = Url::parse(realm).map_err(|error| {
                    self.protocol(&format!("token service {}: {error}", for_log(realm)))
                })?;
                self.check_scheme(&realm)?;
                // The scope of the challenge may be for less than the next requests need.
                let scope = match scope {
                    Some(scope) if !scope.starts_with("repository:") => scope,
                    _ => &self.scope,
                };
                let token = self.token(realm, service.as_deref(), scope, credentials.as_ref())?;
                Ok(Some(format!("Bearer {token}")))
            }
        }
    }

    /// Requests a token, with the credentials if there are some.
    fn token(
        &self,
        mut realm: Url,
        service: Option<&str>,
        scope: &str,
        credentials: Option<&Credentials>,
    ) -> Result<String, RegistryError> {
        let service = service.map(|service| ("service", service));
        let parameters = service.into_iter().chain([("scope", scope)]);
        let mut response = match credentials {
            Some(Credentials::IdentityToken(token)) => {
                let more = [("grant_type", "refresh_token"), ("refresh_token", token)];
                let more = more.into_iter().chain([("client_id", "relayer-rest")]);
                let mut form = url::form_urlencoded::Serializer::new(String::new());
                let form = form.extend_pairs(parameters.chain(more)).finish();
                let media_type = "application/x-www-form-urlencoded";
                let content = Content { media_type, bytes: form.as_bytes() };
                self.send_once(&Method::POST, &realm, None, None, Some(content))?
            }
            credentials => {
                realm.query_pairs_mut().extend_pairs(parameters);
                let authorization = match credentials {
                    Some(Credentials::User { name, password }) => Some(basic(name, password)),
                    _ => None,
                };
                self.send_once(&Method::GET, &realm, None, authorization.as_deref(), None)?
            }
        };
        if response.status() != StatusCode::OK {
            return Err(self.fault(response));
        }
        let body = response.body_mut().with_config().limit(MAX_TOKEN).read_to_vec();
        let body = body.map_err(|error| self.unreachable(&error))?;
        let response = serde_json::from_slice(&body).ok();
        let token =
            response.and_then(|TokenResponse { token, access_token }| token.or(access_token));
        let is_token = |token: &String| token.bytes().all(|byte| byte.is_ascii_graphic());
        let token = token.filter(|token| !token.is_empty()).filter(is_token);
        token.ok_or_else(|| self.protocol("the token service has no token"))
    }

    /// Returns the URL to which a response leads.
    fn location(&self, from: &Url, headers: &HeaderMap) -> Result<Url, RegistryError> {
        let location = headers.get(LOCATION).and_then(|header| header.to_str().ok());
        let location = location.and_then(|location| from.join(location).ok());
        let location = location.ok_or_else(|| self.protocol("no valid Location in a response"))?;
        self.check_scheme(&location)?;
        Ok(location)
    }

    fn check_scheme(&self, url: &Url) -> Result<(), RegistryError> {
        match url.scheme() {
            "https" => Ok(()),
            "http" if self.is_insecure => Ok(()),
            scheme => Err(self.protocol(&format!("it leads to a URL with {scheme}, not https"))),
        }
    }

    fn unreachable(&self, error: &ureq::Error) -> RegistryError {
        let problem = match error {
            ureq::Error::Timeout(_) => "time-out (registries.timeout)".to_owned(),
            error => error.to_string(),
        };
        RegistryError::Unreachable { registry: self.registry.clone(), problem }
    }

    /// Returns the error that a response describes.
    fn fault(&self, mut response: Response<Body>) -> RegistryError {
        let status = response.status();
        let body = response.body_mut().with_config().limit(MAX_FAULT).read_to_vec();
        let faults = body.ok().and_then(|body| serde_json::from_slice::<Faults>(&body).ok());
        let fault = faults.and_then(|faults| faults.errors.into_iter().next());
        let problem = match fault {
            Some(Fault { code, message }) => for_log(&format!("{status}, {code}: {message}")),
            None => format!("status {status}"),
        };
        let registry = self.registry.clone();
        match status {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                RegistryError::Denied { registry, problem }
            }
            StatusCode::TOO_MANY_REQUESTS => RegistryError::Unreachable { registry, problem },
            status if status.is_server_error() => RegistryError::Unreachable { registry, problem },
            _ => RegistryError::Protocol { registry, problem },
        }
    }
}

fn protocol(registry: &str, problem: &str) -> RegistryError {
    RegistryError::Protocol { registry: registry.to_owned(), problem: problem.to_owned() }
}

fn basic(name: &str, password: &str) -> String {
    format!("Basic {}", STANDARD.encode(format!("{name}:{password}")))
}

/// Returns the configuration of TLS, with the authorities of the system, or those in
/// `$SSL_CERT_FILE`.
pub fn tls() -> Result<TlsConfig, RegistryError> {
    let found = rustls_native_certs::load_native_certs();
    if found.certs.is_empty() {
        let problem = found.errors.first().map_or("none found".to_owned(), ToString::to_string);
        return Err(RegistryError::Authorities(problem));
    }
    let certificates: Vec<_> = found
        .certs
        .iter()
        .map(|certificate| Certificate::from_der(certificate).to_owned())
        .collect();
    let provider = Arc::new(aws_lc_rs::default_provider());
    let config = TlsConfig::builder()
        .root_certs(RootCerts::new_with_certs(&certificates))
        .unversioned_rustls_crypto_provider(provider);
    Ok(config.build())
}
