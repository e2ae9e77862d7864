//! The expected response to a request.

use bytes::Bytes;
use http::{HeaderName, Response, StatusCode};
use relayer_rest_common::text::truncate;

use super::body;

/// The maximum length of a body in a failure, in characters.
const MAX_BODY: usize = 200;

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
    use super::Expected;
    use bytes::Bytes;
    use http::{Response, StatusCode, header::CONTENT_TYPE};

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
