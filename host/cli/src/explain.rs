//! `relayer-rest explain`: shows the values that a response was derived from, and why it is or
//! is not cached.

use clap::Args;
use relayer_rest_sandbox::ReadValue;
use relayer_rest_server::control::ExplainRequest;
use relayer_rest_server::registry::{CacheStatus, Explanation};
use url::Url;

use super::control::ControlArgs;
use super::{CommandOutcome, Failure, block_on, print, print_json};

#[derive(Args)]
pub(super) struct ExplainArgs {
    /// URL of the response, or its path with the query, such as `/chains`
    url: String,
    /// Header of the request, such as `accept: text/html`; can be repeated
    #[arg(long = "header", short = 'H', value_name = "NAME: VALUE")]
    headers: Vec<String>,
    /// Method of the request
    #[arg(long, short = 'X', value_name = "METHOD", default_value = "GET")]
    method: String,
    /// Print the explanation as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    control: ControlArgs,
}

pub(super) fn run(args: &ExplainArgs) -> Result<CommandOutcome, Failure> {
    let target = target(&args.url)?;
    let headers = args.headers.iter().map(|line| header(line)).collect::<Result<_, _>>()?;
    let request = ExplainRequest { method: args.method.clone(), target, headers };
    let client = args.control.client()?;
    let explanation = block_on(client.explain(&request))??;
    if args.json {
        print_json(&explanation)?;
    } else {
        print(&text(&explanation))?;
    }
    Ok(CommandOutcome::Done)
}

/// Returns the path and the query of a URL.
fn target(url: &str) -> Result<String, Failure> {
    if url.starts_with('/') {
        return Ok(url.to_owned());
    }
    let parsed = Url::parse(url).ok().filter(|parsed| parsed.path().starts_with('/'));
    let parsed = parsed.ok_or_else(|| {
        format!("URL {url:?}: not a URL or a path; expected such as /chains or http://127.0.0.1:8000/chains")
    })?;
    let query = parsed.query().map(|query| format!("?{query}")).unwrap_or_default();
    Ok(format!("{}{query}", parsed.path()))
}

/// Returns the name and the value of a header.
pub(super) fn header(line: &str) -> Result<(String, String), Failure> {
    let (name, value) = line.split_once(':').ok_or_else(|| {
        format!("header {line:?}: no colon; expected such as \"accept: text/html\"")
    })?;
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}

fn text(explanation: &Explanation) -> Vec<String> {
    let Explanation { mount, module, request, error, headers, query, reads, commands, .. } =
        explanation;
    let mut lines = vec![
        format!("request   {request} (as the module gets it)"),
        format!("mount     {mount}"),
        format!("module    {module}"),
    ];
    if let Some(error) = error {
        lines.push(format!("response  none: {error}"));
    }
    if let (Some(status), Some(generation)) = (explanation.status, explanation.generation) {
        lines
            .push(format!("response  {status}, derived from generation {generation} of the state"));
    }
    lines.push(format!("cache     {}", cache(&explanation.cache)));
    if let CacheStatus::Outdated { changed } = &explanation.cache {
        lines
            .extend(changed.iter().map(|value| format!("            {} has changed", read(value))));
    }
    if error.is_some() {
        return lines;
    }
    let varies = query.then_some("the query".to_owned()).into_iter();
    let varies = varies.chain(headers.iter().map(|name| format!("header {name}")));
    let varies: Vec<_> = varies.collect();
    let varies = if varies.is_empty() { "nothing else".to_owned() } else { varies.join(", ") };
    lines.push(format!("varies by method, path and {varies}"));
    lines.extend(commands.iter().map(|command| format!("command   {command} (not executed)")));
    lines.push(match reads.len() {
        0 => "reads     nothing: the response is valid as long as the module".to_owned(),
        _ => "reads".to_owned(),
    });
    lines.extend(reads.iter().map(|value| format!("  {}", read(value))));
    lines
}

fn cache(status: &CacheStatus) -> String {
    match status {
        CacheStatus::Cached { hits } => format!("cached, requested {hits} times"),
        CacheStatus::Outdated { .. } => "outdated; the next request runs the module again".into(),
        CacheStatus::Absent => "not cached yet, or evicted; the next request caches it".into(),
        CacheStatus::Disabled => "disabled: limits.response-cache is 0".into(),
        CacheStatus::Failed => "errors are not cached".into(),
        CacheStatus::Command => "never cached: the module gives a command".into(),
        CacheStatus::UnrecordedReads => {
            "never cached: the module reads more than 64 chains, families or headers one by one, or absent ones with long names".into()
        }
        CacheStatus::TooManyHeaders => "never cached: it depends on more than 16 headers".into(),
        CacheStatus::TooLarge => {
            "never cached: it is larger than the cache; raise limits.response-cache".into()
        }
    }
}

fn read(value: &ReadValue) -> String {
    let ReadValue { function, argument, generation, value, .. } = value;
    let argument = argument.as_ref().map(|argument| format!(" {argument}")).unwrap_or_default();
    let version = match (generation, value) {
        (Some(generation), _) => format!("generation {generation}"),
        (None, Some(value)) => value.clone(),
        (None, None) => "absent".to_owned(),
    };
    format!("{:<28} {version}", format!("{function}{argument}"))
}
