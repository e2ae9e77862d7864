//! Responses made from the results of checks, in the words of Kubernetes.

use std::borrow::Cow;
use std::collections::BTreeSet;

use relayer_rest_sdk::Response;

use crate::checks::Check;
use crate::escape;
use crate::query::Query;

/// Returns the response of an endpoint: `ok`, or a line for each check if one fails, if
/// the request is verbose, or if a parameter had no effect.
pub(crate) fn report(endpoint: &str, checks: &[Check], query: &Query<'_>) -> Response {
    let lines = lines(checks, query);
    let warnings = warnings(checks, query);
    let ready = checks.iter().all(|check| is_excluded(check, query) || check.found.is_ok());
    if ready && !query.verbose && warnings.is_empty() {
        return text_response(200, "ok".to_owned());
    }
    let result = if ready { "passed" } else { "failed" };
    let text = format!("{lines}{warnings}{endpoint} check {result}\n");
    if ready {
        text_response(200, text)
    } else {
        text_response(503, text).with_header("retry-after", "1")
    }
}

/// Returns 404 for the check of a chain that is not configured.
pub(crate) fn not_there(endpoint: &str, check: &Check) -> Response {
    text_response(404, format!("{}{endpoint} check failed\n", line(check)))
}

/// Returns 400 for a threshold that is invalid.
pub(crate) fn invalid(endpoint: &str, message: &str) -> Response {
    let message = escape::sentence(message);
    text_response(400, format!("invalid parameter: {message}\n{endpoint} check failed\n"))
}

/// Creates a text response. Caches must not store it, and browsers must not guess another
/// content type, because it contains names that others have chosen.
fn text_response(status: u16, text: String) -> Response {
    Response::text(text)
        .with_status(status)
        .with_header("cache-control", "no-store")
        .with_header("x-content-type-options", "nosniff")
}

fn lines(checks: &[Check], query: &Query<'_>) -> String {
    let line = |check: &Check| {
        if is_excluded(check, query) {
            format!("[+]{} excluded: ok\n", escape::word(&check.name))
        } else {
            line(check)
        }
    };
    checks.iter().map(line).collect()
}

fn line(check: &Check) -> String {
    let name = escape::word(&check.name);
    match &check.found {
        Ok(()) => format!("[+]{name} ok\n"),
        Err(failure) => format!("[-]{name} failed: {failure}\n"),
    }
}

fn is_excluded(check: &Check, query: &Query<'_>) -> bool {
    query.excluded.contains(&check.name)
}

/// Returns warnings about exclusions that match no check, and unknown parameters.
fn warnings(checks: &[Check], query: &Query<'_>) -> String {
    let names: BTreeSet<_> = checks.iter().map(|check| &check.name).collect();
    let mut warnings = Vec::new();
    let unmatched = quoted(query.excluded.iter().filter(|name| !names.contains(name)));
    if !unmatched.is_empty() {
        let warning = "some health checks cannot be excluded: no matches for";
        warnings.push(format!("warn: {warning} {unmatched}\n"));
    }
    let unknown = quoted(query.unknown.iter());
    if !unknown.is_empty() {
        let warning = "unknown parameters:";
        let known = query.known.join(", ");
        warnings.push(format!("warn: {warning} {unknown}; expected {known}\n"));
    }
    warnings.concat()
}

fn quoted<'a>(names: impl Iterator<Item = &'a Cow<'a, str>>) -> String {
    let names: Vec<_> = names.map(|name| format!("\"{}\"", escape::word(name))).collect();
    names.join(",")
}
