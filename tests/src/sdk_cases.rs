//! Requests to the modules in `tests/guests/sdk`, with the responses that are the same in
//! each language.

use serde_json::Value;

/// A request, and its expected response.
#[derive(Debug)]
pub struct Case {
    /// The target of the request.
    pub target: &'static str,
    status: u16,
    /// The result, the message of the error, or the text. `…` at the end stands for any
    /// text.
    expected: &'static str,
}

const fn case(target: &'static str, status: u16, expected: &'static str) -> Case {
    Case { target, status, expected }
}

/// The requests.
pub const CASES: [Case; 34] = [
    case("/query", 200, "null"),
    case("/query?", 200, "null"),
    case("/query?a", 200, r#""""#),
    case("/query?a=b%20c+d%2B", 200, r#""b c d+""#),
    case("/query?b=1&a=%C3%BC&&A=2", 200, r#""ü""#),
    case("/query?%61=x=y", 200, r#""x=y""#),
    case("/query?b=%FF&%zz&a=1", 200, r#""1""#),
    case("/query?a=1&a=2", 400, "parameter a: occurs 2 times; send it once"),
    case("/query?a=100%", 400, "parameter a: '100%' is not percent-encoded; write % as %25"),
    case("/query?a=%ED%A0%80", 400, "parameter a: '%ED%A0%80' is not UTF-8 when decoded; …"),
    case("/all", 200, "[]"),
    case("/all?a=1&b=2&a=%33&a", 200, r#"["1","3",""]"#),
    case("/all?a=1&a=%FF", 400, "parameter a: '%FF' is not UTF-8 when decoded; …"),
    case("/limit", 200, "10"),
    case("/limit?limit=7", 200, "7"),
    case("/limit?limit=abc", 400, "parameter limit: 'abc' is not valid: …"),
    case("/limit?limit=", 400, "parameter limit: '' is not valid: …"),
    case("/limit?limit=1&limit=2", 400, "parameter limit: occurs 2 times; send it once"),
    case("/limit?limit=500", 400, "parameter limit: 500 is above 100; request fewer"),
    case("/pairs?a=1&&b&a=%FF&%zz=+", 200, r#"[["a","1"],["b",""],["a","�"],["%zz"," "]]"#),
    case("/text", 200, "null"),
    case("/text?", 200, r#""""#),
    case("/text?a=%20&", 200, r#""a=%20&""#),
    case("/header", 200, "null"),
    case("/headers", 200, "0"),
    case("/param/a%20b/%20", 200, r#"["a b","%20"]"#),
    case("/param/a+b/%FF?c", 200, r#"["a+b","%FF"]"#),
    case("/param/%FF/c", 400, "parameter a: '%FF' is not UTF-8 when decoded; …"),
    case("/param/%2/c", 400, "parameter a: '%2' is not percent-encoded; write % as %25"),
    case("/param//c", 404, "nothing is served at /param//c; there are /, /query, …"),
    case("/chain/ibc%2D1", 200, r#""ibc-1""#),
    case("/chain/x", 404, "there is no chain x"),
    case("/chain/%FF", 400, "parameter id: '%FF' is not UTF-8 when decoded; …"),
    case("/made?a", 201, "/made"),
];

impl Case {
    /// Checks the response to the request.
    #[track_caller]
    pub fn check(&self, status: u16, body: &str) {
        let text = match serde_json::from_str(body) {
            Err(_) => body.to_owned(),
            Ok::<Value, _>(json) if status == 200 => json["result"].to_string(),
            Ok(json) => json["result"]["msg"].as_str().unwrap_or_default().to_owned(),
        };
        let is_expected = match self.expected.strip_suffix('…') {
            Some(start) => text.starts_with(start),
            None => text == self.expected,
        };
        assert!(status == self.status && is_expected, "{status} {text} instead of {self:?}");
    }
}
