//! Where a request goes.

use crate::answer::Answer;
use crate::dialect::Dialect;
use crate::relayer::Relayer;
use crate::routes;

/// The routes. `:name` stands for one segment of the path, which the route is
/// given as the client wrote it.
const ROUTES: [Route; 4] = [
    Route { path: "/version", get: |dialect, relayer, _| routes::version(dialect, relayer) },
    Route { path: "/chains", get: |_, relayer, _| routes::chains(relayer) },
    Route { path: "/chain/:id", get: routes::chain },
    Route { path: "/state", get: |dialect, relayer, _| routes::state(dialect, relayer) },
];

/// A path and what answers a GET of it.
struct Route {
    path: &'static str,
    get: fn(Dialect, &dyn Relayer, &str) -> Answer,
}

/// Answers a request. The host sends HEAD as GET and leaves the body out.
#[must_use]
pub fn handle(dialect: Dialect, relayer: &dyn Relayer, method: &str, path: &str) -> Answer {
    match ROUTES.iter().find_map(|route| Some((route, route.matches(path)?))) {
        None => Answer::not_found(dialect, path, &ROUTES.map(|route| route.path).join(", ")),
        Some((route, segment)) if method == "GET" => (route.get)(dialect, relayer, segment),
        Some(_) => Answer::method_not_allowed(dialect, method, path),
    }
}

impl Route {
    /// The segment that stands for the route's `:name`, empty where it has
    /// none; nothing where the path is another.
    fn matches<'a>(&self, path: &'a str) -> Option<&'a str> {
        match self.path.split_once(':') {
            None => (path == self.path).then_some(""),
            Some((prefix, _)) => path
                .strip_prefix(prefix)
                .filter(|segment| !segment.is_empty() && !segment.contains('/')),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::handle;
    use crate::answer::Answer;
    use crate::dialect::Dialect;
    use crate::relayer::fake::{FakeRelayer, bare_chain};

    fn get(path: &str) -> Answer {
        ask("GET", path)
    }

    fn ask(method: &str, path: &str) -> Answer {
        ask_in(Dialect::V0_7, method, path)
    }

    fn ask_in(dialect: Dialect, method: &str, path: &str) -> Answer {
        let chains = ["ibc-0", "a/b", "ü"].map(bare_chain).to_vec();
        handle(dialect, &FakeRelayer { chains, ..FakeRelayer::default() }, method, path)
    }

    #[test]
    fn today_an_unknown_chain_is_an_error_of_status_200() {
        check_error(
            &ask_in(Dialect::V1_13, "GET", "/chain/foo"),
            200,
            "ChainConfigNotFound",
            "could not find configuration for chain: foo",
        );
    }

    #[test]
    fn today_what_http_refuses_has_no_body() {
        let unknown = ask_in(Dialect::V1_13, "GET", "/nothing");
        assert_eq!((unknown.status, unknown.headers, unknown.body), (404, vec![], vec![]));
        let refused = ask_in(Dialect::V1_13, "POST", "/chains");
        let allow = vec![("allow", "GET,HEAD".to_owned())];
        assert_eq!((refused.status, refused.headers, refused.body), (405, allow, vec![]));
    }

    #[track_caller]
    fn check_error(answer: &Answer, status: u16, name: &str, msg: &str) {
        let expected = serde_json::json!({"status": "error", "result": {"name": name, "msg": msg}});
        assert_eq!(answer.status, status);
        assert_eq!(serde_json::from_slice::<serde_json::Value>(&answer.body).unwrap(), expected);
    }

    #[test]
    fn identifiers_are_percent_decoded() {
        for path in ["/chain/ibc-0", "/chain/ibc%2D0", "/chain/a%2Fb", "/chain/%C3%BC"] {
            assert_eq!(get(path).status, 200, "{path}");
        }
        check_error(
            &get("/chain/ibc%2D9"),
            404,
            "ChainConfigNotFound",
            "could not find configuration for chain: ibc-9",
        );
    }

    #[test]
    fn an_identifier_that_is_not_utf8_is_refused() {
        check_error(
            &get("/chain/%FF"),
            400,
            "InvalidChainId",
            "the chain identifier '%FF' is not UTF-8 when percent-decoded",
        );
    }

    #[test]
    fn a_percent_sign_that_encodes_nothing_stands_for_itself() {
        check_error(
            &get("/chain/100%"),
            404,
            "ChainConfigNotFound",
            "could not find configuration for chain: 100%",
        );
    }

    #[test]
    fn unknown_paths_say_which_are_known() {
        for path in ["/", "", "/chain", "/chain/", "/chains/", "/chain/a/b", "/Version", "//chains"]
        {
            let msg = format!(
                "nothing is served at {path}; there are /version, /chains, /chain/:id, /state"
            );
            check_error(&get(path), 404, "NotFound", &msg);
        }
    }

    #[test]
    fn other_methods_are_refused_on_known_paths_only() {
        let answer = ask("POST", "/chain/ibc-0");
        check_error(
            &answer,
            405,
            "MethodNotAllowed",
            "POST is not allowed on /chain/ibc-0; GET and HEAD are",
        );
        assert!(answer.headers.contains(&("allow", "GET, HEAD".to_owned())));
        assert_eq!(ask("POST", "/nothing").status, 404);
    }

    #[test]
    fn every_answer_is_json() {
        for path in ["/chains", "/chain/%FF", "/nothing"] {
            let answer = get(path);
            assert_eq!(answer.headers[0], ("content-type", "application/json".to_owned()));
            serde_json::from_slice::<serde_json::Value>(&answer.body).unwrap();
        }
    }
}
