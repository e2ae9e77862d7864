//! Does a module reach all hosts of a fleet in stages, and is a bad one stopped in the first stage?
//! Takes `nats-server`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use relayer_rest_host::fleet::{
    FleetAddress, FleetSettings, MountState, NewRollout, Operator, Phase, Plan, Subscription,
};
use relayer_rest_host::oci::Reference;
use relayer_rest_host::reload::FleetModules;
use relayer_rest_host::state::StatePublisher;
use relayer_rest_tests::certificates::SigningKey;
use relayer_rest_tests::client::{Client, Response};
use relayer_rest_tests::component::{self, TRAP, only_for};
use relayer_rest_tests::folder::Folder;
use relayer_rest_tests::nats::Nats;
use relayer_rest_tests::oci_registry::OciRegistry;
use relayer_rest_tests::program::{Ended, Program};
use relayer_rest_tests::server::{self, TestServer, short};
use relayer_rest_tests::wait::{until, until_async};
use tokio::task::JoinHandle;

use super::fleet::Writer;

/// The hosts of the fleet.
const HOSTS: usize = 50;

/// The path of the extension.
const MOUNT: &str = "/ext/it";

/// The requests that each host compares and serves in a stage.
const MIN_REQUESTS: u64 = 5;

/// Responds with 204.
const MODULE: &str = "(i32.store16 (i32.const 0) (i32.const 204)) i32.const 0";

/// Returns a module that responds with 204, with an arbitrary note.
fn good(note: &str) -> Vec<u8> {
    component::noted(&component::of_handler(MODULE), note)
}

/// A host in this process, with a client.
struct Host {
    name: String,
    server: TestServer,
    wrong: Arc<AtomicU64>,
    following: JoinHandle<()>,
    client: JoinHandle<()>,
}

impl Host {
    async fn start(
        place: usize,
        fleet: &FleetAddress,
        folder: &Folder,
        rare: &Arc<AtomicBool>,
    ) -> Self {
        let publisher = StatePublisher::new();
        let settings = folder.join("relayer-rest.toml");
        let modules = server::modules(settings, &folder.join("cache"), &publisher.reader()).await;
        let modules = Arc::new(modules);
        let server = TestServer::builder().registry(Arc::clone(&modules.registry));
        let server = server.without_state().start().await;
        let name = format!("host-{place}");
        let settings = FleetSettings { name: Some(name.clone()), ..FleetSettings::default() };
        let max_stale = Duration::from_hours(1);
        let subscription = Subscription::open(fleet, &settings, max_stale).await.unwrap();
        let mounts = FleetModules::new(modules, publisher.reader());
        let following = subscription.following(Arc::new(mounts), publisher.reader());
        let following = tokio::spawn(async move {
            // It ends with the host.
            let state = subscription.run(publisher);
            tokio::join!(following.run(|| {}), state);
        });
        let wrong = Arc::<AtomicU64>::default();
        let client = tokio::spawn(send(server.address, Arc::clone(rare), Arc::clone(&wrong)));
        Self { name, server, wrong, following, client }
    }

    fn active(&self) -> String {
        self.server.registry.at(MOUNT).unwrap().module().unwrap().digest().short()
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.following.abort();
        self.client.abort();
    }
}

/// Sends requests, of which each one is for another path, so that no response is cached. Counts
/// the responses that are not those of a good module.
async fn send(address: std::net::SocketAddr, rare: Arc<AtomicBool>, wrong: Arc<AtomicU64>) {
    let mut client = Client::http1(address).await;
    let mut number = 0_u64;
    loop {
        number += 1;
        let path = if rare.load(Relaxed) && number.is_multiple_of(3) {
            format!("{MOUNT}{TRAP}?{number}")
        } else {
            format!("{MOUNT}/{number}")
        };
        if client.get(&path).await.status != 204 {
            wrong.fetch_add(1, Relaxed);
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// A fleet with an extension, whose module is in a file.
struct Fleet {
    address: FleetAddress,
    operator: Operator,
    oci: OciRegistry,
    hosts: Vec<Host>,
    rare: Arc<AtomicBool>,
    folder: Folder,
    _writer: Writer,
    _nats: Nats,
}

impl Fleet {
    async fn start(hosts: usize) -> Self {
        Self::with_signer(hosts, None).await
    }

    /// Starts hosts that take only modules with a signature by this key, if one is given.
    async fn with_signer(hosts: usize, key: Option<&SigningKey>) -> Self {
        let nats = Nats::start().await;
        let address = nats.fleet("");
        let writer = Writer::start(&address).await;
        writer.publish(1);
        let folder = Folder::new();
        let oci = OciRegistry::start();
        let module = good("of the settings");
        let (module, registries) = if let Some(key) = key {
            folder.write("ci.pub", key.public_pem());
            let module = oci.add("a/b", "0", &module);
            oci.sign(&module, key);
            (module.to_string(), "require-signature = true\nsigners = { ci = 'ci.pub' }\n")
        } else {
            folder.write("module.wasm", module);
            ("module.wasm".to_owned(), "")
        };
        // As long as it takes on a busy machine.
        folder.write(
            "relayer-rest.toml",
            format!(
                "[swap]\ntime = '1h'\n[registries]\ncache = '{}'\n{registries}\
                 [[extension]]\nname = 'it'\nmodule = '{module}'\nlimits.time = '5s'\n\
                 limits.queue-wait = '1min'\n",
                folder.path("modules")
            ),
        );
        let rare = Arc::<AtomicBool>::default();
        let mut started = Vec::new();
        for place in 0..hosts {
            started.push(Host::start(place, &address, &folder, &rare).await);
        }
        let operator = Operator::connect(&address, &FleetSettings::default()).await.unwrap();
        until_async("the plan can be read", async || operator.plan().await.is_ok()).await;
        let hosts = started;
        Self { address, operator, oci, hosts, rare, folder, _writer: writer, _nats: nats }
    }

    /// Rolls out a module, and returns the last stage and the phase at the end.
    async fn roll_out(&self, module: &[u8]) -> (usize, Phase) {
        self.roll_out_reference(&self.oci.add("a/b", "1", module)).await
    }

    async fn roll_out_reference(&self, module: &Reference) -> (usize, Phase) {
        let new = NewRollout {
            module: module.to_string(),
            stages: "1,10%,all".parse().unwrap(),
            hold: Duration::from_secs(1),
            min_requests: MIN_REQUESTS,
            max_slowdown: 10.try_into().unwrap(),
            expected: String::new(),
        };
        let id = self.operator.deploy(MOUNT, new).await.unwrap();
        let mut last_stage = 0;
        loop {
            let plan = self.plan().await;
            let rollout = &plan.mount(MOUNT).unwrap().rollout;
            assert_eq!(rollout.id, id);
            if !rollout.is_in_progress() {
                return (last_stage, rollout.phase.clone());
            }
            if let Phase::Stage { stage, .. } = rollout.phase {
                last_stage = stage;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Returns the plan. On a busy machine, a request for it can time out.
    async fn plan(&self) -> Plan {
        let mut plan = None;
        until_async("the plan can be read", async || {
            plan = self.operator.plan().await.ok();
            plan.is_some()
        })
        .await;
        plan.unwrap().1
    }

    async fn all_run(&self, module: &[u8]) {
        let expected = short(module);
        until("all hosts run the module", || {
            self.hosts.iter().all(|host| host.active() == expected)
        })
        .await;
    }

    fn wrong(&self) -> Vec<(&str, u64)> {
        let wrong = self.hosts.iter().map(|host| (&*host.name, host.wrong.load(Relaxed)));
        wrong.filter(|(_, count)| *count > 0).collect()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
#[ignore = "needs nats-server"]
async fn a_bad_module_is_stopped_in_the_first_stage() {
    let fleet = Fleet::start(HOSTS).await;
    let good = good("2");
    let (stage, phase) = fleet.roll_out(&good).await;
    assert_eq!((stage, phase), (2, Phase::Completed));
    fleet.all_run(&good).await;

    let body = ("content-type", &b"text/plain"[..]);
    let bad = [
        ("differs", component::of_response(200, &[body], b"wrong")),
        ("traps", component::of_handler("unreachable")),
        ("does not end", component::of_handler("(loop br 0) unreachable")),
        ("too slow", component::that_takes(20_000_000)),
    ];
    for (name, module) in bad {
        let (stage, phase) = fleet.roll_out(&module).await;
        assert!(matches!(phase, Phase::RolledBack { host: Some(_), .. }), "{name}: {phase:?}");
        assert_eq!(stage, 0, "{name}");
        fleet.all_run(&good).await;
        assert_eq!(fleet.wrong(), [], "{name}: clients got its responses");
    }

    // It fails only for requests that no client sent before it was active.
    let module = component::of_handler(&format!("{}unreachable", only_for(TRAP)));
    let rare = Arc::clone(&fleet.rare);
    let candidate = short(&module);
    let watching = async {
        until("a host runs the module", || {
            fleet.hosts.iter().any(|host| host.active() == candidate)
        })
        .await;
        rare.store(true, Relaxed);
    };
    let ((stage, phase), ()) = tokio::join!(fleet.roll_out(&module), watching);
    assert_eq!(stage, 0);
    let Phase::RolledBack { host: Some(_), reason } = phase else { panic!("{phase:?}") };
    assert!(
        reason.contains("runs failed") || reason.contains("runs, failed"),
        "it did not fail in service: {reason}"
    );
    fleet.all_run(&good).await;
    // The module before it responded to the requests for which it failed.
    assert_eq!(fleet.wrong(), [], "clients got its responses");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
#[ignore = "needs nats-server"]
async fn hosts_that_require_signatures_take_no_other_modules() {
    let [key, other] = [SigningKey::p256(), SigningKey::p256()];
    let fleet = Fleet::with_signer(3, Some(&key)).await;
    let next = good("2");
    let module = fleet.oci.add("a/b", "2", &next);
    let (stage, phase) = fleet.roll_out_reference(&module).await;
    let Phase::RolledBack { host: Some(_), reason } = phase else { panic!("{phase:?}") };
    assert!(stage == 0 && reason.contains("the module has no signature"), "{stage}: {reason}");
    fleet.oci.sign(&module, &other);
    let (stage, phase) = fleet.roll_out_reference(&module).await;
    let Phase::RolledBack { host: Some(_), reason } = phase else { panic!("{phase:?}") };
    assert!(stage == 0 && reason.contains("is by any of the signers"), "{stage}: {reason}");
    fleet.all_run(&good("of the settings")).await;

    fleet.oci.sign(&module, &key);
    assert_eq!(fleet.roll_out_reference(&module).await, (2, Phase::Completed));
    fleet.all_run(&next).await;
    assert_eq!(fleet.wrong(), []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
#[ignore = "needs nats-server"]
async fn an_operator_deploys_pauses_and_rolls_back() {
    let fleet = Fleet::start(3).await;
    let address = fleet.address.to_string();
    let run = async |args: &[&str]| -> Ended {
        let args = [&["fleet"], args, &["--fleet", &*address]].concat();
        Program::new(args).run().await
    };
    let good = good("2");
    let module = fleet.oci.add("a/b", "1", &good);
    let tag = fleet.oci.reference("a/b", "1").to_string();
    let unpinned = run(&["deploy", &tag]).await;
    assert!(unpinned.status == Some(2) && unpinned.stderr.contains("it has no digest"));

    // With more requests than clients send while it is paused.
    let module = module.to_string();
    let deploy = ["deploy", &module, "--mount", MOUNT, "--hold", "300ms", "--stages", "1,all"];
    let detached = [&deploy[..], &["--min-requests", "1000000", "--detach"]].concat();
    let deployed = run(&detached).await;
    assert_eq!(deployed.status, Some(0), "{deployed:?}");
    let again = run(&deploy).await;
    assert!(again.stderr.contains("is in progress; wait for its end"), "{again:?}");
    let paused = run(&["pause", "--mount", MOUNT]).await;
    assert_eq!(paused.stdout, "mount /ext/it: paused\n", "{paused:?}");
    let status = run(&["status"]).await;
    assert!(status.stdout.contains(": 3 hosts\n"), "{status:?}");
    assert!(status.stdout.contains(", paused; "), "{status:?}");
    assert_eq!(run(&["resume", "--mount", MOUNT]).await.status, Some(0));
    let rolled_back = run(&["rollback", "--mount", MOUNT]).await;
    assert_eq!(rolled_back.status, Some(0), "{rolled_back:?}");
    fleet.all_run(&self::good("of the settings")).await;

    let deployed = run(&deploy).await;
    assert!(deployed.stdout.ends_with("\ncompleted\n"), "{deployed:?}");
    fleet.all_run(&good).await;
    let status = run(&["status", "--json"]).await;
    let status: serde_json::Value = serde_json::from_str(&status.stdout).unwrap();
    assert_eq!(status["plan"]["mounts"][0]["module"], *module);
    assert_eq!(status["hosts"].as_array().unwrap().len(), 3);

    // A mount that no host has is rejected, and hosts do not wait for it.
    let unknown = ["deploy", &module, "--mount", "/ext/other", "--hold", "300ms"];
    let unknown = run(&unknown).await;
    assert!(
        unknown.stdout.contains("unknown mount /ext/other; add it to the settings"),
        "{unknown:?}"
    );

    // A host that joins has the module when its state is known.
    let settings = fleet.folder.path("relayer-rest.toml");
    let joining = Program::server().args(["--from", &address, "--config", &settings]).start().await;
    let mut client = joining.connect().await;
    let is_ready = |response: &Response| response.status == 200;
    client.get_until("/state", is_ready).await;
    let response = client.get(&format!("{MOUNT}/x")).await;
    assert_eq!(response.header("x-relayer-module"), format!("it@{}", short(&good)));

    // Without a module of the fleet, hosts have the one of their settings.
    assert_eq!(run(&["rollback", "--mount", MOUNT]).await.status, Some(0));
    fleet.all_run(&self::good("of the settings")).await;
    let own = format!("it@{}", short(&self::good("of the settings")));
    let is_own = |response: &Response| response.header("x-relayer-module") == own;
    client.get_until(&format!("{MOUNT}/y"), is_own).await;
    let nothing = run(&["rollback", "--mount", MOUNT]).await;
    assert!(nothing.stderr.contains("rolled back already"), "{nothing:?}");

    // A module that some hosts reject is not rolled out.
    let differs = component::of_response(200, &[], b"wrong");
    let differs = fleet.oci.add("a/b", "2", &differs).to_string();
    // The host that has joined has no clients.
    let rejected = [&["deploy", &differs], &deploy[2..], &["--min-requests", "0"]].concat();
    let rejected = run(&rejected).await;
    assert_eq!(rejected.status, Some(1), "{rejected:?}");
    assert!(rejected.stdout.contains("\nrolled back, because of host "), "{rejected:?}");
    let hosts = fleet.operator.status(Duration::from_secs(1)).await.unwrap().hosts;
    let failed = |state: &MountState| match state {
        MountState::Failed { reason } => Some(reason.clone()),
        _ => None,
    };
    let mounts = hosts.iter().flat_map(|host| &host.mounts);
    let mounts = mounts.filter(|mount| mount.mount == MOUNT).map(|mount| &mount.state);
    let failed: Vec<_> = mounts.filter_map(failed).collect();
    assert!(
        !failed.is_empty() && failed.iter().all(|reason| reason.contains("differ")),
        "{hosts:?}"
    );

    // Unless its differences are declared.
    let changes =
        "[[change]]\nroute = '*'\nkind = 'status'\n[[change]]\nroute = '*'\nkind = 'body'\n";
    let changes = fleet.folder.write("changes.toml", changes);
    let options = ["--min-requests", "0", "--expect", &changes];
    let declared = run(&[&["deploy", &differs], &deploy[2..], &options].concat()).await;
    assert!(declared.stdout.ends_with("\ncompleted\n"), "{declared:?}");
}
