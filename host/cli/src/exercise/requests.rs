//! The requests of an author: of a file, and of the command line.

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use clap::{Args, ValueHint};
use http::HeaderMap;
use relayer_rest_common::files::{self, MAX_TEXT};
use relayer_rest_common::text::truncate;
use relayer_rest_sandbox::GuestRequest;

use super::expected::Expected;
use super::http_file;

/// The name of the file with requests.
pub(crate) const FILE: &str = "requests.http";

/// The folder of cargo's output, below the folder of a package.
const TARGET: &str = "target";

#[derive(Args)]
pub(crate) struct RequestsArgs {
    /// File with requests and their expected responses [default:
    /// requests.http in the folder of the module, next to its file, or in
    /// the folder that contains its target/]
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
pub(super) struct AuthorRequest {
    pub(super) request: Arc<GuestRequest>,
    /// The name in the file.
    pub(super) name: Option<String>,
    /// The line of the file, or the option.
    pub(super) origin: String,
    /// The expected response; `None` if any response is.
    pub(super) expected: Option<Expected>,
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
    pub(crate) fn read(&self, module: Option<&Path>) -> Result<AuthorRequests, RequestsError> {
        let file = self.requests.clone().or_else(|| beside(module?));
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

/// Returns the file with the requests for a module, if there is one: in its folder, next to its
/// file, or in the folder of the package whose output it is.
fn beside(module: &Path) -> Option<PathBuf> {
    let folder = match module {
        // As its author would write it.
        module if module == Path::new(".") => Path::new(""),
        module if module.is_dir() => module,
        file => file.parent()?,
    };
    let target = folder.ancestors().find(|folder| folder.ends_with(TARGET));
    let folders = [Some(folder), target.and_then(Path::parent)];
    folders.into_iter().flatten().map(|folder| folder.join(FILE)).find(|file| file.exists())
}

impl AuthorRequests {
    /// Reads the file in the folder of a module's sources; without one, returns no requests.
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

    pub(super) fn iter(&self) -> impl Iterator<Item = &AuthorRequest> {
        self.0.iter()
    }

    /// Returns the requests without their expected responses.
    pub(crate) fn requests(&self) -> impl Iterator<Item = Arc<GuestRequest>> {
        self.iter().map(|request| Arc::clone(&request.request))
    }
}

impl FromStr for Asked {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (method, target) = http_file::request_line(text.trim())?;
        let headers = HeaderMap::new();
        Ok(Self(Arc::new(GuestRequest::new(method, target, headers))))
    }
}

#[cfg(test)]
mod tests {
    use super::Asked;

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
}
