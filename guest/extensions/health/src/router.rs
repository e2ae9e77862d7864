//! Routing of requests.

use relayer_rest_sdk::{
    Host, OpenApi, Operation, Params, Request, Response, Route, Router, WitHost,
};

use crate::checks::{Check, Failure, Relayer};
use crate::query::{CHAIN, EXCLUDE, MAX_BACKLOG, MAX_BACKLOG_AGE, MIN_BALANCE, Query, VERBOSE};
use crate::report::{self, report};
use crate::thresholds::Thresholds;

/// The content type of all responses.
const TEXT: &str = "text/plain; charset=utf-8";

const INDEX: &str = "\
livez            this module responds
readyz           the relayer is known, confirmed and connected to its chains, and
                 the sources of its data work
readyz/CHECK     one check: chains, state, confirmed or chain/ID

?verbose         list all checks, also if all pass
?exclude=CHECK   exclude a check; repeatable
?chain=ID        check this chain instead of all configured ones; repeatable

with the relayer's telemetry:
?max-backlog-age=TIME       the oldest pending packet of a channel is not older
                            than this, such as 10m
?max-backlog=COUNT          no channel has more pending packets
?min-balance=AMOUNT[DENOM]  each wallet, or each with this token, has this
                            balance, such as 100uatom; repeatable
";

/// Handles a request. The host passes HEAD as GET and omits the body.
pub(crate) fn handle<H: Host>(host: &H, request: &Request) -> Response {
    routes().respond(host, request)
}

/// Describes the routes.
#[must_use]
pub fn openapi() -> OpenApi {
    let document = OpenApi::new("Health of a relayer", env!("CARGO_PKG_VERSION"));
    routes::<WitHost>().openapi(document)
}

const fn routes<H: Host>() -> Router<H, 7> {
    Router::new([
        Route::get("/", |_, _, _| Ok(Response::text(INDEX)))
            .describe(|operation| operation.summary("The endpoints").content(200, TEXT, "A list")),
        Route::get("/livez", |_, request, _| Ok(livez(request)))
            .describe(|operation| result(operation.summary("Whether this module responds"))),
        Route::get("/readyz", |host: &H, request, _| readyz(host, request)).describe(|operation| {
            let operation = operation
                .summary("Whether the relayer is known, confirmed and connected to its chains")
                .query::<Vec<String>>(EXCLUDE, "Excludes a check")
                .query::<Vec<String>>(CHAIN, "Checks this chain instead of all configured ones")
                .query::<String>(MAX_BACKLOG_AGE, "The maximum age of a pending packet: `10m`")
                .query::<u64>(MAX_BACKLOG, "The maximum number of pending packets of a channel")
                .query::<Vec<String>>(MIN_BALANCE, "The minimum balance of wallets: `100uatom`");
            result(operation).content(400, TEXT, "A threshold is invalid")
        }),
        Route::get("/readyz/chains", |host: &H, request, _| one(host, request, Relayer::chains))
            .describe(|operation| result(operation.summary("Whether the chains are known"))),
        Route::get("/readyz/state", |host: &H, request, _| one(host, request, Relayer::state))
            .describe(|operation| result(operation.summary("Whether the state is known"))),
        Route::get("/readyz/confirmed", |host: &H, request, _| {
            one(host, request, Relayer::confirmed)
        })
        .describe(|operation| result(operation.summary("Whether the state is confirmed"))),
        Route::get("/readyz/chain/:id", chain).describe(|operation| {
            result(operation.summary("Whether a chain is connected")).content(
                404,
                TEXT,
                "There is no such chain",
            )
        }),
    ])
}

/// Describes the result of checks.
fn result(operation: Operation<'_>) -> Operation<'_> {
    operation
        .query::<String>(VERBOSE, "Lists all checks, also if all pass")
        .content(200, TEXT, "All checks pass")
        .content(503, TEXT, "A check fails")
}

fn livez(request: &Request) -> Response {
    report("livez", &[], &Query::new(request, &[VERBOSE, EXCLUDE]))
}

fn readyz<H: Host>(host: &H, request: &Request) -> Result<Response, Response> {
    let known = &[VERBOSE, EXCLUDE, CHAIN, MAX_BACKLOG_AGE, MAX_BACKLOG, MIN_BALANCE];
    let query = Query::new(request, known);
    let thresholds =
        Thresholds::new(&query).map_err(|message| report::invalid("readyz", &message))?;
    let relayer = Relayer::read(host);
    let mut checks = vec![relayer.chains(), relayer.state(), relayer.confirmed()];
    checks.extend(relayer.sources());
    if query.chains.is_empty() {
        checks.extend(relayer.configured().map(|id| relayer.chain(id)));
    } else {
        checks.extend(query.chains.iter().map(|id| relayer.chain(id)));
    }
    if !thresholds.is_empty() {
        checks.extend(relayer.telemetry());
        checks.extend(thresholds.checks(host));
    }
    Ok(report("readyz", &checks, &query))
}

/// Runs a single check.
fn one<H: Host>(
    host: &H,
    request: &Request,
    check: impl Fn(&Relayer) -> Check,
) -> Result<Response, Response> {
    let check = check(&Relayer::read(host));
    if check.found == Err(Failure::NotConfigured) {
        return Err(report::not_there("readyz", &check));
    }
    Ok(report("readyz", &[check], &Query::new(request, &[VERBOSE])))
}

fn chain<H: Host>(host: &H, request: &Request, params: Params<'_>) -> Result<Response, Response> {
    // No chain has an identifier that cannot be decoded.
    let id = params.get("id").unwrap_or_else(|_| params.raw("id").into());
    one(host, request, |relayer| relayer.chain(&id))
}

#[cfg(test)]
mod tests {
    use super::INDEX;
    use super::openapi;
    use crate::handle;
    use relayer_rest_sdk::contract::{Source, SourceFailure};
    use relayer_rest_sdk::testing::{FakeHost, chain, check_openapi};
    use relayer_rest_sdk::{Request, Response};

    #[test]
    fn the_document_is_that_of_the_routes() {
        check_openapi(openapi(), "openapi.json");
    }

    /// Returns a host with two connected chains.
    fn ready() -> FakeHost {
        FakeHost::new().with_chain("ibc-1").with_chain("ibc-0")
    }

    /// Returns a host with two chains, one of them connected.
    fn half() -> FakeHost {
        FakeHost::new().with_chain("ibc-0").with_chain_config(chain("ibc-1"))
    }

    fn get(host: &FakeHost, target: &str) -> Response {
        handle(host, &Request::get(target))
    }

    /// Checks the status, the body and all headers.
    #[track_caller]
    fn check(host: &FakeHost, target: &str, status: u16, body: &str) {
        let response = get(host, target);
        assert_eq!((response.status, response.text_body()), (status, body), "{target}");
        let mut headers = vec![
            ("content-type", "text/plain; charset=utf-8".into()),
            ("cache-control", "no-store".into()),
            ("x-content-type-options", "nosniff".into()),
        ];
        if status == 503 {
            headers.push(("retry-after", "1".into()));
        }
        assert_eq!(response.headers, headers, "{target}");
    }

    #[test]
    fn livez_succeeds_in_every_state_of_the_relayer() {
        for host in [ready(), half(), FakeHost::not_ready("wait")] {
            check(&host, "/livez", 200, "ok");
            check(&host, "/livez?verbose", 200, "livez check passed\n");
        }
    }

    #[test]
    fn a_source_that_fails_is_not_ready() {
        let source = |kind: &str, failure| Source {
            kind: kind.to_owned(),
            location: "state.json".to_owned(),
            failure,
        };
        let failure = SourceFailure {
            message: "the file is invalid".to_owned(),
            since: 1_767_225_661_999_999_999,
        };
        let mut host = ready();
        host.sources =
            vec![source("relayer-config", None), source("telemetry", Some(failure.clone()))];
        // The API does not need the telemetry.
        check(&host, "/readyz", 200, "ok");
        let lines = "[+]chains ok\n[+]state ok\n[+]confirmed ok\n[+]source/relayer-config ok\n\
                     [+]chain/ibc-0 ok\n[+]chain/ibc-1 ok\nreadyz check passed\n";
        check(&host, "/readyz?verbose", 200, lines);
        let failed = get(&host, "/readyz?max-backlog=1");
        let line = "[-]source/telemetry failed: the file is invalid, since 2026-01-01T00:01:01Z\n";
        assert!(failed.status == 503 && failed.text_body().contains(line));
        host.sources = vec![source("state-file", Some(failure))];
        let line = "[-]source/state-file failed: the file is invalid, since 2026-01-01T00:01:01Z\n";
        let failed = get(&host, "/readyz");
        assert!(failed.status == 503 && failed.text_body().contains(line));
        check(&host, "/readyz?exclude=source/state-file&chain=ibc-0", 200, "ok");
    }

    #[test]
    fn a_healthy_relayer_is_reported_in_one_word() {
        check(&ready(), "/readyz", 200, "ok");
        check(&ready(), "/readyz?", 200, "ok");
        check(&FakeHost::new(), "/readyz", 200, "ok");
        let lines = "[+]chains ok\n[+]state ok\n[+]confirmed ok\n\
                     [+]chain/ibc-0 ok\n[+]chain/ibc-1 ok\nreadyz check passed\n";
        check(&ready(), "/readyz?verbose", 200, lines);
    }

    #[test]
    fn failed_checks_are_named() {
        let lines = "[+]chains ok\n[+]state ok\n[+]confirmed ok\n\
                     [+]chain/ibc-0 ok\n[-]chain/ibc-1 failed: not connected\nreadyz check failed\n";
        check(&half(), "/readyz", 503, lines);
        check(&half(), "/readyz?verbose", 503, lines);
    }

    #[test]
    fn an_unknown_state_is_not_ready() {
        check(
            &FakeHost::not_ready("wait, it's \"new\"\r\n[+]state ok"),
            "/readyz",
            503,
            "[-]chains failed: not known: wait, it's \"new\"\\r\\n[+]state ok\n\
             [-]state failed: not known: wait, it's \"new\"\\r\\n[+]state ok\n\
             [+]confirmed ok\nreadyz check failed\n",
        );
        check(
            &FakeHost::not_ready("wait"),
            "/readyz?chain=ibc-0&exclude=state",
            503,
            "[-]chains failed: not known: wait\n[+]state excluded: ok\n[+]confirmed ok\n\
             [-]chain/ibc-0 failed: the configured chains are not known\nreadyz check failed\n",
        );
        let mut without_state = ready();
        without_state.state = FakeHost::not_ready("wait").state;
        check(
            &without_state,
            "/readyz?chain=ibc-0&chain=other",
            503,
            "[+]chains ok\n[-]state failed: not known: wait\n[+]confirmed ok\n\
             [-]chain/ibc-0 failed: the state is not known\n\
             [-]chain/other failed: not configured\nreadyz check failed\n",
        );
    }

    #[test]
    fn an_unconfirmed_state_is_not_ready() {
        let mut host = ready();
        host.unconfirmed_since = Some(1_767_225_661_999_999_999);
        let confirmed = "[-]confirmed failed: not since 2026-01-01T00:01:01Z\n";
        check(
            &host,
            "/readyz",
            503,
            &format!(
                "[+]chains ok\n[+]state ok\n{confirmed}\
                 [+]chain/ibc-0 ok\n[+]chain/ibc-1 ok\nreadyz check failed\n"
            ),
        );
        check(&host, "/readyz/confirmed", 503, &format!("{confirmed}readyz check failed\n"));
        check(&host, "/readyz/chain/ibc-0", 200, "ok");
        check(&host, "/readyz?exclude=confirmed", 200, "ok");
    }

    #[test]
    fn checks_can_be_excluded() {
        check(&half(), "/readyz?exclude=chain/ibc-1", 200, "ok");
        check(&half(), "/readyz?exclude=chain%2Fibc-1&exclude=state", 200, "ok");
        check(
            &half(),
            "/readyz?exclude=chain/ibc-1&exclude=state&exclude=state&verbose",
            200,
            "[+]chains ok\n[+]state excluded: ok\n[+]confirmed ok\n\
             [+]chain/ibc-0 ok\n[+]chain/ibc-1 excluded: ok\nreadyz check passed\n",
        );
        let all = "/readyz?exclude=chains&exclude=state";
        check(&FakeHost::not_ready("wait"), all, 200, "ok");
    }

    #[test]
    fn chains_can_be_selected() {
        check(&half(), "/readyz?chain=ibc-0", 200, "ok");
        check(
            &half(),
            "/readyz?chain=ibc-1&chain=ibc-0&chain=ibc-1&chain=ibc-9&exclude=chain/ibc-1",
            503,
            "[+]chains ok\n[+]state ok\n[+]confirmed ok\n[+]chain/ibc-0 ok\n\
             [+]chain/ibc-1 excluded: ok\n[-]chain/ibc-9 failed: not configured\n\
             readyz check failed\n",
        );
    }

    #[test]
    fn a_connected_chain_that_is_not_configured_is_not_ready() {
        let mut host = ready();
        host.chains = Ok(Vec::new());
        check(
            &host,
            "/readyz?chain=ibc-0",
            503,
            "[+]chains ok\n[+]state ok\n[+]confirmed ok\n\
             [-]chain/ibc-0 failed: not configured\nreadyz check failed\n",
        );
    }

    #[test]
    fn unknown_checks_and_parameters_are_reported() {
        let lines = "[+]chains ok\n[+]state ok\n[+]confirmed ok\n\
                     [+]chain/ibc-0 ok\n[+]chain/ibc-1 ok\n";
        let excluded = "warn: some health checks cannot be excluded: no matches for";
        let unknown = "warn: unknown parameters:";
        check(
            &ready(),
            "/readyz?exclude=ibc-1&exclude=a%0Ab",
            200,
            &format!("{lines}{excluded} \"a\\nb\",\"ibc-1\"\nreadyz check passed\n"),
        );
        check(
            &ready(),
            "/readyz?exlude=state&%22=1",
            200,
            &format!(
                "{lines}{unknown} \"\\\"\",\"exlude\"; expected verbose, exclude, chain, max-backlog-age, max-backlog, min-balance\n\
                 readyz check passed\n"
            ),
        );
        check(
            &FakeHost::not_ready("wait"),
            "/readyz?Chain=ibc-1&exclude=chain/ibc-1",
            503,
            &format!(
                "[-]chains failed: not known: wait\n[-]state failed: not known: wait\n\
                 [+]confirmed ok\n{excluded} \"chain/ibc-1\"\n\
                 {unknown} \"Chain\"; expected verbose, exclude, chain, max-backlog-age, max-backlog, min-balance\nreadyz check failed\n"
            ),
        );
        check(
            &ready(),
            "/readyz/state?exclude=state",
            200,
            &format!("[+]state ok\n{unknown} \"exclude\"; expected verbose\nreadyz check passed\n"),
        );
        check(
            &ready(),
            "/livez?exclude=state&chain=a",
            200,
            &format!(
                "{excluded} \"state\"\n{unknown} \"chain\"; expected verbose, exclude\n\
                 livez check passed\n"
            ),
        );
    }

    #[test]
    fn each_check_can_be_requested_alone() {
        for (target, body) in [
            ("/readyz/chains", "ok"),
            ("/readyz/state", "ok"),
            ("/readyz/confirmed?verbose", "[+]confirmed ok\nreadyz check passed\n"),
            ("/readyz/chain/ibc-0", "ok"),
            ("/readyz/chain/ibc%2D0?verbose", "[+]chain/ibc-0 ok\nreadyz check passed\n"),
        ] {
            check(&half(), target, 200, body);
        }
        let lines = "[-]chain/ibc-1 failed: not connected\nreadyz check failed\n";
        check(&half(), "/readyz/chain/ibc-1", 503, lines);
        let unknown = FakeHost::not_ready("wait");
        for (target, line) in [
            ("/readyz/chains", "[-]chains failed: not known: wait\n"),
            ("/readyz/state", "[-]state failed: not known: wait\n"),
            ("/readyz/chain/ibc-0", "[-]chain/ibc-0 failed: the configured chains are not known\n"),
        ] {
            check(&unknown, target, 503, &format!("{line}readyz check failed\n"));
        }
    }

    #[test]
    fn a_chain_that_is_not_configured_is_not_found() {
        for (target, name) in [
            ("/readyz/chain/ibc-9", "ibc-9"),
            ("/readyz/chain/ibc-9?verbose", "ibc-9"),
            ("/readyz/chain/a%0A%5B+%5Db%20ok", r"a\n[+]b\u{20}ok"),
            ("/readyz/chain/%FF", "%FF"),
        ] {
            let body = format!("[-]chain/{name} failed: not configured\nreadyz check failed\n");
            check(&half(), target, 404, &body);
        }
    }

    #[test]
    fn names_cannot_add_lines() {
        let odd = "a\n[+]chain/b ok\r\u{202e}\\\"";
        let host = FakeHost::new().with_chain_config(chain(odd)).with_chain("ü/'");
        let name = r#"chain/a\n[+]chain/b\u{20}ok\r\u{202e}\\\""#;
        check(
            &host,
            "/readyz",
            503,
            &format!(
                "[+]chains ok\n[+]state ok\n[+]confirmed ok\n\
                 [-]{name} failed: not connected\n[+]chain/ü/' ok\nreadyz check failed\n"
            ),
        );
        check(&host, "/readyz?chain=%C3%BC/'", 200, "ok");
        check(&host, "/readyz/chain/%C3%BC%2F'", 200, "ok");
        let exclude = "/readyz?exclude=chain/a%0A[%2B]chain/b+ok%0D%E2%80%AE%5C%22";
        check(&host, exclude, 200, "ok");
    }

    #[test]
    fn the_root_lists_the_endpoints() {
        let response = get(&FakeHost::not_ready("wait"), "/");
        assert_eq!((response.status, response.text_body()), (200, INDEX));
        assert_eq!(response.headers, [("content-type", "text/plain; charset=utf-8".into())]);
    }

    #[test]
    fn other_paths_are_not_found() {
        let there_are = "/, /livez, /readyz, /readyz/chains, /readyz/state, /readyz/confirmed, \
                         /readyz/chain/:id";
        for path in ["/healthz", "/readyz/", "/readyz/ping", "/readyz/chain/", "/readyz/chain/a/b"]
        {
            let refused = get(&ready(), path);
            let msg = format!("nothing is served at {path}; there are {there_are}");
            assert_eq!((refused.status, refused.text_body()), (404, &*error("NotFound", &msg)));
        }
        for path in ["/livez", "/readyz", "/readyz/chain/ibc-9"] {
            let refused = handle(&ready(), &Request::new("POST", path));
            let msg = format!("POST is not allowed on {path}; GET and HEAD are");
            let error = error("MethodNotAllowed", &msg);
            assert_eq!((refused.status, refused.text_body()), (405, &*error));
            assert_eq!(refused.header("allow"), Some("GET, HEAD"));
        }
    }

    fn error(name: &str, msg: &str) -> String {
        format!(r#"{{"status":"error","result":{{"name":"{name}","msg":"{msg}"}}}}"#)
    }
}
