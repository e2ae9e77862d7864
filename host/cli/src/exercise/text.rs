//! The result of exercising a module, as lines of text.

use relayer_rest_common::text::truncate;

use super::{Exercise, RequestReport, ResponseReport, RouteReport, UndeclaredRequest, Volatile};

/// The maximum number of lines of a body that are shown.
const MAX_LINES: usize = 40;

impl Exercise {
    /// Returns the lines about the author's requests.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.requests.iter().flat_map(request).collect()
    }

    /// Returns the lines about the author's requests that fail.
    pub(crate) fn failed_requests(&self) -> Vec<String> {
        self.requests
            .iter()
            .filter(|report| !report.failures.is_empty())
            .flat_map(request)
            .collect()
    }

    /// Returns the lines about the declared routes.
    pub(crate) fn routes(&self) -> Vec<String> {
        let mut lines: Vec<_> = self.routes.iter().map(route).collect();
        lines.extend(self.remedy());
        lines.extend(self.undeclared());
        lines
    }

    /// Returns the lines about requests for routes that the module does not declare.
    pub(crate) fn undeclared(&self) -> Vec<String> {
        let mut lines: Vec<_> = self.undeclared.iter().map(undeclared).collect();
        if !lines.is_empty() {
            lines.push(
                "to declare these routes, add them to openapi.json; with the SDK for Rust, UPDATE_OPENAPI=1 cargo test writes it"
                    .to_owned(),
            );
        }
        lines
    }

    /// Returns the remedy for routes that were not exercised.
    fn remedy(&self) -> Option<String> {
        let missing = self.not_exercised().next()?;
        let example = &missing.route;
        Some(format!(
            "to exercise all routes, add requests to requests.http, or --ask '{example}' with values of its parameters"
        ))
    }

    pub(super) fn not_exercised(&self) -> impl Iterator<Item = &RouteReport> {
        self.routes.iter().filter(|route| !route.exercised)
    }

    /// Returns the lines about responses that change with each publication of the state.
    pub(crate) fn warnings(&self) -> Vec<String> {
        self.volatile.iter().map(Volatile::line).collect()
    }

    /// Returns the parts of a summary that restrict it: requests that fail, and routes that
    /// were not exercised. `has_own_paths` tells that the module may serve paths that no
    /// dialect has.
    pub(crate) fn restrictions(&self, has_own_paths: bool) -> Vec<String> {
        let mut restrictions = Vec::new();
        let failures = self.failures();
        if failures > 0 {
            let all = self.requests.len();
            restrictions.push(format!("{failures} of {all} requests failed"));
        }
        let missing = self.not_exercised().count();
        if missing > 0 {
            let all = self.routes.len();
            restrictions.push(format!("{missing} of {all} declared routes were not exercised"));
        }
        let undeclared = self.undeclared.len();
        if undeclared > 0 {
            let all = self.requests.len();
            restrictions.push(format!("{undeclared} of {all} requests have an undeclared route"));
        }
        if has_own_paths && !self.has_document && self.requests.is_empty() {
            restrictions.push(
                "of its own paths, only / was exercised: declare its routes, write requests.http, or add --ask 'GET /PATH'"
                    .to_owned(),
            );
        }
        restrictions
    }
}

fn request(report: &RequestReport) -> Vec<String> {
    let RequestReport { request, name, origin, response, failures, has_expectation } = report;
    let mark = if failures.is_empty() { "ok    " } else { "FAILED" };
    let status = response.as_ref().map_or("-".to_owned(), |response| response.status.to_string());
    let name = name.as_ref().map(|name| format!("{}, ", truncate(name))).unwrap_or_default();
    let mut lines = vec![format!("{mark} {:<30} {status}  ({name}{origin})", truncate(request))];
    lines.extend(failures.iter().map(|failure| format!("       {failure}")));
    if let (false, Some(response)) = (has_expectation, response) {
        let indented = |line: String| format!("       {line}").trim_end().to_owned();
        lines.extend(shown(response).into_iter().map(indented));
    }
    lines
}

fn shown(response: &ResponseReport) -> Vec<String> {
    let headers = response.headers.iter().map(|(name, value)| format!("{name}: {value}"));
    let mut lines: Vec<_> = headers.collect();
    lines.push(String::new());
    let mut body = response.body.lines();
    lines.extend(body.by_ref().take(MAX_LINES).map(ToOwned::to_owned));
    match body.count() {
        0 => {}
        more => lines.push(format!("… ({more} more lines)")),
    }
    lines
}

fn undeclared(request: &UndeclaredRequest) -> String {
    let UndeclaredRequest { request, origin, status } = request;
    format!("not declared  {:<30} {status}  ({origin})", truncate(request))
}

fn route(report: &RouteReport) -> String {
    let RouteReport { route, exercised, request, status } = report;
    let mark = if *exercised { "exercised    " } else { "not exercised" };
    let reason = match (request, status) {
        (Some(request), Some(status)) => format!("{}: {status}", truncate(request)),
        (Some(request), None) => format!("{}: no response", truncate(request)),
        (None, _) => "only GET is requested without requests.http or --ask".to_owned(),
    };
    format!("{mark} {route:<30} {reason}")
}
