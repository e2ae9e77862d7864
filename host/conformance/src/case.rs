//! One test case: a module's response, and the reference's.

use std::cell::OnceCell;

use bytes::Bytes;
use http::Response;
use http::header::CONTENT_TYPE;
use relayer_rest_common::bounded_json;
use relayer_rest_state::Command;
use serde_json::Value;

use super::dialect::Dialect;
use super::json_difference::{JsonDifference, same};
use super::probe::{Probe, TestCase};
use super::states::State;

/// The maximum size of the values of a body that is parsed, in bytes: the state of more
/// than 50,000 workers.
const MAX_VALUES: u64 = 256 << 20;

/// The responses to one test case. Bodies are parsed when a check first needs their
/// values.
pub(super) struct Case<'a> {
    pub(super) dialect: Dialect,
    pub(super) state: &'a State,
    pub(super) test: &'a TestCase,
    /// The module's responses to all test cases.
    pub(super) probe: &'a Probe,
    pub(super) response: &'a Response<Bytes>,
    pub(super) body: OnceCell<Result<Value, String>>,
    /// The commands that the reference recorded; the module's if the dialect has no reference.
    pub(super) commands: &'a [Command],
    /// The reference's response; the module's if the dialect has no reference.
    pub(super) reference: &'a Response<Bytes>,
    pub(super) expected: OnceCell<Value>,
}

/// Returns the values of a response's body.
fn parse(response: &Response<Bytes>) -> Result<Value, String> {
    bounded_json::parse(response.body(), MAX_VALUES).map_err(|error| error.to_string())
}

impl Case<'_> {
    /// Returns the values of the body.
    pub(super) fn body(&self) -> Result<&Value, String> {
        self.body.get_or_init(|| parse(self.response)).as_ref().map_err(Clone::clone)
    }

    /// Returns the values of the reference's body.
    pub(super) fn expected(&self) -> &Value {
        self.expected.get_or_init(|| parse(self.reference).unwrap_or_default())
    }

    /// Returns whether the state has the data that the response shows.
    pub(super) fn has_data(&self) -> bool {
        match self.test {
            TestCase::Chains | TestCase::UnknownChain => self.state.chains().is_ok(),
            TestCase::State => self.state.snapshot.status().value().is_ok(),
            TestCase::Version
            | TestCase::Chain(_)
            | TestCase::UnknownPath
            | TestCase::WithQuery
            | TestCase::Refused(..)
            | TestCase::Command
            | TestCase::ClearPackets
            | TestCase::Declared(_)
            | TestCase::Odd(_) => true,
        }
    }

    /// Returns whether the content type is JSON.
    pub(super) fn is_json(&self) -> bool {
        let kind = self.response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        let essence = kind.and_then(|kind| kind.split(';').next());
        essence.is_some_and(|essence| essence.trim().eq_ignore_ascii_case("application/json"))
    }

    /// Returns the values of the body of a response of status 200.
    pub(super) fn success(&self) -> Result<&Value, String> {
        match self.response.status().as_u16() {
            200 => self.body(),
            status => Err(format!("expected the status 200, got {status}")),
        }
    }

    /// Returns the result in a success envelope.
    pub(super) fn result(&self) -> Result<&Value, String> {
        envelope(self.success()?, "success")
    }

    /// Checks that the body is an error envelope with a name and a message.
    pub(super) fn is_error(&self) -> Result<(), String> {
        let error = envelope(self.body()?, "error")?;
        let texts = ["name", "msg"];
        if has_fields(error, &texts) && texts.iter().all(|field| error[field].is_string()) {
            return Ok(());
        }
        Err("/result: expected the texts name and msg, in this order".to_owned())
    }

    /// Checks that the status is the reference's.
    pub(super) fn has_expected_status(&self) -> Result<(), String> {
        let expected = self.reference.status().as_u16();
        match self.response.status().as_u16() {
            status if status == expected => Ok(()),
            status => Err(format!("expected the status {expected}, got {status}")),
        }
    }

    /// Compares the result in a success envelope with the reference's.
    pub(super) fn same_result(
        &self,
        compare: impl Fn(&Value, &Value) -> Result<(), JsonDifference>,
    ) -> Result<(), String> {
        let found = self.result()?;
        compare(&self.expected()["result"], found)
            .map_err(|difference| difference.under("result").to_string())
    }
}

/// Returns the result in an envelope of this status.
fn envelope<'a>(body: &'a Value, status: &str) -> Result<&'a Value, String> {
    if !has_fields(body, &["status", "result"]) {
        return Err("expected an envelope of status and result, in this order".to_owned());
    }
    same(&status.into(), &body["status"])
        .map_err(|difference| difference.under("status").to_string())?;
    Ok(&body["result"])
}

/// Returns whether a value is an object with exactly these fields, in this order.
pub(super) fn has_fields(value: &Value, fields: &[&str]) -> bool {
    value.as_object().is_some_and(|object| object.keys().eq(fields))
}
