//! Is a request routed to the mount that its path belongs to?

use relayer_rest_host::module::{DEFAULT_MODULE, Module};
use relayer_rest_host::registry::{Mount, MountPath, Registry, SwapOutcome};
use relayer_rest_tests::component;
use relayer_rest_tests::server::{TestServer, candidate, engine, extension, patient};

#[tokio::test]
async fn an_extension_serves_the_paths_below_its_mount() {
    // For an unknown path, the bundled module names the path in its response.
    let tool = extension("/ext/tool", &engine(&patient()), DEFAULT_MODULE);
    let server = TestServer::builder().extension(tool).start().await;
    for (path, seen, name) in [
        ("/ext/tool/a/b", "/a/b", "tool"),
        ("/ext/tool", "/", "tool"),
        ("/ext/tool?a=b", "/", "tool"),
        ("/ext/tools", "/ext/tools", "api"),
        ("/ext", "/ext", "api"),
    ] {
        for _ in 0..2 {
            let response = server.get(path).await;
            assert!(response.text().contains(&format!("nothing is served at {seen};")), "{path}");
            let label = response.header("x-relayer-module").to_owned();
            assert!(label.starts_with(&format!("{name}@")), "{path}: {label}");
        }
    }
    assert_eq!(server.get("/ext/tool/chains").await.body, server.get("/chains").await.body);
    // Each mount is swapped separately, and an extension does not need a dialect.
    let new = component::with_response(201, "a", b"b");
    let mount = server.registry.at("/ext/tool").unwrap();
    let report = mount.swap(candidate(new), &server.publisher.reader()).await;
    assert_eq!(report.outcome, SwapOutcome::Swapped);
    assert_eq!(server.get("/ext/tool/chains").await.status, 201);
    assert_eq!(server.get("/chains").await.status, 200);
}

#[tokio::test]
async fn overlapping_mounts_are_rejected() {
    let engine = engine(&patient());
    let module = Module::embedded(&engine).unwrap();
    let mount =
        |path: &str, name| Mount::extension(path.parse().unwrap(), module.clone().named(name));
    let registry = || Registry::new(Mount::api(module.clone())).with(mount("/ext/a", "a")).unwrap();
    let error = registry().with(mount("/ext/a/b", "b")).unwrap_err().to_string();
    assert_eq!(error, "mounts /ext/a and /ext/a/b overlap; mount one of them elsewhere");
    let root = Mount::extension(MountPath::root(), module.clone().named("b"));
    let error = registry().with(root).unwrap_err().to_string();
    assert!(error.starts_with("extension \"b\": / is reserved for the API"), "{error}");
    let error = registry().with(mount("/ext/b", "a")).unwrap_err().to_string();
    assert_eq!(error, "duplicate name \"a\"; give each module a unique name");
    registry().with(mount("/ext/b", "b")).unwrap();
}
