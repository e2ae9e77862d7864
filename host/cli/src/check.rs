//! `relayer-rest check`: checks a module before its author publishes it.
//!
//! | file | job |
//! |---|---|
//! | `openapi.rs` | validates responses against the declared routes |

mod openapi;

use std::error::Error;
use std::path::PathBuf;

use bytesize::ByteSize;
use clap::Args;
use relayer_rest_common::files;
use relayer_rest_conformance as conformance;
use relayer_rest_conformance::{Dialect, RequestCost, RuleVerdict, Verdict};
use relayer_rest_sandbox::{
    Digest, Engine, EngineOptions, Grants, InstanceCost, Limits, LoadError, MAX_COMPONENT_SIZE,
    Module,
};
use relayer_rest_server::config::Config;
use relayer_rest_server::registry::References;
use relayer_rest_sources::hermes_config::HermesConfig;
use relayer_rest_state::{RelayerState, StatePublisher};
use serde::Serialize;
use tokio::time::timeout;

use super::compile;
use super::progress::Progress;
use super::{CommandOutcome, Failure, block_on, print, print_json};

#[derive(Args)]
pub(super) struct CheckArgs {
    /// Component to check
    file: PathBuf,
    /// Dialect of the API that it must conform to: 0.7, 1.13 or any
    #[arg(long, value_name = "NAME", default_value = "0.7")]
    dialect: Dialect,
    /// Configuration of a relayer whose chains are requested, too
    #[arg(long, value_name = "FILE")]
    relayer_config: Option<PathBuf>,
    /// Settings of relayer-rest with the limits to check against
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
}

/// The report of the command.
#[derive(Serialize)]
struct CheckReport {
    module: String,
    digest: Option<Digest>,
    /// The size of the component, in bytes.
    size: usize,
    /// The interfaces that it imports.
    imports: Vec<String>,
    /// Whether some of them belong to WASI, which a mount must allow.
    wasi: bool,
    /// The cost of creating an instance.
    instance: Option<Instance>,
    passes: bool,
    /// The reason why the module is refused, apart from its verdict.
    error: Option<String>,
    verdict: Option<Verdict>,
}

/// The cost of creating an instance, in bytes, and its limit.
#[derive(Serialize)]
struct Instance {
    #[serde(flatten)]
    cost: InstanceCost,
    total: u64,
    limit: u64,
}

impl Instance {
    fn new(cost: InstanceCost, limits: &Limits) -> Self {
        Self { total: cost.total(), limit: limits.memory.as_u64(), cost }
    }
}

pub(super) fn run(args: &CheckArgs) -> Result<CommandOutcome, Failure> {
    let config = args.config.as_deref().map(Config::read).transpose()?;
    let config = config.unwrap_or_default();
    let present = args
        .relayer_config
        .as_deref()
        .map(|file| {
            let publisher = StatePublisher::new();
            let config = HermesConfig::read(file)?;
            let ids = config.chains.iter().map(|chain| chain.id.clone()).collect();
            publisher.set_chains(config.chains).expect("what was read has each chain once");
            publisher.set_state(RelayerState { chains: ids, workers: Vec::new() });
            Ok::<_, Failure>(publisher.reader().snapshot())
        })
        .transpose()?;
    // WASI and all grants are allowed here; the report lists the ones that a mount must
    // allow.
    let limits = &config.module.limits;
    let compiler = Some(compile::compiler());
    let headers = config.module.headers.clone();
    let options = EngineOptions { headers, wasi: true, compiler, ..limits.into() };
    let engine = Engine::with(options)?;
    let name = args.file.display().to_string();
    let bytes = files::read(&args.file, MAX_COMPONENT_SIZE)
        .map_err(|source| LoadError::Unreadable { file: args.file.clone(), source });
    let mut report = CheckReport {
        digest: bytes.as_ref().ok().map(|bytes| Digest::new(bytes)),
        size: bytes.as_ref().map_or(0, Vec::len),
        imports: Vec::new(),
        wasi: false,
        instance: None,
        passes: false,
        error: None,
        verdict: None,
        module: name.clone(),
    };
    let too_slow =
        || format!("module {name}: no result within {:?}; raise swap.time", config.swap.time);
    let progress = Progress::new(3);
    let module = match bytes {
        Ok(bytes) => {
            progress.step(format!("compiling {name}"));
            let memory = config.swap.memory;
            let module = Module::from_untrusted_bytes(&engine, &name, &bytes, memory);
            let module = block_on(async { timeout(config.swap.time, module).await })?;
            module
                .map_err(|_| too_slow())
                .and_then(|module| module.map_err(|error| error.to_string()))
        }
        Err(error) => Err(error.to_string()),
    };
    match module {
        Err(error) => report.error = Some(error),
        Ok(module) => {
            report.imports = module.imports();
            report.instance = Some(Instance::new(*module.instance_cost(), limits));
            report.wasi = report.imports.iter().any(|import| import.starts_with("wasi:"));
            let references = References::new(engine);
            let probed = async {
                progress.step("comparing responses with the reference");
                let reference = references.get(args.dialect, &[&module]).await?;
                let mut verdict = conformance::probe(&module, reference, present).await?;
                if !verdict.fails_to_respond() {
                    progress.step("validating the declared routes");
                    verdict.rules.extend(openapi::validate(&module).await);
                }
                Ok::<_, Box<dyn Error>>(verdict)
            };
            match block_on(async { timeout(config.swap.time, probed).await })? {
                Ok(Ok(verdict)) => {
                    report.passes = verdict.passes();
                    report.verdict = Some(verdict);
                }
                Ok(Err(error)) => report.error = Some(error.to_string()),
                Err(_) => report.error = Some(too_slow()),
            }
        }
    }
    drop(progress);
    if report.error.is_none() && report.size as u64 > config.swap.size.as_u64() {
        let max = config.swap.size;
        report.error = Some(format!(
            "module {name}: larger than {max}; raise swap.size, or servers reject it"
        ));
        report.passes = false;
    }
    if args.json {
        print_json(&report)?;
    } else {
        print(&text(&report, &config))?;
    }
    Ok(if report.passes { CommandOutcome::Done } else { CommandOutcome::Rejected })
}

fn text(report: &CheckReport, config: &Config) -> Vec<String> {
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
        lines.extend(costs(&verdict.costs, &config.module.limits));
        lines.push(String::new());
        lines.push(sum(verdict));
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

fn sum(verdict: &Verdict) -> String {
    let dialect = verdict.dialect;
    let rules = verdict.rules.len();
    let broken = verdict.failures().count();
    let untried = match verdict.rules.iter().filter(|rule| !rule.tried).count() {
        0 => String::new(),
        untried => format!("; {untried} not tested after the failure"),
    };
    match broken {
        0 => format!("the module conforms to dialect {dialect}"),
        _ => format!(
            "the module does not conform to dialect {dialect}: {broken} of {rules} rules failed{untried}; for an extension, use --dialect any"
        ),
    }
}
