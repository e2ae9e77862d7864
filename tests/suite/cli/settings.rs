//! Do options override the environment, the environment the file, and the file the defaults;
//! and is the origin of each value shown?

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;

use relayer_rest_tests::certificates::Authority;
use relayer_rest_tests::folder::Folder;
use relayer_rest_tests::program::{Ended, Program};
use serde_json::{Value, json};

use super::admin::Admin;
use super::check_failure;

/// The settings that a command shows, with their origins.
struct Shown(BTreeMap<String, (Value, String)>);

impl Shown {
    fn new(settings: &Value) -> Self {
        let settings = settings["settings"].as_array().unwrap().iter();
        Self(
            settings
                .map(|setting| {
                    let text = |name: &str| setting[name].as_str().unwrap().to_owned();
                    (text("key"), (setting["value"].clone(), text("origin")))
                })
                .collect(),
        )
    }

    /// Runs `config show --effective` with these arguments.
    async fn by(program: Program) -> Self {
        let ended = program.args(["--effective", "--json"]).run().await;
        assert_eq!(ended.status, Some(0), "{ended:?}");
        Self::new(&serde_json::from_str(&ended.stdout).unwrap())
    }

    fn get(&self, key: &str) -> (&Value, &str) {
        let (value, origin) = &self.0[key];
        (value, origin)
    }
}

/// Returns `config show` without the variables of the harness.
fn show() -> Program {
    let unset = ["RELAYER_REST_CONTROL", "RELAYER_REST_CODE_CACHE"];
    unset.iter().fold(Program::new(["config", "show"]), |program, name| program.env(*name, ""))
}

/// Returns the variable of a setting.
fn variable(key: &str) -> String {
    format!("RELAYER_REST_{}", key.replace(['.', '-'], "_").to_uppercase())
}

#[tokio::test]
async fn options_override_the_environment_which_overrides_the_file() {
    let files = Folder::new();
    let file = files.write("c.toml", "[upstream]\npoll = '2s'\n\n[server]\ngrace = '2s'\n");
    let below = async |program: Program| {
        let shown = Shown::by(program).await;
        let (value, origin) = shown.get("upstream.poll");
        (value.as_str().unwrap().to_owned(), origin.to_owned())
    };
    let value = |value: &str, origin: &str| (value.to_owned(), origin.to_owned());
    let program = show;
    assert_eq!(below(program()).await, value("1s", "default"));
    let program = || show().args(["--config", &file]);
    assert_eq!(below(program()).await, value("2s", &format!("{file}:2")));
    let program = || show().args(["--config", &file]).env("RELAYER_REST_UPSTREAM_POLL", "3s");
    assert_eq!(below(program()).await, value("3s", "RELAYER_REST_UPSTREAM_POLL"));
    assert_eq!(below(program().args(["--poll", "4s"])).await, value("4s", "--poll"));
    // Other values stay, and an empty variable counts as unset.
    let shown = Shown::by(program().env("RELAYER_REST_SERVER_GRACE", "")).await;
    assert_eq!(shown.get("server.grace"), (&json!("2s"), &*format!("{file}:5")));
    // The file can be named by a variable, which the option overrides.
    let other = files.write("d.toml", "[upstream]\npoll = '5s'\n");
    let program = || show().env("RELAYER_REST_CONFIG", &other);
    assert_eq!(below(program()).await, value("5s", &format!("{other}:2")));
    assert_eq!(below(program().args(["--config", &file])).await.0, "2s");
}

#[tokio::test]
async fn a_server_has_the_values_of_all_layers() {
    let files = Folder::new();
    let file = files.write(
        "c.toml",
        "listen = '127.0.0.1:1'\n[admin]\nlisten = '127.0.0.1:0'\n[log]\nformat = 'json'\nlevel = 'warn,relayer_rest_server=info'\n[[extension]]\nname = 'health'\n",
    );
    let relayer = files.write("hermes.toml", "[rest]\nenabled = true\nport = 5\n");
    let program = Program::new(["--config", &file, "--module", "/nowhere", "--listen"]);
    let program = program.args(["127.0.0.1:0", "--log-format", "text", "--no-code-cache"]);
    // An option overrides the address in the file and in the variable.
    let program = program.env("RELAYER_REST_LISTEN", "127.0.0.1:2");
    let program = program.env("RELAYER_REST_RELAYER_CONFIG", &relayer);
    let ended = program.run().await;
    check_failure(&ended, 2, "mount /: module /nowhere: cannot be read: ");
    let program = Program::new(["--config", &file, "--log-format", "text"]);
    let program = program.env("RELAYER_REST_LISTEN", "127.0.0.1:0");
    let program = program.env("RELAYER_REST_HTTP_HEAD", "9KiB");
    let program = program.env("RELAYER_REST_RELAYER_CONFIG", &relayer);
    let mut serving = program.start().await;
    let admin = Admin::of(&mut serving).await;
    let config = async || {
        let (status, body) = admin.get("/config").await;
        assert_eq!(status, 200);
        Shown::new(&serde_json::from_str(&body).unwrap())
    };
    let shown = config().await;
    for (key, value, origin) in [
        ("listen[0].address", json!("127.0.0.1:0"), "RELAYER_REST_LISTEN"),
        ("http.head", json!("9KiB"), "RELAYER_REST_HTTP_HEAD"),
        ("relayer.config", json!(relayer), "RELAYER_REST_RELAYER_CONFIG"),
        ("log.format", json!("text"), "--log-format"),
        ("log.level", json!("warn,relayer_rest_server=info"), &format!("{file}:6")),
        ("extension[0].name", json!("health"), &format!("{file}:8")),
        ("http.idle", json!("10s"), "default"),
    ] {
        assert_eq!(shown.get(key), (&value, origin), "{key}");
    }
    assert_eq!(admin.get("/log-level").await.1.trim(), "relayer_rest_server=info,warn");

    // A reload applies the modules; the rest takes effect at the next start.
    files.write("c.toml", "[http]\nidle = '3s'\n[swap]\ntime = '3s'\n");
    let reload = Program::new(["reload"]).socket(&serving.socket).run().await;
    assert_eq!(reload.status, Some(0), "{reload:?}");
    for section in ["admin", "http", "log"] {
        let note = format!("[{section}] has changed; restart to apply it");
        assert!(reload.stdout.contains(&note), "{reload:?}");
    }
    // Its value is that of a variable.
    assert!(!reload.stdout.contains("[listen]"), "{reload:?}");
    let shown = config().await;
    assert_eq!(shown.get("swap.time"), (&json!("3s"), &*format!("{file}:4")));
    assert_eq!(shown.get("http.idle"), (&json!("10s"), "default"));
    assert_eq!(shown.get("extension"), (&json!([]), "default"));
    serving.stop().await;
}

/// Each key of the file has a variable, and the output is a file with the same values.
#[tokio::test]
async fn each_setting_can_be_a_variable() {
    let files = Folder::new();
    let defaults = Shown::by(show()).await;
    let mut program = show();
    let mut wanted = Vec::new();
    for (key, (default, _)) in &defaults.0 {
        let value = match default {
            Value::Bool(value) => json!(!value),
            // The others are texts, lists, or paths.
            Value::Number(_) => json!(1),
            Value::String(_) => default.clone(),
            _ => match &**key {
                // It must name a file.
                "relayer.config" => continue,
                "listen" => json!("h:1"),
                "cors.origins" => json!(["https://a.example"]),
                "http.hosts" => json!(["a"]),
                "http.trusted-proxies" => json!(["10.0.0.0/8"]),
                "module.headers" => json!(["nel"]),
                "registries.insecure" => json!(["a:1"]),
                "module.request-headers" => json!(["accept"]),
                "module.sha256" => json!("0a".repeat(32)),
                "module.dialect" => json!("1.13"),
                "capsules.redact" => json!(["x-a"]),
                "extension" => json!([]),
                "upstream.url" | "telemetry.url" => json!("http://h/metrics"),
                "admin.listen" => json!("127.0.0.1:1"),
                "fleet.from" | "fleet.publish-to" => json!("nats://h/f"),
                _ => json!("text"),
            },
        };
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        program = program.env(variable(key), text);
        wanted.push((key, value));
    }
    assert!(wanted.len() > 50, "{wanted:?}");
    let shown = Shown::by(program).await;
    for (key, value) in wanted {
        let (shown, origin) = match &**key {
            "listen" => shown.get("listen[0].address"),
            key => shown.get(key),
        };
        assert_eq!((shown, origin), (&value, &*variable(key)), "{key}");
    }

    let content = "[upstream]\nurl = 'http://h'\nmax-stale = '90s'\n[http]\nunsent = '1500MiB'\nhosts = ['[::1]:2', 'a']\n[admin]\nlisten = 'unix:a'\n[[extension]]\nname = 'health'\n[extension.limits]\nqueue = 3\n[[extension]]\nname = 'metrics'\ngrants = ['state']\nheaders = ['nel']\n";
    let file = files.write("c.toml", content);
    let first = show().args(["--config", &file, "--effective", "--listen", "h:1"]).run().await;
    let copy = files.write("copy.toml", &first.stdout);
    let values = |shown: Shown| shown.0.into_iter().map(|(key, (value, _))| (key, value));
    let before = Shown::by(show().args(["--config", &file, "--listen", "h:1"])).await;
    let after = Shown::by(show().args(["--config", &copy])).await;
    let [before, after] = [before, after].map(|shown| values(shown).collect::<BTreeMap<_, _>>());
    assert_eq!(before, after, "{}", first.stdout);
}

#[tokio::test]
async fn the_origin_of_each_option_is_shown() {
    let files = Folder::new();
    let relayer =
        files.write("hermes.toml", "[rest]\nenabled = true\nhost = 'h'\nport = 5\n[telemetry]\nenabled = true\nhost = '127.0.0.1'\nport = 6\n");
    let values = [
        ("--relayer-config", "relayer.config", json!(relayer)),
        ("--upstream", "upstream.url", json!("http://h/")),
        ("--state", "relayer.state", json!("s")),
        ("--telemetry", "telemetry.url", json!("none")),
        ("--telemetry-poll", "telemetry.poll", json!("7s")),
        ("--poll", "upstream.poll", json!("7s")),
        ("--upstream-timeout", "upstream.timeout", json!("7s")),
        ("--max-stale", "upstream.max-stale", json!("7s")),
        ("--from", "fleet.from", json!("nats://h/f")),
        ("--listen", "listen[0].address", json!("h:7")),
        ("--module", "module.file", json!("m")),
        ("--dialect", "module.dialect", json!("1.13")),
        ("--drain", "server.drain", json!("7s")),
        ("--grace", "server.grace", json!("7s")),
        ("--log-format", "log.format", json!("json")),
        ("--code-cache", "code-cache", json!("c")),
        ("--capsules", "capsules.folder", json!("d")),
        ("--control", "control", json!("c")),
    ];
    let given = values
        .iter()
        .flat_map(|(option, _, value)| [(*option).to_owned(), value.as_str().unwrap().to_owned()]);
    let flags =
        [("--enable", "relayer.enable", json!(true)), ("--watch", "server.watch", json!(true))];
    let off = [("--no-code-cache", "code-cache"), ("--no-control", "control")];
    let shown = Shown::by(show().args(given).args(flags.iter().map(|(option, ..)| option))).await;
    for (option, key, value) in values.iter().chain(&flags) {
        assert_eq!(shown.get(key), (value, *option), "{key}");
    }
    let shown = Shown::by(show().args(off.map(|(option, _)| option))).await;
    for (option, key) in off {
        assert_eq!(shown.get(key), (&json!("none"), option));
    }
    // No option is left out here.
    let help = Program::new(["config", "show", "--help"]).run().await.stdout;
    let own = ["--config", "--effective", "--json"];
    let listed = values.iter().chain(&flags).map(|(option, ..)| *option);
    let mut listed: Vec<_> = listed.chain(off.map(|(option, _)| option)).chain(own).collect();
    let words = help.lines().filter_map(|line| line.trim_start().split([' ', ',']).next());
    let mut known: Vec<_> = words.filter(|word| word.starts_with("--")).collect();
    listed.sort_unstable();
    known.sort_unstable();
    known.dedup();
    assert_eq!(known, listed);

    // Without options, the relayer's file has the address and the telemetry.
    let shown = Shown::by(show().args(["--relayer-config", &relayer])).await;
    assert_eq!(shown.get("listen"), (&json!(["h:5"]), &*format!("{relayer} [rest]")));
    let origin = format!("{relayer} [telemetry]");
    assert_eq!(shown.get("telemetry.url"), (&json!("http://127.0.0.1:6/metrics"), &*origin));
}

#[tokio::test]
async fn only_given_values_are_shown_by_default() {
    let files = Folder::new();
    let file = files.write("c.toml", "[http]\nidle = '3s'\n[[extension]]\nname = 'health'\n");
    let program = show().args(["--config", &file, "--listen", "127.0.0.1:1", "--watch"]);
    let program = program.env("RELAYER_REST_CORS_ORIGINS", "[\"https://a.example\"]");
    let ended = program.run().await;
    let lines: Vec<_> = ended.stdout.lines().filter(|line| !line.is_empty()).collect();
    assert_eq!(
        lines,
        [
            "[[listen]]",
            "address = \"127.0.0.1:1\"  # --listen",
            "[[extension]]",
            &format!("name = \"health\"  # {file}:4"),
            "[server]",
            "watch = true  # --watch",
            "[http]",
            &format!("idle = \"3s\"  # {file}:2"),
            "[cors]",
            "origins = [\"https://a.example\"]  # RELAYER_REST_CORS_ORIGINS",
        ]
    );
}

#[tokio::test]
async fn an_invalid_value_names_its_origin() {
    for (name, value, message) in [
        ("HTTP_CONNECTIONS", "0", "0 is out of range; expected 1 to 1000000"),
        ("HTTP_CONNECTIONS", "many", "invalid type: string \"many\", expected u32"),
        ("HTTP_IDLE", "3", "'3' is not a duration "),
        ("MODULE_LIMITS_MEMORY", "1 GB of it", "'1 GB of it' is not a size "),
        ("CORS_ORIGINS", "[\"a\"]", "\"a\" is not an origin; "),
        ("CORS_ORIGINS", "a", "expected a list, not a string; write [\"a\"]"),
        ("MODULE_DIALECT", "2", "unknown dialect \"2\""),
        ("LOG_LEVEL", "loud", "\"loud\" is not a level; expected a level, such as info"),
    ] {
        let name = format!("RELAYER_REST_{name}");
        let ended = Program::server().env(&name, value).run().await;
        check_failure(&ended, 2, &format!("{name}: {message}"));
    }
    // The value of a URL may have a password.
    let url = "https://user:secret@h";
    let ended = show().env("RELAYER_REST_UPSTREAM_URL", url).run().await;
    assert_eq!(ended.status, Some(2));
    assert!(ended.stderr.contains("RELAYER_REST_UPSTREAM_URL: "), "{}", ended.stderr);
    assert!(!ended.stderr.contains("secret"), "{}", ended.stderr);
    // Others are not hidden by a value above them.
    let files = Folder::new();
    let file = files.write("c.toml", "[http]\nidle = 3\n");
    let ended = show().args(["--config", &file]).env("RELAYER_REST_HTTP_IDLE", "3s").run().await;
    check_failure(&ended, 2, &format!("configuration {file}: line 2, column 8: http.idle: "));
}

/// The default file has the list, and the documentation has sections.
#[tokio::test]
async fn a_list_of_extensions_beside_sections_is_explained() {
    let files = Folder::new();
    for (text, position) in [
        (
            "extension = [{ name = 'health' }]\n[[extension]]\nname = 'metrics'\n",
            "line 2, column 3",
        ),
        (
            "extension = [{ name = 'health' }]\n[http]\n[[extension]]\nname = 'metrics'\n",
            "line 3, column 3",
        ),
    ] {
        let file = files.write("c.toml", text);
        let ended = Program::new(["config", "check", &file]).run().await;
        let message = format!(
            "configuration {file}: {position}: duplicate key: extension has a value above; write all of them as [[extension]], or all in the value"
        );
        check_failure(&ended, 2, &message);
    }
}

#[tokio::test]
async fn files_that_settings_name_are_checked() {
    let files = Folder::new();
    let tls = "[[listen]]\naddress = '127.0.0.1:0'\n[[listen.tls]]\ncertificate = 'own.pem'\nkey = 'own.key'\n";
    let file = files.write("c.toml", format!("[admin]\ntoken-file = 'tokens'\n{tls}"));
    let check = async || Program::new(["config", "check", &file]).run().await;
    let ended = check().await;
    assert_eq!(ended.status, Some(1), "{ended:?}");
    for part in ["FAILED  admin.token-file: ", "FAILED  listen 127.0.0.1:0: tls: "] {
        assert!(ended.stdout.contains(part), "{}", ended.stdout);
    }
    let issued = Authority::new().issue("localhost");
    issued.write(&files, "own");
    let tokens = files.write("tokens", "ops 0123456789abcdef\n");
    fs::set_permissions(tokens, fs::Permissions::from_mode(0o600)).unwrap();
    let ended = check().await;
    assert_eq!(ended.status, Some(0), "{ended:?}");
    // A key of another certificate.
    let other = Authority::new().issue("localhost");
    files.replace("own.key", &other.key);
    assert!(check().await.stdout.contains("FAILED  listen 127.0.0.1:0: tls: "));
}

#[tokio::test]
async fn passwords_are_not_shown() {
    let url = "http://user:secret@127.0.0.1:1/";
    let program = || show().args(["--upstream", url, "--telemetry", url]);
    for ended in [program().run().await, program().args(["--json"]).run().await] {
        let Ended { status, stdout, .. } = ended;
        assert_eq!(status, Some(0));
        assert!(!stdout.contains("secret") && stdout.contains("127.0.0.1:1"), "{stdout}");
    }
}

#[tokio::test]
async fn an_unknown_variable_is_logged_with_the_one_that_was_meant() {
    let program = Program::server().env("RELAYER_REST_HTTP_CONNECTION", "1");
    // A service of this name in Kubernetes.
    let program = program.env("RELAYER_REST_PORT", "tcp://10.0.0.1:80");
    let program = program.env("RELAYER_REST_PORT_80_TCP_ADDR", "10.0.0.1");
    let program = program.env("RELAYER_REST_SERVICE_HOST", "10.0.0.1");
    let log = program.start().await.stop().await.stderr;
    let lines: Vec<_> = log.lines().filter(|line| line.contains("unknown variable")).collect();
    let [line] = &lines[..] else { panic!("{log}") };
    assert!(line.contains("name=\"RELAYER_REST_HTTP_CONNECTION\""), "{line}");
    assert!(line.contains("meant=\"RELAYER_REST_HTTP_CONNECTIONS\""), "{line}");
}

/// A digest in the file is that of the module in the file.
#[tokio::test]
async fn a_module_above_the_file_needs_not_have_the_digest_in_it() {
    let files = Folder::new();
    let module = files.path("m.wasm");
    let written = Program::new(["module", &module]).run().await;
    assert_eq!(written.status, Some(0), "{written:?}");
    let digest = "0a".repeat(32);
    let file = files.write("c.toml", format!("[module]\nfile = 'm.wasm'\nsha256 = '{digest}'\n"));
    let program = || Program::server().args(["--config", &file]);
    let ended = program().run().await;
    assert_eq!(ended.status, Some(2), "{ended:?}");
    program().args(["--module", &module]).start().await.stop().await;
    let ended = program()
        .env("RELAYER_REST_MODULE_FILE", &module)
        .env("RELAYER_REST_MODULE_SHA256", &digest)
        .run()
        .await;
    assert_eq!(ended.status, Some(2), "{ended:?}");
}
