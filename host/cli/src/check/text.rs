//! The report of `check` as text.

use bytesize::ByteSize;
use relayer_rest_conformance::{Dialect, RequestCost, RuleVerdict, Verdict};
use relayer_rest_sandbox::{Grants, Limits};
use relayer_rest_server::config::Config;

use super::{CheckReport, Instance, TargetMount};
use crate::capsules;
use crate::exercise::Exercise;

pub(super) fn lines(report: &CheckReport, config: &Config, mount: &TargetMount) -> Vec<String> {
    let digest = report.digest.map(|digest| digest.to_string()).unwrap_or_default();
    let mut lines = vec![format!("module {} {digest}", report.module)];
    let size = ByteSize::b(report.size as u64);
    let max = config.swap.size;
    lines.push(format!("size     {size} of {max} (swap.size)"));
    lines.extend(report.instance.as_ref().map(instance));
    if let Some(verdict) = &report.verdict {
        lines.push(format!("imports  {}", report.imports.join(", ")));
        let grants = Grants::needed(&report.imports).as_setting();
        let wasi = if report.wasi { ", wasi = true" } else { "" };
        lines.push(format!("needs    {grants}{wasi} (as an extension)"));
        lines.push(String::new());
        lines.extend(verdict.rules.iter().flat_map(rule));
        lines.push(String::new());
        lines.extend(costs(&verdict.costs, &mount.limits));
        lines.push(String::new());
        for part in [Exercise::requests, Exercise::routes, Exercise::warnings] {
            let part = report.exercise.as_ref().map(part).unwrap_or_default();
            if !part.is_empty() {
                lines.extend(part);
                lines.push(String::new());
            }
        }
        if let Some(capsules) = &report.capsules {
            lines.extend(capsules::text(capsules));
            lines.push(String::new());
        }
        lines.push(sum(mount, report, verdict));
    }
    lines.extend(report.error.clone());
    lines
}

fn instance(instance: &Instance) -> String {
    let size = ByteSize::b;
    let Instance { cost, total, limit } = instance;
    let host = size(cost.host_bytes());
    let memory = size(cost.memory);
    let tables = size(cost.tables);
    let total = size(*total);
    let limit = size(*limit);
    format!(
        "instance {total} of {limit} (limits.memory): {memory} of initial memory, {tables} of tables, {host} of host data"
    )
}

fn rule(rule: &RuleVerdict) -> Vec<String> {
    let mark = match (&rule.failure, rule.tried) {
        (Some(_), _) => "FAILED",
        (None, true) => "ok    ",
        (None, false) => "-     ",
    };
    let mut lines = vec![format!("{mark} {:<18} {}", rule.rule, rule.description)];
    lines.extend(rule.failure.iter().map(|failure| format!("       {failure}")));
    lines
}

/// Lists each request once, with its cost on the state on which it took longest.
fn costs(costs: &[RequestCost], limits: &Limits) -> Vec<String> {
    let mut worst: Vec<&RequestCost> = Vec::new();
    for cost in costs {
        match worst.iter_mut().find(|entry| entry.request == cost.request) {
            Some(entry) if entry.micros < cost.micros => *entry = cost,
            Some(_) => {}
            None => worst.push(cost),
        }
    }
    let mut lines =
        vec![format!("{:>10} {:>12} {:>12}  request (state)", "time", "memory", "body")];
    lines.extend(worst.iter().map(|cost| {
        let RequestCost { micros, memory, body, request, state, .. } = cost;
        let memory = memory.map_or("-".to_owned(), |memory| format!("{} KiB", memory / 1024));
        format!("{micros:>7} µs {memory:>12} {body:>10} B  {request} ({state})")
    }));
    let time = limits.time;
    let memory = limits.memory;
    lines.push(format!(
        "limits: {time:?} and {memory}; each request on the state where it took longest"
    ));
    lines
}

fn sum(mount: &TargetMount, report: &CheckReport, verdict: &Verdict) -> String {
    let exercise = report.exercise.as_ref();
    let TargetMount { path, dialect, .. } = mount;
    let result = |positive: &str, negative: &str| {
        let rules = verdict.rules.len();
        let untried = match verdict.rules.iter().filter(|rule| !rule.tried).count() {
            0 => String::new(),
            untried => format!("; {untried} not tested after the failure"),
        };
        match verdict.failures().count() {
            0 => format!("the module {positive}"),
            broken => format!("the module {negative}: {broken} of {rules} rules failed{untried}"),
        }
    };
    let mut parts = vec![match dialect {
        None if report.passes => format!("the module can serve {path}"),
        None => result("keeps all rules of extensions", &format!("cannot serve {path}")),
        Some(dialect) => result(
            &format!("conforms to dialect {dialect}"),
            &format!("does not conform to dialect {dialect}"),
        ),
    }];
    // The paths of an API's module are those of its dialect.
    let has_own_paths = !dialect.is_some_and(|dialect| dialect != Dialect::Any);
    parts.extend(exercise.map(|exercise| exercise.restrictions(has_own_paths)).unwrap_or_default());
    if !verdict.passes() && !verdict.fails_to_respond() && dialect.is_some() {
        parts.push("for an extension, add --mount PATH".to_owned());
    }
    parts.join("; ")
}
