//! Do `nginx` and `haproxy` with their default settings forward the responses to clients that
//! wait for a change?

use std::fs;
use std::net::SocketAddr;
use std::time::Duration;

use relayer_rest_host::state::{Object, StatePublisher, Worker};
use relayer_rest_tests::client::Client;
use relayer_rest_tests::events::Events;
use relayer_rest_tests::folder::Folder;
use relayer_rest_tests::server::TestServer;
use relayer_rest_tests::wait::{until, until_async, within};
use tokio::process::{Child, Command};
use tokio::time::sleep;

use super::free_address;

/// Starts nginx with the configuration of its package and this line for its one location, and
/// returns its address. Only its paths differ, so that any user can start it.
async fn nginx(files: &Folder, server: SocketAddr, line: &str) -> (Child, SocketAddr) {
    let address = free_address();
    let folder = files.as_path().display();
    let site = format!(
        "client_body_temp_path {folder}/body;
        proxy_temp_path {folder}/proxy;
        fastcgi_temp_path {folder}/fastcgi;
        uwsgi_temp_path {folder}/uwsgi;
        scgi_temp_path {folder}/scgi;
        server {{
            listen {address};
            location / {{
                proxy_pass http://{server};
                {line}
            }}
        }}"
    );
    let mut http = settings("/etc/nginx/nginx.conf", "http {");
    for (own, other) in [
        ("access_log /var/log/nginx/access.log;", "access_log off;"),
        ("include /etc/nginx/conf.d/*.conf;", ""),
        ("include /etc/nginx/sites-enabled/*;", &site),
    ] {
        assert!(http.contains(own), "{http}");
        http = http.replace(own, other);
    }
    let config = format!("daemon off; master_process off; pid {folder}/pid; events {{}}\n{http}");
    let config = files.write("nginx.conf", config);
    let prefix = files.as_path().to_str().unwrap();
    start("nginx", &["-p", prefix, "-e", "stderr", "-c", &config], address).await
}

/// Starts haproxy with the defaults of the configuration of its package and this line, and returns
/// its address.
async fn haproxy(files: &Folder, server: SocketAddr, line: &str) -> (Child, SocketAddr) {
    let address = free_address();
    let defaults = settings("/etc/haproxy/haproxy.cfg", "defaults\n");
    let config = files.write(
        "haproxy.cfg",
        format!(
            "{defaults}\n {line}\nfrontend clients\n bind {address}\n default_backend servers\n\
             backend servers\n server one {server}\n"
        ),
    );
    start("haproxy", &["-db", "-f", &config], address).await
}

/// Returns the configuration of a package from this section on.
fn settings(path: &str, section: &str) -> String {
    let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let (_, settings) = text.split_once(&format!("\n{section}")).unwrap();
    format!("{section}{settings}")
}

async fn start(program: &str, args: &[&str], address: SocketAddr) -> (Child, SocketAddr) {
    let child = Command::new(program).args(args).kill_on_drop(true).spawn().unwrap();
    let connects = async || Client::try_http1(address).await.is_ok();
    until_async("the proxy listens", connects).await;
    (child, address)
}

/// Adds a worker with this id to the state.
fn add_worker(publisher: &StatePublisher, id: u64) {
    let object = Object::Wallet { chain_id: "ibc-0".into() };
    publisher.update_state(|state| state.workers.push(Worker { id, object, data: None }));
}

/// Checks all kinds of waiting clients through a proxy at this address.
async fn check(server: &TestServer, proxy: SocketAddr) {
    // Patches are for bodies that are much longer.
    (0..100).for_each(|id| add_worker(&server.publisher, 1_000 + id));
    let mut clients = [Client::http1(proxy).await, Client::http1(proxy).await];
    let [first, second] = &mut clients;
    let mut events = Events::open(first, "/state", &[]).await;
    let mut patches = Events::open(second, "/state", &[("prefer", "patch")]).await;
    let known = events.next().await.unwrap();
    assert_eq!((&*known.name, &patches.next().await.unwrap()), ("change", &known));
    for id in 2_000..2_005 {
        let mut client = Client::http1(proxy).await;
        let etag = client.get("/state").await.header("etag").to_owned();
        let waiting = tokio::spawn(async move {
            let headers = [("if-none-match", &*etag), ("prefer", "wait=30")];
            client.request_with("GET", "/state", &headers).await
        });
        until("all clients wait", || server.live.status().waiters == 3).await;
        // Each event arrives before the next publication, and so without a buffer.
        add_worker(&server.publisher, id);
        let response = within("the change", waiting).await.unwrap();
        assert_eq!(
            (response.status, response.header("preference-applied")),
            (200.try_into().unwrap(), "wait=30")
        );
        let changed = events.next().await.unwrap();
        assert_eq!((&*changed.name, &*changed.data), ("change", response.text()));
        assert_eq!(changed.id.as_deref(), Some(response.header("etag")));
        let patch = patches.next().await.unwrap();
        assert_eq!((&*patch.name, &patch.id), ("patch", &changed.id));
        assert!(patch.data.len() < changed.data.len() / 20, "{}", patch.data);
    }
    // So does the comment to a client that has the state.
    let etag = server.get("/state").await.header("etag").to_owned();
    let mut client = Client::http1(proxy).await;
    let mut continued = Events::open(&mut client, "/state", &[("last-event-id", &etag)]).await;
    assert_eq!(continued.next_block().await.unwrap(), ":");
    // The server notices that the clients are gone.
    drop((client, continued, clients, events, patches));
    until("no client waits", || server.live.status().waiters == 0).await;
}

/// Checks that a request ends when its client leaves.
async fn check_abort(server: &TestServer, proxy: SocketAddr) {
    let mut client = Client::http1(proxy).await;
    let etag = client.get("/state").await.header("etag").to_owned();
    let waiting = tokio::spawn(async move {
        let headers = [("if-none-match", &*etag), ("prefer", "wait=300")];
        client.request_with("GET", "/state", &headers).await
    });
    until("the client waits", || server.live.status().waiters == 1).await;
    waiting.abort();
    until("no client waits", || server.live.status().waiters == 0).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs nginx: apt install nginx-light"]
async fn nginx_forwards_events_and_long_polls() {
    // HTTP/1.0, the default of Debian's nginx, and HTTP/1.1.
    for line in ["", "proxy_http_version 1.1;"] {
        let (files, server) = (Folder::new(), TestServer::start().await);
        let (_child, address) = nginx(&files, server.address, line).await;
        check(&server, address).await;
        check_abort(&server, address).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs haproxy: apt install haproxy"]
async fn haproxy_forwards_events_and_long_polls() {
    for line in ["", "option abortonclose"] {
        let (files, server) = (Folder::new(), TestServer::start().await);
        let (_child, address) = haproxy(&files, server.address, line).await;
        check(&server, address).await;
        if !line.is_empty() {
            check_abort(&server, address).await;
        }
    }
}

/// Comments keep a stream without events open for longer than the time limits of the proxies.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs nginx and haproxy, and takes 65 s: apt install nginx-light haproxy"]
async fn proxies_keep_streams_without_events_open() {
    let (of_nginx, of_haproxy, server) = (Folder::new(), Folder::new(), TestServer::start().await);
    let (_nginx, nginx) = nginx(&of_nginx, server.address, "").await;
    let (_haproxy, haproxy) = haproxy(&of_haproxy, server.address, "").await;
    let mut streams = Vec::new();
    for proxy in [nginx, haproxy] {
        let mut client = Client::http1(proxy).await;
        let mut events = Events::open(&mut client, "/state", &[]).await;
        assert_eq!(events.next().await.unwrap().name, "change");
        streams.push((client, events));
    }
    // Requests that wait longer have no data.
    let etag = server.get("/state").await.header("etag").to_owned();
    let waiting = [nginx, haproxy].map(|proxy| {
        let etag = etag.clone();
        tokio::spawn(async move {
            let headers = [("if-none-match", &*etag), ("prefer", "wait=300")];
            Client::http1(proxy).await.request_with("GET", "/state", &headers).await.status
        })
    });
    // nginx closes connections without data after 60 s, and haproxy after 50 s.
    sleep(Duration::from_secs(65)).await;
    for waiting in waiting {
        assert_eq!(within("the end of the wait", waiting).await.unwrap(), 504);
    }
    add_worker(&server.publisher, 1_000);
    let state = server.get("/state").await;
    for (_, events) in &mut streams {
        assert_eq!(events.next().await.unwrap().data, state.text());
    }
}
