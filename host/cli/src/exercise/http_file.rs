//! Parses a file `requests.http`, in the format of the HTTP clients of editors: requests that
//! are separated by lines with `###`, and comments that begin with `#` or `//`. Expected
//! responses are comments, too, such as `# @expect status 200`.

use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use relayer_rest_sandbox::GuestRequest;

use super::expected::Expected;

/// The prefix of the version in a request line.
const VERSION: &str = "HTTP/";

/// A request of a file.
#[derive(Debug)]
pub(super) struct FileRequest {
    pub(super) request: GuestRequest,
    pub(super) name: Option<String>,
    /// The number of its request line.
    pub(super) line: usize,
    pub(super) expected: Expected,
}

/// The part of a file up to the next separator.
#[derive(Default)]
struct Section {
    name: Option<String>,
    expected: Expected,
    /// The line of the first expectation.
    first_expected: Option<usize>,
    request: Option<(usize, GuestRequest)>,
    is_body: bool,
}

/// Returns the requests of a file, or the number of an invalid line and its problem.
pub(super) fn parse(text: &str) -> Result<Vec<FileRequest>, (usize, String)> {
    let mut requests = Vec::new();
    let mut section = Section::default();
    for (number, line) in (1..).zip(text.trim_start_matches('\u{feff}').lines()) {
        if let Some(name) = line.strip_prefix("###") {
            requests.extend(section.finish()?);
            let name = name.trim_start_matches('#').trim();
            let name = (!name.is_empty()).then(|| name.to_owned());
            section = Section { name, ..Section::default() };
        } else {
            section.line(number, line.trim()).map_err(|problem| (number, problem))?;
        }
    }
    requests.extend(section.finish()?);
    Ok(requests)
}

impl Section {
    fn line(&mut self, number: usize, line: &str) -> Result<(), String> {
        if let Some(comment) = line.strip_prefix("//").or_else(|| line.strip_prefix('#')) {
            return self.comment(number, comment.trim());
        }
        match &mut self.request {
            None if line.is_empty() || is_variable(line) => {}
            None => {
                let (method, target) = request_line(line)?;
                let headers = HeaderMap::new();
                self.request = Some((number, GuestRequest::new(method, target, headers)));
            }
            Some(_) if line.is_empty() => self.is_body = true,
            Some(_) if self.is_body || is_script(line) => {
                return Err(
                    "modules receive no bodies, and scripts are not run; remove this line, and describe the expected response by comments, such as # @expect status 200"
                        .to_owned(),
                );
            }
            Some((_, request)) => {
                let (name, value) = header(line)?;
                let appended = request.headers.try_append(name, value);
                appended.map_err(|_| "too many headers; remove some".to_owned())?;
            }
        }
        Ok(())
    }

    /// Reads the comments that have a meaning. The others of editors, such as `@no-log`, have
    /// none here.
    fn comment(&mut self, number: usize, comment: &str) -> Result<(), String> {
        let Some(annotation) = comment.strip_prefix('@') else { return Ok(()) };
        let (key, value) = annotation.split_once(char::is_whitespace).unwrap_or((annotation, ""));
        let value = value.trim();
        match key {
            "name" => self.name = Some(value.to_owned()),
            "expect" => {
                self.first_expected.get_or_insert(number);
                self.expected.add(value)?;
            }
            _ if key.starts_with("expect") => {
                return Err(format!("@{key}: unknown; write it as @expect"));
            }
            _ => {}
        }
        Ok(())
    }

    fn finish(self) -> Result<Option<FileRequest>, (usize, String)> {
        let Self { name, expected, first_expected, request, .. } = self;
        match (request, first_expected) {
            (Some((line, request)), _) => Ok(Some(FileRequest { request, name, line, expected })),
            (None, Some(line)) => {
                Err((line, "@expect without a request; add one below, such as GET /".to_owned()))
            }
            (None, None) => Ok(None),
        }
    }
}

impl Expected {
    /// Adds an expectation, such as `status 200`.
    fn add(&mut self, text: &str) -> Result<(), String> {
        let (kind, value) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        let value = value.trim();
        match kind {
            "status" => {
                let status = value.parse::<StatusCode>().map_err(|_| {
                    format!(
                        "@expect status: {value:?} is not a status; write a number, such as 200"
                    )
                })?;
                if self.status.replace(status).is_some() {
                    return Err("@expect status: given twice; remove one".to_owned());
                }
            }
            "header" => {
                let (name, value) = value.split_once(':').unwrap_or((value, ""));
                let name = name.trim().parse::<HeaderName>().map_err(|_| {
                    format!(
                        "@expect header: {name:?} is not a name; write it as name: part of the value"
                    )
                })?;
                self.headers.push((name, value.trim().to_owned()));
            }
            "body" if value.is_empty() => {
                return Err("@expect body: empty; add a part of the body".to_owned());
            }
            "body" => self.body.push(value.to_owned()),
            _ => {
                return Err(format!(
                    "@expect {text:?}: unknown; write status NUMBER, header NAME: TEXT or body TEXT"
                ));
            }
        }
        Ok(())
    }
}

/// Returns whether a line defines a variable of the file, such as `@base = http://127.0.0.1`.
fn is_variable(line: &str) -> bool {
    line.starts_with('@') && line.contains('=')
}

/// Returns whether a line of other tools follows a request: a script, a file or an assertion.
fn is_script(line: &str) -> bool {
    ["> ", "< ", ">>", "<>", "??", "{{"].iter().any(|prefix| line.starts_with(prefix))
}

/// Parses a request line: `GET /path?query`, with the method and the version optional. Scheme
/// and host of a URL are ignored, and so is a variable at its beginning.
pub(super) fn request_line(line: &str) -> Result<(Method, PathAndQuery), String> {
    let mut words: Vec<_> = line.split_whitespace().collect();
    if words.len() > 1 && words.last().is_some_and(|last| last.starts_with(VERSION)) {
        words.pop();
    }
    let (method, target) = match words[..] {
        [target] if !is_method(target) => ("GET", target),
        [method, target] => (method, target),
        _ => {
            return Err(format!(
                "{line:?} is not a request; write it as GET /path?query, with spaces as %20"
            ));
        }
    };
    let method = Method::from_bytes(method.as_bytes())
        .map_err(|_| format!("{method:?} is not a method; write it as GET /path?query"))?;
    // As the server does: the response is the one to GET.
    let method = if method == Method::HEAD { Method::GET } else { method };
    Ok((method, path(target)?))
}

fn is_method(word: &str) -> bool {
    word.bytes().all(|byte| byte.is_ascii_uppercase())
}

/// Returns the path and query of a target.
fn path(target: &str) -> Result<PathAndQuery, String> {
    let path = if let Some((_, rest)) = target.split_once("://") {
        rest.find(['/', '?']).map_or("", |start| &rest[start..])
    } else if let Some(variable) = target.strip_prefix("{{") {
        variable.split_once("}}").map_or(target, |(_, path)| path)
    } else if target.starts_with('/') {
        target
    } else {
        return Err(format!("{target:?} is not a path; begin it with a slash"));
    };
    if path.contains("{{") {
        return Err(format!(
            "{target:?}: variables are replaced at the beginning of a URL only; write the value"
        ));
    }
    let absolute = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
    PathAndQuery::try_from(absolute)
        .map_err(|error| format!("{target:?} is not a valid path: {error}; encode it, as in %20"))
}

fn header(line: &str) -> Result<(HeaderName, HeaderValue), String> {
    let invalid = || format!("{line:?} is not a header; write it as name: value");
    let (name, value) = line.split_once(':').ok_or_else(invalid)?;
    let name = HeaderName::try_from(name.trim()).map_err(|_| invalid())?;
    Ok((name, HeaderValue::try_from(value.trim()).map_err(|_| invalid())?))
}

#[cfg(test)]
mod tests {
    use super::{Expected, parse};
    use http::StatusCode;

    #[test]
    fn an_expectation_with_a_typing_error_is_invalid() {
        let (line, problem) = parse("# @expects status 200\nGET /").unwrap_err();
        assert_eq!((line, &*problem), (1, "@expects: unknown; write it as @expect"));
    }

    #[test]
    fn any_text_is_read_or_has_an_invalid_line() {
        const PARTS: [&str; 24] = [
            "GET ",
            "/a?b",
            "###",
            "# @expect ",
            "status ",
            "200",
            "header ",
            ": ",
            "body ",
            "\n",
            "\n",
            "\r\n",
            "{{x}}",
            " HTTP/1.1",
            "@a=",
            "\u{e9}",
            "\0",
            "https://x",
            " ",
            "# @name ",
            "//",
            "> ",
            "x-a",
            "\u{feff}",
        ];
        let mut random = fastrand::Rng::with_seed(5);
        let (mut valid, mut invalid) = (0, 0);
        for _ in 0..20_000 {
            let count = random.usize(..40);
            let text: String = (0..count).map(|_| PARTS[random.usize(..PARTS.len())]).collect();
            let lines = 1..=text.lines().count();
            match parse(&text) {
                Ok(requests) => {
                    assert!(
                        requests.iter().all(|request| lines.contains(&request.line)),
                        "{text:?}"
                    );
                    valid += usize::from(!requests.is_empty());
                }
                Err((line, problem)) => {
                    assert!(lines.contains(&line), "{line} of {text:?}");
                    assert!(
                        !problem.is_empty() && !problem.contains(char::is_control),
                        "{problem:?}"
                    );
                    invalid += 1;
                }
            }
        }
        assert!(valid > 100 && invalid > 100, "{valid} valid, {invalid} invalid");
    }

    #[test]
    fn a_request_with_more_headers_than_one_can_have_is_invalid() {
        let headers = (0..40_000).map(|number| format!("x-{number}: a\n"));
        let text = format!("GET /\n{}", headers.collect::<String>());
        let (line, problem) = parse(&text).unwrap_err();
        assert!(line > 10_000, "{line}");
        assert_eq!(problem, "too many headers; remove some");
    }

    #[test]
    fn a_file_of_editors_is_read() {
        let text = "\u{feff}# The requests\r\n@base = http://127.0.0.1:8000/ext/a\r\n\r\n\
            ### All chains\n// a comment\n# @expect status 200\n# @expect body \"a\": 1 \n\
            GET {{base}}/ HTTP/1.1\nAccept: text/plain\n# @no-log\nX-A:  b \n\n# the end\n\n\
            ###\n# @name second\n// @expect header Content-Type: text/plain\n// @expect header etag\n\
            POST https://example.com:80?a=b\n\n###\n### empty\n\nhttp://a/b/c?d\n###\nHEAD /x";
        let requests = parse(text).unwrap();
        let seen: Vec<_> = requests
            .iter()
            .map(|request| {
                let target = request.request.target.as_str();
                (request.line, request.name.as_deref(), request.request.method.as_str(), target)
            })
            .collect();
        let expected = [
            (8, Some("All chains"), "GET", "/"),
            (19, Some("second"), "POST", "/?a=b"),
            (24, Some("empty"), "GET", "/b/c?d"),
            (26, None, "GET", "/x"),
        ];
        assert_eq!(seen, expected);
        let headers = &requests[0].request.headers;
        assert_eq!(
            (&headers["accept"], &headers["x-a"]),
            (&"text/plain".parse().unwrap(), &"b".parse().unwrap())
        );
        let first = Expected {
            status: Some(StatusCode::OK),
            body: vec!["\"a\": 1".to_owned()],
            ..Expected::default()
        };
        assert_eq!(requests[0].expected, first);
        let second = [("content-type", "text/plain"), ("etag", "")]
            .map(|(name, value)| (name.parse().unwrap(), value.to_owned()));
        assert_eq!(requests[1].expected.headers, second);
        assert_eq!(requests[2].expected, Expected::default());
    }

    #[test]
    fn invalid_lines_are_named_with_a_remedy() {
        for (text, line, problem) in [
            ("\nGET", 2, "\"GET\" is not a request; write it as GET /path?query"),
            ("GET /a b c", 1, "is not a request"),
            ("G(T /a", 1, "\"G(T\" is not a method"),
            ("GET a/b", 1, "\"a/b\" is not a path; begin it with a slash"),
            ("GET {{base", 1, "variables are replaced at the beginning"),
            ("GET /{{id}}", 1, "variables are replaced at the beginning"),
            ("GET /a\\\"\u{7f}", 1, "is not a valid path"),
            ("GET /\nno header", 2, "\"no header\" is not a header; write it as name: value"),
            ("GET /\na\u{e9}: b", 2, "is not a header"),
            ("GET /\n\n{\"a\":1}", 3, "modules receive no bodies"),
            ("GET /\n> {% client.test() %}", 2, "scripts are not run"),
            ("GET /\n?? status == 200", 2, "# @expect status 200"),
            (
                "# @expect",
                1,
                "@expect \"\": unknown; write status NUMBER, header NAME: TEXT or body TEXT",
            ),
            ("# @expect stats 200", 1, "@expect \"stats 200\": unknown"),
            ("# @expect status 2xx", 1, "\"2xx\" is not a status; write a number, such as 200"),
            ("# @expect status 200\n# @expect status 200", 2, "given twice"),
            ("# @expect header a b", 1, "\"a b\" is not a name"),
            ("# @expect body", 1, "empty; add a part"),
            ("###\n\n# @expect status 200\n###\nGET /", 3, "@expect without a request"),
        ] {
            let (at, error) = parse(text).unwrap_err();
            assert!(error.contains(problem), "{text}: {error}");
            assert_eq!(at, line, "{text}");
        }
        let long = format!("GET /{}", "a".repeat(1 << 17));
        parse(&long).unwrap_err();
    }
}
