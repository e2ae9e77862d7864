//! The parameters of a request's query.
//!
//! ```
//! use relayer_rest_sdk::{Request, Response};
//!
//! fn greet(request: &Request) -> Result<Response, Response> {
//!     let name = request.query("name")?.unwrap_or("you".into());
//!     let times = request.query_as::<usize>("times")?.unwrap_or(1);
//!     Ok(Response::text(format!("hello {name}\n").repeat(times)))
//! }
//!
//! let greeting = |target| Response::from(greet(&Request::get(target)));
//! assert_eq!(greeting("/").text_body(), "hello you\n");
//! assert_eq!(greeting("/?name=Ada+L.").text_body(), "hello Ada L.\n");
//! assert_eq!(greeting("/?name=a&name=b").status, 400);
//! assert_eq!(greeting("/?times=twice").status, 400);
//! ```

use std::borrow::Cow;
use std::fmt::Display;
use std::str::FromStr;

use crate::parameter::{InvalidParameter, decode_form};
use crate::request::Request;

/// The parameters of the query. A response for which a handler reads one of them is cached
/// for this query only. Imports `query`.
impl Request {
    /// Returns the decoded value of a parameter, or `None` if the query does not have it:
    /// `?a=1&b` has `a` with `1`, and `b` with an empty value.
    ///
    /// # Errors
    /// Returns an error if the parameter is repeated, or is not percent-encoded UTF-8.
    pub fn query(&self, name: &str) -> Result<Option<Cow<'_, str>>, InvalidParameter> {
        let mut values = self.values(name);
        let Some(value) = values.next() else { return Ok(None) };
        match values.count() {
            0 => decode_form(name, value).map(Some),
            others => {
                let problem = format_args!("occurs {} times; send it once", others + 1);
                Err(InvalidParameter::new(name, problem))
            }
        }
    }

    /// Returns the decoded values of a parameter that may be repeated, in their order.
    ///
    /// # Errors
    /// Returns an error if a value is not percent-encoded UTF-8.
    pub fn query_all(&self, name: &str) -> Result<Vec<Cow<'_, str>>, InvalidParameter> {
        self.values(name).map(|value| decode_form(name, value)).collect()
    }

    /// Returns the value of a parameter as another type, such as a number, or `None` if
    /// the query does not have the parameter.
    ///
    /// # Errors
    /// Returns an error if the value is not of this type, and as [`Self::query`].
    pub fn query_as<T>(&self, name: &str) -> Result<Option<T>, InvalidParameter>
    where
        T: FromStr<Err: Display>,
    {
        let Some(value) = self.query(name)? else { return Ok(None) };
        value.parse().map(Some).map_err(|error| {
            InvalidParameter::new(name, format_args!("'{value}' is not valid: {error}"))
        })
    }

    /// Returns the names and values of all parameters, in their order, such as to reject
    /// unknown ones. As in browsers, bytes that are not UTF-8 become U+FFFD, and a `%` that
    /// encodes nothing is kept.
    pub fn query_pairs(&self) -> impl Iterator<Item = (Cow<'_, str>, Cow<'_, str>)> {
        form_urlencoded::parse(self.query_text().unwrap_or_default().as_bytes())
    }

    /// Returns the values of a parameter as the client sent them.
    fn values(&self, name: &str) -> impl Iterator<Item = &str> {
        let pairs = self.query_text().unwrap_or_default().split('&');
        pairs.filter(|pair| !pair.is_empty()).filter_map(move |pair| {
            let (known, value) = pair.split_once('=').unwrap_or((pair, ""));
            decode_form("", known).is_ok_and(|known| known == name).then_some(value)
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::request::Request;

    #[test]
    fn a_query_has_parameters() {
        let request = Request::get("/?b=1&c=%C3%BC+d&e&%66+g=h&=i&&j=k=l");
        for (name, value) in [
            ("b", Some("1")),
            ("c", Some("ü d")),
            ("e", Some("")),
            ("f g", Some("h")),
            ("f+g", None),
            ("", Some("i")),
            ("j", Some("k=l")),
            ("B", None),
        ] {
            assert_eq!(request.query(name).unwrap().as_deref(), value, "{name}");
        }
        assert_eq!(request.query_pairs().count(), 6);
    }

    #[test]
    fn a_repeated_parameter_has_several_values() {
        let request = Request::get("/?a=1&b=2&a=%33");
        assert_eq!(request.query_all("a").unwrap(), ["1", "3"]);
        assert_eq!(request.query_all("b").unwrap(), ["2"]);
        assert!(request.query_all("c").unwrap().is_empty());
        let error = request.query("a").unwrap_err().to_string();
        assert_eq!(error, "parameter a: occurs 2 times; send it once");
    }

    #[test]
    fn only_the_parameter_that_is_read_must_be_valid() {
        let request = Request::get("/?a=%FF&%zz=1&b=2&a=3");
        assert_eq!(request.query("b").unwrap().as_deref(), Some("2"));
        let error = request.query_all("a").unwrap_err().to_string();
        let text = "parameter a: '%FF' is not UTF-8 when decoded; encode text as UTF-8";
        assert_eq!(error, text);
        let pairs = request.query_pairs().map(|(name, value)| format!("{name}={value}"));
        assert!(pairs.eq(["a=\u{fffd}", "%zz=1", "b=2", "a=3"]));
    }

    #[test]
    fn a_value_has_the_type_that_the_handler_expects() {
        let request = Request::get("/?limit=7&other=-1&empty");
        assert_eq!(request.query_as("limit"), Ok(Some(7_u32)));
        assert_eq!(request.query_as::<u32>("missing"), Ok(None));
        for (name, value) in [("other", "-1"), ("empty", "")] {
            let error = request.query_as::<u32>(name).unwrap_err().to_string();
            let start = format!("parameter {name}: '{value}' is not valid: ");
            assert!(error.starts_with(&start), "{error}");
        }
    }

    #[test]
    fn an_empty_query_differs_from_no_query() {
        let none = Request::get("/");
        let empty = Request::get("/?");
        assert_eq!((none.query_text(), empty.query_text()), (None, Some("")));
        assert_eq!(none.query_pairs().count() + empty.query_pairs().count(), 0);
        assert_eq!(empty.query(""), Ok(None));
    }
}
