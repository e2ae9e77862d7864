//! `relayer-rest check`: what a module's author asks before giving it away.

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;

use super::{Failure, Ran, block_on, print, print_json};
use crate::conformance::{self, Cost, Dialect, Verdict};
use crate::module::{Digest, Engine, LoadError, Module};
use crate::state::hermes_config::HermesConfig;
use crate::state::{RelayerState, StatePublisher};

/// The requests that take longest, as many as are shown.
const SHOWN: usize = 5;

#[derive(Args)]
pub(super) struct CheckArgs {
    /// The component.
    file: PathBuf,
    /// The dialect that it is to speak: 0.7, 1.13 or any.
    #[arg(long, value_name = "NAME", default_value = "0.7")]
    dialect: Dialect,
    /// A relayer's configuration: its chains are asked for, too.
    #[arg(long, value_name = "FILE")]
    relayer_config: Option<PathBuf>,
    /// The settings of relayer-rest, for the limits of its module.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print what was found as JSON.
    #[arg(long)]
    json: bool,
}

/// What was found.
#[derive(Serialize)]
struct Found {
    module: String,
    digest: Option<Digest>,
    passes: bool,
    /// Why it cannot be asked at all.
    error: Option<String>,
    verdict: Option<Verdict>,
}

pub(super) fn run(args: &CheckArgs) -> Result<Ran, Failure> {
    let config = args.config.as_deref().map(crate::config::Config::read).transpose()?;
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
    let engine = Engine::new(&config.module.limits)?;
    let mut found = Found {
        module: args.file.display().to_string(),
        digest: None,
        passes: false,
        error: None,
        verdict: None,
    };
    match Module::from_file(&engine, &args.file) {
        Err(error @ LoadError::Unreadable { .. }) => return Err(error.into()),
        Err(error) => found.error = Some(error.to_string()),
        Ok(module) => {
            let verdict = block_on(conformance::examine(&module, args.dialect, present))?;
            found.digest = Some(module.digest());
            found.passes = verdict.passes();
            found.verdict = Some(verdict);
        }
    }
    if args.json {
        print_json(&found);
    } else {
        print(&text(&found, &config.module.limits.memory.to_string()));
    }
    Ok(if found.passes { Ran::Done } else { Ran::Refused })
}

fn text(found: &Found, memory: &str) -> String {
    let Some(verdict) = &found.verdict else {
        return found.error.clone().unwrap_or_default();
    };
    let digest = found.digest.map(|digest| digest.to_string()).unwrap_or_default();
    let mut lines = vec![format!("module {} {digest}", found.module)];
    lines.push("imports and export: those of the contract".to_owned());
    lines.push(String::new());
    for rule in &verdict.rules {
        let mark = match (&rule.failure, rule.is_tried) {
            (Some(_), _) => "BROKEN",
            (None, true) => "ok    ",
            (None, false) => "-     ",
        };
        lines.push(format!("{mark} {:<18} {}", rule.rule, rule.says));
        lines.extend(rule.failure.iter().map(|failure| format!("       {failure}")));
    }
    lines.push(String::new());
    lines.push(format!("{:>10} {:>12} {:>12}  request (on the state)", "time", "memory", "body"));
    let mut costs: Vec<&Cost> = verdict.costs.iter().collect();
    costs.sort_by_key(|cost| std::cmp::Reverse(cost.micros));
    for cost in costs.iter().take(SHOWN) {
        let (memory, body) = (cost.memory / 1024, cost.body);
        let (micros, request, state) = (cost.micros, &cost.request, &cost.state);
        lines.push(format!("{micros:>7} µs {memory:>8} KiB {body:>10} B  {request} ({state})"));
    }
    let most = verdict.costs.iter().map(|cost| cost.memory).max().unwrap_or_default() / 1024;
    let requests = verdict.costs.len();
    lines.push(format!(
        "these took longest of {requests} requests; the most memory was {most} KiB, the limit is {memory}"
    ));
    lines.push(String::new());
    let broken = verdict.failures().count();
    lines.push(if broken == 0 {
        format!("the module speaks the dialect {}", verdict.dialect)
    } else {
        let rules = verdict.rules.len();
        format!(
            "the module does not speak the dialect {}: {broken} of {rules} rules are broken",
            verdict.dialect
        )
    });
    lines.join("\n")
}
