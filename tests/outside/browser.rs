//! A browser: headless Chromium, driven by `chromedriver` over the `WebDriver` protocol.
//!
//! Both are taken from the path, or from `CHROMIUM` and `CHROMEDRIVER`.

use std::env;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

/// The maximum time until a condition of a script holds, or the driver has started.
const PATIENCE: Duration = Duration::from_mins(2);

/// The arguments for Chromium: no requests of its own, and no host but this machine.
const ARGUMENTS: [&str; 10] = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
];

/// The `WebDriver` codes of keys.
pub(crate) const TAB: &str = "\u{e004}";
pub(crate) const ENTER: &str = "\u{e007}";
pub(crate) const ESCAPE: &str = "\u{e00c}";
pub(crate) const RIGHT: &str = "\u{e014}";
pub(crate) const DOWN: &str = "\u{e015}";

/// The screen that the page is shown on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Screen {
    Desktop,
    Tablet,
    Phone,
}

/// A browser with one page, which runs until it is dropped.
pub(crate) struct Browser {
    driver: SocketAddr,
    session: String,
    _process: Child,
    _profile: TempDir,
}

impl Screen {
    pub(crate) fn size(self) -> (u32, u32) {
        match self {
            Self::Desktop => (1280, 800),
            Self::Tablet => (768, 1024),
            Self::Phone => (390, 844),
        }
    }
}

/// Reads the port of a chromedriver; `None` if it ends before.
async fn port(lines: &mut Lines<BufReader<ChildStdout>>) -> Option<u16> {
    loop {
        let line = lines.next_line().await.unwrap()?;
        let port =
            line.rsplit_once("successfully on port ").map(|(_, port)| port.trim_end_matches('.'));
        if let Some(port) = port.and_then(|port| port.parse().ok()) {
            return Some(port);
        }
    }
}

impl Browser {
    pub(crate) async fn start() -> Self {
        let program = |variable, name: &str| env::var_os(variable).unwrap_or_else(|| name.into());
        let mut attempts = 0..10;
        let (process, mut lines, port) = loop {
            // It ends if another one has taken the same port of the other version of IP.
            attempts.next().expect("chromedriver says its port");
            let mut process = Command::new(program("CHROMEDRIVER", "chromedriver"))
                .arg("--port=0")
                .stdout(Stdio::piped())
                .stderr(Stdio::null())
                .kill_on_drop(true)
                .spawn()
                .expect("chromedriver starts");
            let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
            if let Some(port) = port(&mut lines).await {
                break (process, lines, port);
            }
        };
        // Further output is drained.
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        let profile = tempfile::tempdir().unwrap();
        let mut arguments = ARGUMENTS.map(str::to_owned).to_vec();
        arguments.push(format!("--user-data-dir={}", profile.path().display()));
        let mut options = json!({"args": arguments});
        if let Some(binary) = env::var_os("CHROMIUM") {
            options["binary"] = json!(binary.to_str());
        }
        let wanted = json!({
            "browserName": "chrome",
            "goog:chromeOptions": options,
            "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"},
        });
        let mut browser = Self {
            driver: SocketAddr::from(([127, 0, 0, 1], port)),
            session: String::new(),
            _process: process,
            _profile: profile,
        };
        let wanted = json!({"capabilities": {"alwaysMatch": wanted}});
        let response = browser.call("POST", "/session", &wanted).await;
        browser.session = response["sessionId"].as_str().unwrap().to_owned();
        // Its initial page's requests do not count.
        browser.command("/url", &json!({"url": "about:blank"})).await;
        browser.requested_addresses().await;
        browser
    }

    /// Opens an address.
    pub(crate) async fn visit(&self, address: &str) {
        // A change of the fragment alone would not load the page.
        self.command("/url", &json!({"url": "about:blank"})).await;
        self.command("/url", &json!({"url": address})).await;
    }

    /// Opens an address, and waits until the page has its data.
    pub(crate) async fn open(&self, address: &str) {
        self.visit(address).await;
        self.wait("return document.body.classList.contains('ready')").await;
    }

    /// Runs a script and returns its result.
    pub(crate) async fn run(&self, script: &str) -> Value {
        self.command("/execute/sync", &json!({"script": script, "args": []})).await
    }

    /// Runs a script that returns a text.
    pub(crate) async fn text(&self, script: &str) -> String {
        let value = self.run(script).await;
        value.as_str().unwrap_or_else(|| panic!("{script}: {value}")).to_owned()
    }

    /// Runs a script that returns a number.
    pub(crate) async fn count(&self, script: &str) -> u64 {
        let value = self.run(script).await;
        value.as_u64().unwrap_or_else(|| panic!("{script}: {value}"))
    }

    /// Runs a script until it returns true.
    pub(crate) async fn wait(&self, script: &str) {
        let start = Instant::now();
        while self.run(script).await != true {
            if start.elapsed() > PATIENCE {
                let page = self.text("return document.body.innerText").await;
                panic!("never: {script}; {:?}\n{page}", self.complaints().await);
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Clicks on an element, as a pointer would.
    pub(crate) async fn click(&self, selector: &str) {
        let element = self.find(selector).await;
        self.command(&format!("/element/{element}/click"), &json!({})).await;
    }

    /// Types a text into an element.
    pub(crate) async fn type_into(&self, selector: &str, text: &str) {
        let element = self.find(selector).await;
        self.command(&format!("/element/{element}/value"), &json!({"text": text})).await;
    }

    /// Presses keys, for the focused element.
    pub(crate) async fn press(&self, keys: &[&str]) {
        let each = |key: &&str| {
            [json!({"type": "keyDown", "value": key}), json!({"type": "keyUp", "value": key})]
        };
        let steps: Vec<Value> = keys.iter().flat_map(each).collect();
        let actions = json!({"actions": [{"type": "key", "id": "keys", "actions": steps}]});
        self.command("/actions", &actions).await;
    }

    /// Sets the screen and the color scheme.
    pub(crate) async fn look(&self, screen: Screen, scheme: &str) {
        let (width, height) = screen.size();
        let mobile = screen == Screen::Phone;
        let metrics =
            json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": mobile});
        self.chromium("Emulation.setDeviceMetricsOverride", &metrics).await;
        let features = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
        self.chromium("Emulation.setEmulatedMedia", &features).await;
        // The layout is updated a frame later.
        self.run("return new Promise(done => requestAnimationFrame(() => setTimeout(() => done(1), 50)))").await;
    }

    /// Saves a screenshot to the folder that `SCREENSHOTS` names, if it is set.
    pub(crate) async fn picture(&self, name: &str) {
        let Some(folder) = env::var_os("SCREENSHOTS").map(PathBuf::from) else { return };
        let picture = self.chromium("Page.captureScreenshot", &json!({"format": "png"})).await;
        let bytes = BASE64_STANDARD.decode(picture["data"].as_str().unwrap()).unwrap();
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join(name).with_extension("png"), bytes).unwrap();
    }

    /// Returns Chromium's log entries since the last call: script errors, policy
    /// violations, error responses.
    pub(crate) async fn complaints(&self) -> Vec<String> {
        let entries = self.log("browser").await;
        entries.iter().map(|entry| entry["message"].as_str().unwrap().to_owned()).collect()
    }

    /// Returns the addresses that were requested since the last call.
    pub(crate) async fn requested_addresses(&self) -> Vec<String> {
        let entries = self.log("performance").await;
        let events = entries.iter().map(|entry| {
            let event: Value = serde_json::from_str(entry["message"].as_str().unwrap()).unwrap();
            event["message"].clone()
        });
        let requests = events.filter(|event| event["method"] == "Network.requestWillBeSent");
        let address = |event: Value| event["params"]["request"]["url"].as_str().unwrap().to_owned();
        requests.map(address).collect()
    }

    async fn log(&self, name: &str) -> Vec<Value> {
        self.command("/se/log", &json!({"type": name})).await.as_array().unwrap().clone()
    }

    async fn find(&self, selector: &str) -> String {
        let wanted = json!({"using": "css selector", "value": selector});
        let found = self.command("/element", &wanted).await;
        found.as_object().unwrap().values().next().unwrap().as_str().unwrap().to_owned()
    }

    /// Sends a command of Chromium's own protocol, which `WebDriver` lacks.
    async fn chromium(&self, command: &str, parameters: &Value) -> Value {
        self.command("/goog/cdp/execute", &json!({"cmd": command, "params": parameters})).await
    }

    async fn command(&self, path: &str, body: &Value) -> Value {
        self.call("POST", &format!("/session/{}{path}", self.session), body).await
    }

    async fn call(&self, method: &str, path: &str, body: &Value) -> Value {
        let stream = tokio::net::TcpStream::connect(self.driver).await.unwrap();
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", self.driver.to_string())
            .header("content-type", "application/json")
            .body(Full::new(Bytes::from(body.to_string())))
            .unwrap();
        let response = sender.send_request(request).await.unwrap();
        let status = response.status();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        let mut response: Value = serde_json::from_slice(&body).unwrap();
        assert!(status.is_success(), "{path}: {response}");
        response["value"].take()
    }
}

/// Ends the session, since Chromium would outlive its driver.
impl Drop for Browser {
    fn drop(&mut self) {
        let Ok(mut stream) = TcpStream::connect(self.driver) else { return };
        let request = format!(
            "DELETE /session/{} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n\r\n",
            self.session, self.driver
        );
        let sent = stream
            .set_read_timeout(Some(Duration::from_secs(5)))
            .and_then(|()| stream.write_all(request.as_bytes()));
        // The first byte of the response means that the session has ended.
        let _ = sent.and_then(|()| stream.read(&mut [0]));
    }
}
