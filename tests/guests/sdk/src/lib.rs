//! A module that returns the parts of its requests. `handle.js` and `handle.py` are the same
//! module in JavaScript and Python.

use relayer_rest_sdk::{
    Host, InvalidParameter, Level, Params, Request, Response, Route, Router, State,
};
use serde_json::json;

relayer_rest_sdk::module!(handle);

/// Handles a request.
pub fn handle<H: Host>(host: &H, request: &Request) -> Response {
    if request.method == "POST" && request.path == "/clear" {
        host.clear_packets(Some("ibc-0"));
        host.clear_packets(None);
        return Response::empty(202);
    }
    routes().respond(host, request)
}

const fn routes<H: Host>() -> Router<H, 15> {
    Router::new([
        Route::get("/", count),
        Route::get("/query", |_, request, _| Ok(Response::success(request.query("a")?))),
        Route::get("/all", |_, request, _| Ok(Response::success(request.query_all("a")?))),
        Route::get("/limit", limit),
        Route::get("/pairs", |_, request, _| {
            Ok(Response::success(request.query_pairs().collect::<Vec<_>>()))
        }),
        Route::get("/text", |_, request, _| Ok(Response::success(request.query_text()))),
        Route::get("/header", |_, request, _| Ok(Response::success(request.header("x-a")))),
        Route::get("/headers", |_, request, _| {
            Ok(Response::success(request.header_all("x-a").len()))
        }),
        Route::get("/param/:a/:b", |_, _, params| {
            Ok(Response::success([params.get("a")?, params.raw("b").into()]))
        }),
        Route::get("/chain/:id", chain),
        Route::get("/workers", workers),
        Route::get("/mount", |host: &H, _, _| Ok(Response::text(host.mount()))),
        Route::get("/host", |host: &H, _, _| Ok(about(host))),
        Route::get("/telemetry", telemetry),
        Route::get("/made", |_, request, _| {
            Ok(Response::text(&*request.path).with_status(201).with_header("x-b", "c"))
        }),
    ])
}

fn count<H: Host>(host: &H, _: &Request, _: Params<'_>) -> Result<Response, Response> {
    Ok(Response::text(format!("{} of them\n", host.chain_ids()?.len())))
}

fn limit<H: Host>(_: &H, request: &Request, _: Params<'_>) -> Result<Response, Response> {
    let limit = request.query_as::<u32>("limit")?.unwrap_or(10);
    if limit > 100 {
        let problem = format!("{limit} is above 100; request fewer");
        return Err(InvalidParameter::new("limit", problem).into());
    }
    Ok(Response::success(limit))
}

fn chain<H: Host>(host: &H, _: &Request, params: Params<'_>) -> Result<Response, Response> {
    let id = params.get("id")?;
    let unknown = || Response::error(404, "ChainNotFound", &format!("there is no chain {id}"));
    Ok(Response::success(host.chain(&id)?.ok_or_else(unknown)?.id))
}

fn workers<H: Host>(host: &H, _: &Request, _: Params<'_>) -> Result<Response, Response> {
    let state = host.state()?;
    let state = State::new(&state);
    let workers: Vec<_> = state
        .workers()
        .map(|worker| {
            let chains = worker.object.pair().map_or(vec![], |(src, dst)| vec![src, dst]);
            json!([worker.id, worker.object.kind(), chains])
        })
        .collect();
    Ok(Response::success(json!([state.chains(), workers])))
}

fn about<H: Host>(host: &H) -> Response {
    host.log(Level::Warn, "shown");
    let parts = host.components().into_iter();
    let parts: Vec<_> = parts.map(|part| [part.name, part.version]).collect();
    let is_confirmed = host.unconfirmed_since().is_none();
    let shown = json!([parts, host.changed().to_string(), is_confirmed, host.sources().len()]);
    Response::success(shown)
}

fn telemetry<H: Host>(host: &H, _: &Request, _: Params<'_>) -> Result<Response, Response> {
    let known = host.metric_families()?;
    let mut families = Vec::new();
    for name in &known {
        let samples = host.metric_family(name)?.into_iter().flat_map(|family| family.samples);
        let samples = samples.map(|sample| {
            let pairs = sample.labels.iter().map(|label| format!("{}={}", label.name, label.value));
            format!("{} {} {}", sample.name, pairs.collect::<Vec<_>>().join(","), sample.value)
        });
        families.push(samples.collect::<Vec<_>>());
    }
    let is_absent = host.metric_family("absent")?.is_none();
    Ok(Response::success(json!([known, families, is_absent, host.scraped()?.to_string()])))
}
