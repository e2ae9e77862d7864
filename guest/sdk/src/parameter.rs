//! Parameters of paths and queries: their decoding, and their errors.

use std::borrow::Cow;
use std::error::Error;
use std::fmt::{self, Display, Formatter};

use percent_encoding::percent_decode_str;

/// The error of a parameter in the path or the query. It converts to the response 400
/// `InvalidParameter`, so handlers return it with `?`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidParameter(String);

impl InvalidParameter {
    /// Creates the error from the name of the parameter, its problem and a remedy.
    ///
    /// ```
    /// # use relayer_rest_sdk::InvalidParameter;
    /// let error = InvalidParameter::new("limit", "500 is above 100; request fewer");
    /// assert_eq!(error.to_string(), "parameter limit: 500 is above 100; request fewer");
    /// ```
    pub fn new(name: &str, problem: impl Display) -> Self {
        Self(format!("parameter {name}: {problem}"))
    }
}

impl Display for InvalidParameter {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for InvalidParameter {}

/// Percent-decodes the value of a parameter.
pub(crate) fn decode<'a>(name: &str, text: &'a str) -> Result<Cow<'a, str>, InvalidParameter> {
    let is_encoded = |rest: &str| {
        rest.as_bytes().get(..2).is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    };
    if !text.split('%').skip(1).all(is_encoded) {
        let problem = format_args!("'{text}' is not percent-encoded; write % as %25");
        return Err(InvalidParameter::new(name, problem));
    }
    percent_decode_str(text).decode_utf8().map_err(|_| {
        let problem = format_args!("'{text}' is not UTF-8 when decoded; encode text as UTF-8");
        InvalidParameter::new(name, problem)
    })
}

/// Decodes the value of a parameter of a query, in which `+` is a space.
pub(crate) fn decode_form<'a>(name: &str, text: &'a str) -> Result<Cow<'a, str>, InvalidParameter> {
    if text.contains('+') {
        Ok(decode(name, &text.replace('+', " "))?.into_owned().into())
    } else {
        decode(name, text)
    }
}

#[cfg(test)]
mod tests {
    use super::{decode, decode_form};

    #[test]
    fn values_are_percent_decoded() {
        for (text, in_path, in_query) in [
            ("", "", ""),
            ("ibc-0", "ibc-0", "ibc-0"),
            ("%C3%bc%20%25", "ü %", "ü %"),
            ("a+b%2B", "a+b+", "a b+"),
            ("ü%00", "ü\0", "ü\0"),
        ] {
            assert_eq!(decode("p", text).unwrap(), in_path);
            assert_eq!(decode_form("p", text).unwrap(), in_query);
        }
    }

    #[test]
    fn values_that_are_not_encoded_are_invalid() {
        let remedy = "is not percent-encoded; write % as %25";
        for text in ["%", "100%", "%zz", "%2", "%%20", "%+1", "%ü", "%20%"] {
            let error = decode("p", text).unwrap_err().to_string();
            assert_eq!(error, format!("parameter p: '{text}' {remedy}"));
        }
        for text in ["%FF", "%C3", "a%C3%28"] {
            let error = decode_form("p", text).unwrap_err().to_string();
            let remedy = "is not UTF-8 when decoded; encode text as UTF-8";
            assert_eq!(error, format!("parameter p: '{text}' {remedy}"));
        }
    }
}
