//! The requests of an author, and their expected responses.

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use bytes::Bytes;
use clap::{Args, ValueHint};
use http::{HeaderMap, HeaderName, Response, StatusCode};
use relayer_rest_common::files::{self, MAX_TEXT};
use relayer_rest_common::text::truncate;
use relayer_rest_sandbox::GuestRequest;

use super::body;
use super::http_file;

/// The name of the file with requests.
pub(crate) const FILE: &str = "requests.http";

/// The folder of cargo's output, below the folder of a package.
const TARGET: &str = "target";

/// The maximum length of a body in a failure, in characters.
const MAX_BODY: usize = 200;

#[derive(Args)]
pub(crate) struct RequestsArgs {
    /// File with requests and their expected responses [default:
    /// requests.http next to the module, or in the folder that contains
    /// its target/]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    requests: Option<PathBuf>,
    /// Request to send, such as 'GET /chain/ibc-0?a=b', whose response is
    /// printed; can be repeated
    #[arg(long, value_name = "REQUEST")]
    ask: Vec<Asked>,
}

/// A request of the command line.
#[derive(Debug, Clone)]
struct Asked(Arc<GuestRequest>);

/// The requests of an author.
#[derive(Debug, Default)]
pub(crate) struct AuthorRequests(Vec<AuthorRequest>);

/// A request of an author.
#[derive(Debug)]
pub(crate) struct AuthorRequest {
    pub(super) request: Arc<GuestRequest>,
    /// The name in the file.
    pub(super) name: Option<String>,
    /// The line of the file, or the option.
    pub(super) origin: String,
    /// The expected response; `None` if any response is.
    pub(super) expected: Option<Expected>,
}

/// The expected response to a request.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Expected {
    /// The status; `None` if any success is expected.
    pub(super) status: Option<StatusCode>,
    /// Headers, and a part of the value of each.
    pub(super) headers: Vec<(HeaderName, String)>,
    /// Parts of the body.
    pub(super) body: Vec<String>,
}

/// A file with requests cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RequestsError {
    #[error("requests file {}: cannot be read: {problem}; check the path and its permissions", file.display())]
    Unreadable { file: PathBuf, problem: String },
    #[error("requests file {}:{line}: {problem}", file.display())]
    Invalid { file: PathBuf, line: usize, problem: String },
}

impl RequestsArgs {
    /// Returns the requests for a module.
    pub(crate) fn read(&self, module: &Path) -> Result<AuthorRequests, RequestsError> {
        let file = self.requests.clone().or_else(|| beside(module));
        let mut requests = match file {
            Some(file) => AuthorRequests::from_file(&file, &file.display().to_string())?,
            None => AuthorRequests::default(),
        };
        requests.0.extend(self.ask.iter().map(|Asked(request)| AuthorRequest {
            request: Arc::clone(request),
            name: None,
            origin: "--ask".to_owned(),
            expected: None,
        }));
        Ok(requests)
    }
}

/// Returns the file with the requests for a module, if there is one: next to it, or in the
/// folder of the package whose output it is.
fn beside(module: &Path) -> Option<PathBuf> {
    let folder = module.parent()?;
    let target = folder.ancestors().find(|folder| folder.ends_with(TARGET));
    let folders = [Some(folder), target.and_then(Path::parent)];
    folders.into_iter().flatten().map(|folder| folder.join(FILE)).find(|file| file.exists())
}

impl AuthorRequests {
    /// Reads the file in the folder of a module's sources; without one, there are no requests.
    pub(crate) fn from_folder(folder: &Path) -> Result<Self, RequestsError> {
        let file = folder.join(FILE);
        if file.exists() { Self::from_file(&file, FILE) } else { Ok(Self::default()) }
    }

    /// Reads a file, which has this name in reports.
    fn from_file(file: &Path, name: &str) -> Result<Self, RequestsError> {
        let unreadable = |problem| RequestsError::Unreadable { file: file.to_owned(), problem };
        let text = files::read(file, MAX_TEXT).map_err(|error| unreadable(error.to_string()))?;
        let text = String::from_utf8(text).map_err(|_| unreadable("it is not UTF-8".to_owned()))?;
        let requests = http_file::parse(&text).map_err(|(line, problem)| {
            let problem = truncate(&problem);
            RequestsError::Invalid { file: file.to_owned(), line, problem }
        })?;
        let named = |request: http_file::FileRequest| AuthorRequest {
            request: Arc::new(request.request),
            name: request.name,
            origin: format!("{name}:{}", request.line),
            expected: Some(request.expected),
        };
        Ok(Self(requests.into_iter().map(named).collect()))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &AuthorRequest> {
        self.0.iter()
    }
}

impl AuthorRequest {
    pub(crate) fn request(&self) -> Arc<GuestRequest> {
        Arc::clone(&self.request)
    }
}

impl FromStr for Asked {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (method, target) = http_file::request_line(text.trim())?;
        let headers = HeaderMap::new();
        Ok(Self(Arc::new(GuestRequest { method, target, headers })))
    }
}

impl Expected {
    /// Returns how a response differs from the expected one.
    pub(super) fn failures(&self, response: &Response<Bytes>) -> Vec<String> {
        let mut failures = Vec::new();
        let status = response.status();
        match self.status {
            Some(expected) if expected != status => failures.push(format!(
                "expected the status {}, got {}",
                expected.as_u16(),
                status.as_u16()
            )),
            None if status.is_client_error() || status.is_server_error() => {
                failures.push(format!(
                    "expected a status below 400, got {0}; if {0} is right, add `# @expect status {0}`",
                    status.as_u16()
                ));
            }
            _ => {}
        }
        for (name, part) in &self.headers {
            let values: Vec<_> = response
                .headers()
                .get_all(name)
                .iter()
                .map(|value| String::from_utf8_lossy(value.as_bytes()))
                .collect();
            if values.is_empty() {
                failures.push(format!("expected the header {name}, got none"));
            } else if !values.iter().any(|value| value.contains(part)) {
                let values = truncate(&values.join(", "));
                failures.push(format!("expected the header {name} with {part:?}, got {values:?}"));
            }
        }
        let text = String::from_utf8_lossy(response.body());
        for part in self.body.iter().filter(|part| !text.contains(*part)) {
            let found = body(response, MAX_BODY);
            failures.push(format!("expected {part:?} in the body, got {found:?}"));
        }
        failures
    }
}

#[cfg(test)]
mod tests {
    use super::{Asked, Expected};
    use bytes::Bytes;
    use http::{Response, StatusCode, header::CONTENT_TYPE};

    #[test]
    fn a_request_of_the_command_line_has_a_method_and_a_path() {
        for (text, method, target) in
            [("GET /x?y", "GET", "/x?y"), ("/x", "GET", "/x"), ("POST http://a/x", "POST", "/x")]
        {
            let Asked(request) = text.parse().unwrap();
            assert_eq!((request.method.as_str(), request.target.as_str()), (method, target));
        }
        for text in ["", "x", "GET", "G@T /x", "GET /x y z", "GET /a\u{7f}"] {
            text.parse::<Asked>().unwrap_err();
        }
    }

    #[test]
    fn responses_that_are_not_expected_are_described() {
        let response = |status: u16| {
            let response = Response::builder().status(status).header(CONTENT_TYPE, "text/html");
            response.body(Bytes::from("2 chains")).unwrap()
        };
        let expected = Expected {
            status: Some(StatusCode::NOT_FOUND),
            headers: vec![
                (CONTENT_TYPE, "html".to_owned()),
                (CONTENT_TYPE, "plain".to_owned()),
                ("etag".parse().unwrap(), String::new()),
            ],
            body: vec!["2 c".to_owned(), "3 c".to_owned()],
        };
        let failures = [
            "expected the status 404, got 200",
            "expected the header content-type with \"plain\", got \"text/html\"",
            "expected the header etag, got none",
            "expected \"3 c\" in the body, got \"2 chains\"",
        ];
        assert_eq!(expected.failures(&response(200)), failures);
        let any = Expected::default();
        assert!(any.failures(&response(302)).is_empty());
        let failure =
            "expected a status below 400, got 404; if 404 is right, add `# @expect status 404`";
        assert_eq!(any.failures(&response(404)), [failure]);
    }
}
