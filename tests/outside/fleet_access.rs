//! Can only programs with the credentials of a fleet read it, and only writers write it?
//! Takes `nats-server`.

use std::io::{Read, Write};
use std::time::Duration;

use relayer_rest_host::fleet::{
    FleetAddress, FleetSettings, NewRollout, Operator, Publication, Stages, Subscription,
};
use relayer_rest_host::state::StatePublisher;
use relayer_rest_tests::certificates::Authority;
use relayer_rest_tests::folder::Folder;
use relayer_rest_tests::nats::Nats;
use relayer_rest_tests::nats_accounts::NatsOperator;
use relayer_rest_tests::program::Program;
use relayer_rest_tests::relayer::{Relayer, Script};
use relayer_rest_tests::wait::{DEADLINE, until, until_async};

use super::fleet::{MAX_UNCONFIRMED, Writer, get, number, numbered, read};

#[tokio::test]
#[ignore = "needs nats-server"]
async fn connections_with_tls_need_certificates_of_the_authority() {
    let files = Folder::new();
    let (authority, other) = (Authority::new(), Authority::new());
    authority.issue("127.0.0.1").write(&files, "server");
    authority.issue("host").write(&files, "host");
    let [ca, other] = [("ca.pem", authority), ("other.pem", other)]
        .map(|(name, authority)| files.write(name, authority.pem()));
    let config = format!(
        "tls {{ cert_file: {:?}, key_file: {:?}, ca_file: {ca:?}, verify: true }}",
        files.path("server.pem"),
        files.path("server.key"),
    );
    let nats = Nats::with_config(&config).await;
    let fleet: FleetAddress = format!("tls://{}/fleet", nats.address()).parse().unwrap();
    let valid = FleetSettings {
        ca: Some(ca.into()),
        certificate: Some(files.join("host.pem")),
        key: Some(files.join("host.key")),
        ..FleetSettings::default()
    };
    let publication = Publication::open(&fleet, &valid, MAX_UNCONFIRMED).await.unwrap();
    let publisher = StatePublisher::new();
    publisher.set_state(numbered(1));
    let writing = tokio::spawn(publication.run(publisher));
    let subscription = Subscription::open(&fleet, &valid, DEADLINE).await.unwrap();
    let publisher = StatePublisher::new();
    let reader = publisher.reader();
    let reading = tokio::spawn(subscription.run(publisher));
    until("the reader reads", || number(&reader) == Some(1)).await;
    let without_certificate = FleetSettings { certificate: None, key: None, ..valid.clone() };
    let of_other = FleetSettings { ca: Some(other.into()), ..valid };
    for settings in [without_certificate, of_other] {
        let refused = Operator::connect(&fleet, &settings).await.err().unwrap().to_string();
        assert!(refused.contains("not connected: "), "{refused}");
    }
    writing.abort();
    reading.abort();
}

#[tokio::test]
#[ignore = "needs nats-server"]
async fn files_of_credentials_are_those_of_an_account() {
    let operator = NatsOperator::new();
    let [account, other] = ["fleet", "other"].map(|name| operator.account(name));
    let nats = Nats::with_config(&operator.config(&account)).await;
    let folder = Folder::new();
    let credentials = folder.write("host.creds", account.credentials("host"));
    let foreign = folder.write("foreign.creds", other.credentials("host"));
    let relayer = Relayer::start(Script::of_1_13());
    let fleet = nats.fleet("").to_string();
    let config =
        |name: &str, file: &str| folder.write(name, format!("[fleet]\ncredentials = {file:?}\n"));
    let valid = config("valid.toml", &credentials);
    let upstream = relayer.url();
    let publish = ["publish", "--to", &fleet, "--upstream", &upstream, "--config", &valid];
    let _writer = Program::new(publish).spawn();
    let reader = Program::server().args(["--from", &fleet, "--config", &valid]).start().await;
    reader.connect().await.get_until("/state", |response| response.status == 200).await;

    let invalid = config("invalid.toml", &foreign);
    let mut refused =
        Program::server().args(["--from", &fleet, "--config", &invalid]).start().await;
    refused.logged("authorization violation").await;
    assert_eq!(get(refused.address(), "/state", &[]).await.status, 503);
    let junk = config("junk.toml", &folder.write("junk.creds", "junk"));
    let ended = Program::new(["--from", &fleet, "--config", &junk]).run().await;
    assert_eq!(ended.status, Some(2), "{ended:?}");
    assert!(
        ended.stderr.contains("expected a file as `nsc generate creds` writes it"),
        "{ended:?}"
    );
}

/// The configuration in the docs.
const CONFIG: &str = include_str!("../../docs/fleet/nats-server.conf");

/// Sends requests as a user, each with a subject for the response, and waits until the server has
/// received them.
fn send_requests(nats: &Nats, user: &str, requests: &[(&str, &str)]) {
    let mut stream = std::net::TcpStream::connect(nats.address()).unwrap();
    let password = &user[..1];
    let mut lines =
        format!("CONNECT {{\"verbose\":false,\"user\":\"{user}\",\"pass\":\"{password}\"}}\r\n");
    let requests = requests.iter();
    lines.extend(requests.map(|(subject, reply)| format!("PUB {subject} {reply} 1\r\nx\r\n")));
    lines += "PING\r\n";
    stream.write_all(lines.as_bytes()).unwrap();
    let mut received = Vec::new();
    while !received.windows(4).any(|bytes| bytes == b"PONG") {
        let mut buffer = [0; 4096];
        let count = stream.read(&mut buffer).unwrap();
        assert!(count > 0, "{}", String::from_utf8_lossy(&received));
        received.extend(&buffer[..count]);
    }
}

#[tokio::test]
#[ignore = "needs nats-server"]
async fn the_credentials_of_readers_and_deployers_write_nothing_else() {
    let lines: Vec<_> = CONFIG.lines().filter(|line| !line.starts_with("listen")).collect();
    let lines = lines.join("\n").replace("FLEET", "fleet");
    let mut accounts = lines[lines.find("accounts {").unwrap()..].to_owned();
    for (name, password) in
        [("WRITER_PASSWORD", "w"), ("READER_PASSWORD", "r"), ("DEPLOYER_PASSWORD", "d")]
    {
        accounts = accounts.replace(name, password);
    }
    let nats = Nats::with_config(&accounts).await;
    let [writers, readers, deployers] =
        ["writer:w@", "reader:r@", "deployer:d@"].map(|user| nats.fleet(user));
    let writer = Writer::start(&writers).await;
    writer.publish(1);
    let (reader, _reading) = read(&readers).await;
    until("the reader reads", || number(&reader) == Some(1)).await;

    // Readers know the plan of the modules, and only deployers change it.
    let new = NewRollout {
        module: format!("oci://localhost/module@sha256:{}", "0".repeat(64)),
        stages: Stages::default(),
        hold: Duration::from_secs(1),
        min_requests: 1,
        max_slowdown: 10.try_into().unwrap(),
        expected: String::new(),
    };
    let settings = FleetSettings::default();
    let reading = Operator::connect(&readers, &settings).await.unwrap();
    until_async("the plan can be read", async || reading.plan().await.is_ok()).await;
    let refused = reading.deploy("/", new.clone()).await.unwrap_err().to_string();
    assert!(refused.contains("the plan cannot be changed: "), "{refused}");
    let deploying = Operator::connect(&deployers, &settings).await.unwrap();
    assert_eq!(deploying.deploy("/", new).await.unwrap(), 1);
    let (_, plan) = reading.plan().await.unwrap();
    assert_eq!(plan.mounts.len(), 1);

    // Messages under stored and republished subjects, and responses of the server to them.
    let (stored, plan_stored) =
        ("$JS.API.DIRECT.GET.RELAYER_fleet.x", "$JS.API.DIRECT.GET.RELAYER-PLAN_fleet.x");
    for subject in
        ["lease", "index", "set.commit", "set.part.versions", "new.commit", "alive", "planned"]
    {
        let subject = format!("relayer.fleet.{subject}");
        send_requests(
            &nats,
            "reader",
            &[
                (&subject, "_INBOX.x"),
                ("relayer.fleet.clock", &subject),
                ("relayer.fleet.report", &subject),
                (stored, &subject),
                (plan_stored, &subject),
            ],
        );
        send_requests(
            &nats,
            "deployer",
            &[(&subject, "_INBOX.x"), ("relayer.fleet.call", &subject), (plan_stored, &subject)],
        );
    }
    send_requests(
        &nats,
        "reader",
        &[
            ("relayer.fleet.plan", "_INBOX.x"),
            ("relayer.fleet.call", "relayer.fleet.plan"),
            (plan_stored, "relayer.fleet.plan"),
        ],
    );
    assert_eq!(reading.plan().await.unwrap().1, plan);
    // Its own messages conflict with each other one that is stored.
    let epoch = || reader.snapshot().fleet_generation().map(|generation| generation.epoch);
    let before = epoch();
    for state in 2..20 {
        writer.publish(state);
        until("the reader has the state", || number(&reader) == Some(state)).await;
    }
    assert_eq!(epoch(), before);
    let other = Writer::start(&writers).await;
    drop(writer);
    other.publish(20);
    until("another writer takes over", || number(&reader) == Some(20)).await;
}
