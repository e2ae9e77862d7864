//! Are modules of OCI registries verified, and usable without the registry?

use std::fs;
use std::path::Path;
use std::process::Command;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use relayer_rest_host::module::{DEFAULT_MODULE, Digest, MODULE_1_13};
use relayer_rest_host::oci::{
    Reference, Registries, RegistryError, RegistrySettings, SignaturePolicy,
};
use relayer_rest_tests::certificates::SigningKey;
use relayer_rest_tests::component;
use relayer_rest_tests::folder::Folder;
use relayer_rest_tests::oci_registry::{
    Authentication, IDENTITY_TOKEN, OciRegistry, USER, manifest, signed_payload,
};
use relayer_rest_tests::program::{Ended, Program, Serving};
use serde_json::{Value, json};

use super::check_failure;

/// The maximum size of the components of these tests.
const MAX: u64 = 32 << 20;

/// Returns settings that use nothing of this user.
fn settings(folder: &Folder) -> RegistrySettings {
    RegistrySettings {
        cache: Some(folder.join("modules")),
        docker_config: Some(folder.write("docker.json", "{}").into()),
        ..RegistrySettings::default()
    }
}

/// Writes settings that use nothing of this user, with more lines before and after.
fn config(folder: &Folder, before: &str, registries: &str) -> String {
    folder.replace("docker.json", "{}");
    let text = format!(
        "{before}\n[registries]\ncache = 'modules'\ndocker-config = 'docker.json'\n{registries}\n"
    );
    folder.replace("relayer-rest.toml", text)
}

async fn run(args: &[&str]) -> Ended {
    Program::new(args).run().await
}

async fn serve(settings: &str) -> Serving {
    Program::server().args(["--config", settings]).start().await
}

fn responding(status: u16) -> Vec<u8> {
    component::of_response(status, &[], b"")
}

async fn status(serving: &Serving, path: &str) -> u16 {
    serving.connect().await.get(path).await.status.as_u16()
}

/// Pulls a module without a signature.
fn pull(settings: &RegistrySettings, reference: &Reference) -> Result<Vec<u8>, RegistryError> {
    let pulled = Registries::new(settings).pull(reference, &SignaturePolicy::Optional, MAX)?;
    Ok(pulled.component)
}

#[tokio::test]
async fn a_module_is_pushed_inspected_and_pulled() {
    let (folder, registry) =
        (Folder::new(), OciRegistry::with_authentication(Authentication::Bearer));
    let settings = config(&folder, "", "");
    let login = json!({ "auths": { registry.address.to_string(): { "username": USER.0, "password": USER.1 } } });
    folder.replace("docker.json", login.to_string());
    let file = folder.write("api.wasm", DEFAULT_MODULE);
    let tag = registry.reference("a/b", "1.0").to_string();
    let digest = Digest::new(DEFAULT_MODULE);

    let pushed = Program::new(["push", &file, &tag, "--config", &settings]);
    let pushed = pushed.env("SOURCE_DATE_EPOCH", "0").run().await;
    assert_eq!(pushed.status, Some(0), "{pushed:?}");
    let manifest: Value = serde_json::from_slice(&registry.manifest("a/b", "1.0")).unwrap();
    assert_eq!(manifest["config"]["mediaType"], "application/vnd.wasm.config.v0+json");
    assert_eq!(manifest["layers"][0]["mediaType"], "application/wasm");
    assert_eq!(registry.blob(&manifest["layers"][0]), DEFAULT_MODULE);
    let config: Value = serde_json::from_slice(&registry.blob(&manifest["config"])).unwrap();
    assert_eq!(config["created"], "1970-01-01T00:00:00Z");
    assert_eq!(config["layerDigests"], json!([format!("sha256:{digest}")]));
    let pinned = format!("@sha256:{}", Digest::new(&registry.manifest("a/b", "1.0")));
    let pinned = tag.replace(":1.0", &pinned);
    assert_eq!(pushed.stdout, format!("pushed: {pinned}\n{digest}  {file}\n"));

    let inspected = run(&["inspect", &tag, "--config", &settings]).await;
    for line in [
        format!("module     {pinned}\ndigest     {digest}\nsize       "),
        "\nworld      relayer:rest/api-module@0.1.0\nimports    relayer:rest/".to_owned(),
        "\nsignature  none\n".to_owned(),
    ] {
        assert!(inspected.stdout.contains(&line), "{line} is not in {inspected:?}");
    }
    let of_file = run(&["inspect", &file, "--json"]).await;
    let of_file: Value = serde_json::from_str(&of_file.stdout).unwrap();
    assert_eq!(of_file["size"], DEFAULT_MODULE.len());

    let out = folder.path("out.wasm");
    let pulled = run(&["pull", &tag, &out, "--config", &settings]).await;
    assert_eq!(pulled.stdout, format!("pulled: {pinned}\n{digest}  {out}\n"), "{pulled:?}");
    assert_eq!(fs::read(&out).unwrap(), DEFAULT_MODULE);
    let again = run(&["pull", &tag, &out, "--config", &settings]).await;
    check_failure(&again, 2, &format!("{out}: already exists"));
    let no_tag = run(&["push", &file, &pinned, "--config", &settings]).await;
    check_failure(&no_tag, 2, "a module is pushed to a tag");
}

#[tokio::test]
async fn a_module_that_was_pulled_is_served_without_the_registry() {
    let (folder, registry) = (Folder::new(), OciRegistry::start());
    let api = registry.add("a/api", "1", MODULE_1_13);
    let extension = registry.add("a/hello", "1", &responding(201));
    let text = format!(
        "[module]\nfile = '{api}'\ndialect = '1.13'\n\
         [[extension]]\nname = 'hello'\nmodule = '{extension}'\nrequired = true\n"
    );
    let settings = config(&folder, &text, "");
    let first = serve(&settings).await;
    assert_eq!(first.label("/chains").await, format!("api@{}", Digest::new(MODULE_1_13).short()));
    first.stop().await;
    assert!(!registry.requests().is_empty());
    registry.stop();
    let second = serve(&settings).await;
    assert_eq!([status(&second, "/chains").await, status(&second, "/ext/hello").await], [200, 201]);
    let reloaded = second.control(&["reload"]).await;
    assert!(reloaded.stdout.starts_with("unchanged  /"), "{reloaded:?}");
    second.stop().await;
    assert_eq!(registry.requests(), [""; 0]);
    let check = run(&["config", "check", &settings]).await;
    assert!(check.stdout.contains(&format!("  {api}\n")), "{check:?}");

    // Without the pulled modules, the API's module is missing.
    fs::remove_dir_all(folder.join("modules")).unwrap();
    let ended = Program::server().args(["--config", &settings]).run().await;
    let message = format!("mount /: module {api}: cannot be pulled: registry ");
    check_failure(&ended, 2, &message);
}

#[tokio::test]
async fn modules_of_registries_are_swapped_in_and_checked() {
    let (folder, registry) = (Folder::new(), OciRegistry::start());
    let key = SigningKey::p256();
    folder.write("ci.pub", key.public_pem());
    let settings = config(&folder, "", "signers = { ci = 'ci.pub' }");
    let module = registry.add("a/b", "1", DEFAULT_MODULE);
    let [pinned, tag] = [module.to_string(), registry.reference("a/b", "1").to_string()];

    let checked = run(&["check", &pinned, "--config", &settings]).await;
    assert_eq!(checked.status, Some(0), "{checked:?}");
    let unpinned = run(&["check", &tag, "--config", &settings]).await;
    assert!(unpinned.stdout.contains("a tag can be moved to another module"), "{unpinned:?}");

    let serving = Program::server().args(["--config", &settings, "--dialect", "any"]).start().await;
    let new = registry.add("a/b", "2", &responding(204));
    let swapped = serving.control(&["swap", &new.to_string()]).await;
    assert!(swapped.stdout.contains("swapped: "), "{swapped:?}");
    assert_eq!(status(&serving, "/chains").await, 204);
    // The server has the key, not this client.
    let rejected = serving.control(&["swap", &tag, "--signer", "ci"]).await;
    assert!(rejected.stdout.contains("the module has no signature"), "{rejected:?}");
    assert_eq!(rejected.status, Some(1));
    let signature = async || {
        let inspected = run(&["inspect", &tag, "--config", &settings]).await.stdout;
        inspected.lines().find(|line| line.starts_with("signature")).unwrap().to_owned()
    };
    assert_eq!(signature().await, "signature  none");
    registry.sign(&module, &SigningKey::p256());
    assert_eq!(signature().await, "signature  by none of the signers in the settings");
    registry.sign(&module, &key);
    assert_eq!(signature().await, "signature  by ci, verified");
    let swapped = serving.control(&["swap", &tag, "--signer", "ci"]).await;
    assert!(swapped.stdout.contains("swapped: "), "{swapped:?}");
    assert_eq!(status(&serving, "/chains").await, 200);
    for (reference, message) in [
        (tag.as_str(), "a tag can be moved"),
        (&registry.reference("a/b", "9").to_string(), "a tag can be moved"),
        (&pinned.replace("a/b@", "a/c@"), "unchanged: "),
        (
            &format!("oci://{}/a/c@sha256:{}", registry.address, "0".repeat(64)),
            "manifest not found",
        ),
    ] {
        let rejected = serving.control(&["swap", reference]).await;
        assert!(rejected.stdout.contains(message), "{reference}: {rejected:?}");
    }
}

#[tokio::test]
async fn unsigned_modules_are_rejected_if_the_settings_require_a_signature() {
    let (folder, registry) = (Folder::new(), OciRegistry::start());
    let [key, other] = [SigningKey::p256(), SigningKey::p256()];
    folder.write("ci.pub", key.public_pem());
    folder.write("x.wasm", responding(203));
    let module = registry.add("a/b", "1", &responding(201));
    registry.sign(&module, &key);
    let unsigned = registry.add("a/unsigned", "1", &responding(202));
    let foreign = registry.add("a/foreign", "1", &responding(202));
    registry.sign(&foreign, &other);
    let extension =
        |name: &str, module: &str| format!("[[extension]]\nname = '{name}'\nmodule = '{module}'\n");
    let tag = registry.reference("a/b", "1").to_string();
    let text = [
        extension("tag", &tag) + "signer = 'ci'\nrequired = true\n",
        extension("digest", &module.to_string()) + "required = true\n",
        extension("unsigned", &unsigned.to_string()),
        extension("foreign", &foreign.to_string()),
        extension("file", "x.wasm"),
        extension("unknown", &module.to_string()) + "signer = 'qa'\n",
        "[[extension]]\nname = 'health'\n".to_owned(),
    ];
    let required = "require-signature = true\nsigners = { ci = 'ci.pub' }";
    let settings = config(&folder, &text.concat(), required);
    let mut serving = serve(&settings).await;
    for (name, message) in [
        ("unsigned", "the module has no signature"),
        ("foreign", "none of the 1 signatures of the module is by any of the signers"),
        ("file", "has no signature, which the settings require"),
        ("unknown", "signer qa is unknown"),
    ] {
        // They are loaded in any order.
        let rejected = format!("mount /ext/{name}: ");
        if !serving.log().contains(&rejected) {
            serving.logged(&rejected).await;
        }
        assert!(serving.log().contains(message), "{message}: {}", serving.log());
    }
    // The bundled modules need none.
    for (path, expected) in [
        ("/ext/tag", 201),
        ("/ext/digest", 201),
        ("/chains", 200),
        ("/ext/health", 200),
        ("/ext/file", 503),
    ] {
        assert_eq!(status(&serving, path).await, expected, "{path}");
    }
    let file = folder.path("x.wasm");
    let swap = ["swap", &file, "--mount", "/ext/tag", "--dialect", "any"];
    let rejected = serving.control(&swap).await;
    assert!(rejected.stdout.contains("has no signature, which the settings require"));
    serving.stop().await;

    // The signature is verified again from the folder, and the tag leads to the last module.
    registry.stop();
    let serving = serve(&settings).await;
    assert_eq!(status(&serving, "/ext/tag").await, 201);
    serving.stop().await;
    folder.replace("ci.pub", other.public_pem());
    let ended = Program::server().args(["--config", &settings]).run().await;
    check_failure(&ended, 2, &format!("mount /ext/tag: module {tag}: cannot be pulled: "));
}

#[tokio::test]
async fn a_reload_pulls_the_module_to_which_a_signed_tag_leads() {
    let (folder, registry) = (Folder::new(), OciRegistry::start());
    let key = SigningKey::p256();
    folder.write("ci.pub", key.public_pem());
    let tag = registry.reference("a/b", "1");
    registry.sign(&registry.add("a/b", "1", &responding(201)), &key);
    let text =
        format!("[[extension]]\nname = 'x'\nmodule = '{tag}'\nsigner = 'ci'\nrequired = true\n");
    let settings = config(&folder, &text, "signers = { ci = 'ci.pub' }");
    let serving = serve(&settings).await;
    let new = registry.add("a/b", "1", &responding(202));
    let refused = serving.control(&["reload"]).await;
    assert!(refused.stdout.contains("the module has no signature"), "{refused:?}");
    assert_eq!(status(&serving, "/ext/x").await, 201);
    registry.sign(&new, &key);
    let reloaded = serving.control(&["reload"]).await;
    assert!(reloaded.stdout.contains("replaced   /ext/x"), "{reloaded:?}");
    assert_eq!(status(&serving, "/ext/x").await, 202);
}

#[test]
fn every_byte_is_verified() {
    let (folder, registry) = (Folder::new(), OciRegistry::start());
    let settings = settings(&folder);
    let module = registry.add("a/b", "1", b"component");
    let manifest = registry.manifest("a/b", "1");
    let another = [&manifest[..], b" "].concat();
    registry.tamper(&manifest, &another);
    let error = pull(&settings, &module).unwrap_err();
    assert!(matches!(error, RegistryError::Mismatch { what: "manifest", .. }), "{error}");
    registry.tamper(&another, &manifest);
    registry.tamper(b"component", b"coMponent");
    let error = pull(&settings, &module).unwrap_err();
    assert!(matches!(error, RegistryError::Mismatch { what: "component", .. }), "{error}");
    registry.tamper(b"coMponent", b"component that is longer");
    let error = pull(&settings, &module).unwrap_err().to_string();
    assert!(error.contains("is larger than 9 bytes"), "{error}");
    registry.tamper(b"component that is longer", b"component");
    assert_eq!(pull(&settings, &module).unwrap(), b"component");
    // A damaged file is pulled again.
    let file = folder.join("modules/blobs").join(Digest::new(b"component").to_string());
    fs::write(&file, "coMponent").unwrap();
    assert_eq!(pull(&settings, &module).unwrap(), b"component");
    assert_eq!(fs::read(&file).unwrap(), b"component");
    let policy = SignaturePolicy::Optional;
    let error = Registries::new(&settings).pull(&module, &policy, 8).unwrap_err();
    assert!(matches!(error, RegistryError::TooLarge { size: 9, limit: 8 }), "{error}");
}

#[test]
fn other_images_are_rejected() {
    let (folder, registry) = (Folder::new(), OciRegistry::start());
    let settings = settings(&folder);
    let layer = registry.add_blob("application/wasm", b"x");
    let config = registry.add_blob("application/vnd.oci.image.config.v1+json", b"{}");
    for (content, problem) in [
        (
            manifest(&config, &[layer]),
            "the configuration is application/vnd.oci.image.config.v1+json",
        ),
        (json!({ "schemaVersion": 2, "manifests": [] }), "a list of images"),
        (json!("x".repeat(2 << 20)), "is larger than 1048576 bytes"),
    ] {
        let module = registry.add_manifest("a/b", "1", &content);
        let error = pull(&settings, &module).unwrap_err().to_string();
        assert!(error.contains(problem), "{error}");
    }
}

#[test]
fn credentials_of_docker_are_sent_to_their_registry_only() {
    for authentication in [Authentication::Basic, Authentication::Bearer] {
        let folder = Folder::new();
        let registry = OciRegistry::with_authentication(authentication);
        let store = OciRegistry::start();
        let module = registry.add("a/b", "1", b"component");
        registry.redirect_blobs(&store);
        let mut settings = settings(&folder);
        let error = pull(&settings, &module).unwrap_err();
        assert!(matches!(error, RegistryError::Denied { .. }), "{error}");
        let entry = |auth: &str| {
            let auths =
                json!({ "auths": { module.registry(): { "auth": STANDARD.encode(auth) } } });
            Some(folder.replace("docker.json", auths.to_string()).into())
        };
        settings.docker_config = entry("user:wrong");
        let error = pull(&settings, &module).unwrap_err().to_string();
        let address = registry.address;
        assert!(error.contains(&format!("log in with `docker login {address}`")), "{error}");
        settings.docker_config = entry("user:secret");
        assert_eq!(pull(&settings, &module).unwrap(), b"component");
        let digest = Digest::new(b"component");
        assert_eq!(store.requests(), [format!("GET /store/sha256:{digest}")]);
        // With the token, one request is enough.
        let requests = registry.requests();
        let scheme = if authentication == Authentication::Basic { "Basic " } else { "Bearer " };
        let last = requests.last().unwrap();
        assert!(last.starts_with(&format!("GET /v2/a/b/blobs/sha256:{digest} {scheme}")), "{last}");
    }
}

/// Without a setting, the file is Docker's own, and can name a program that has them.
#[tokio::test]
async fn credentials_come_from_the_folder_of_docker_and_its_helpers() {
    let folder = Folder::new();
    let registry = OciRegistry::with_authentication(Authentication::Bearer);
    let module = registry.add("a/b", "1", b"component").to_string();
    let address = registry.address;
    let settings = folder.write("relayer-rest.toml", "[registries]\ncache = 'modules'\n");
    for name in ["bin", "docker", "home", "home/.docker"] {
        fs::create_dir(folder.join(name)).unwrap();
    }
    let script =
        format!("#!/bin/sh\n[ \"$1 $(cat)\" = 'get {address}' ] && cat {}", folder.path("found"));
    let script = folder.write("script", script);
    // A file that this process writes cannot be run while another thread starts a process.
    let install = ["-m", "755", &script, &folder.path("bin/docker-credential-test")];
    assert!(Command::new("install").args(install).status().unwrap().success());
    let path = format!("{}:{}", folder.path("bin"), std::env::var("PATH").unwrap());
    let login =
        json!({ "auths": { address.to_string(): { "username": USER.0, "password": USER.1 } } });
    let of_registry = json!({ "credHelpers": { address.to_string(): "test" } });
    let of_all = json!({ "credsStore": "test" });
    let identity = ("<token>", IDENTITY_TOKEN);
    let unknown = ("user", "wrong");
    for (number, (place, config, (name, secret), status)) in [
        ("docker", &of_registry, USER, 0),
        ("docker", &of_all, USER, 0),
        ("docker", &of_all, identity, 0),
        ("docker", &of_all, unknown, 2),
        ("home/.docker", &login, unknown, 0),
    ]
    .into_iter()
    .enumerate()
    {
        folder.replace(&format!("{place}/config.json"), config.to_string());
        let found = json!({ "ServerURL": address.to_string(), "Username": name, "Secret": secret });
        folder.write("found", found.to_string());
        fs::remove_dir_all(folder.join("modules")).ok();
        let pull = Program::new([
            "pull",
            &module,
            &folder.path(&number.to_string()),
            "--config",
            &settings,
        ]);
        let pull = pull.env("PATH", &path).env("HOME", folder.path("home"));
        let docker = if place == "docker" { folder.path(place) } else { String::new() };
        let ended = pull.env("DOCKER_CONFIG", docker).run().await;
        assert_eq!(ended.status, Some(status), "{place} {config} {name}: {ended:?}");
    }
}

#[test]
fn signatures_of_all_kinds_of_keys_are_verified() {
    let (folder, registry) = (Folder::new(), OciRegistry::start());
    let keys = [
        ("p256", SigningKey::p256()),
        ("ed25519", SigningKey::ed25519()),
        ("rsa", SigningKey::rsa()),
    ];
    let signers = keys.iter().map(|(name, key)| {
        ((*name).to_owned(), folder.write(&format!("{name}.pub"), key.public_pem()).into())
    });
    let settings = RegistrySettings { signers: signers.collect(), ..settings(&folder) };
    let registries = Registries::new(&settings);
    let pull = |module: &Reference, signer: &str| {
        let policy = SignaturePolicy::Signer(signer.to_owned());
        registries.pull(module, &policy, MAX).map(|pulled| pulled.signer)
    };
    for (name, key) in &keys {
        let module = registry.add(&format!("a/{name}"), "1", b"component");
        let digest = module.digest().unwrap();
        let other = Digest::new(b"another manifest");
        let unsigned = pull(&module, name).unwrap_err();
        assert!(matches!(unsigned, RegistryError::Unsigned(_)), "{unsigned}");
        // A valid signature of another manifest, and an invalid one of this manifest.
        for (payload, signed) in [
            (signed_payload(other), signed_payload(other)),
            (signed_payload(digest), signed_payload(other)),
        ] {
            let signature = STANDARD.encode(key.sign(&signed));
            registry.add_signature(module.repository(), digest, &payload, &signature);
            let error = pull(&module, name).unwrap_err().to_string();
            assert!(error.contains(&format!("is by signer {name}; sign")), "{error}");
        }
        registry.sign(&module, key);
        assert_eq!(pull(&module, name).unwrap().as_deref(), Some(*name));
        let next = keys.iter().find(|(other, _)| other != name).unwrap().0;
        assert!(pull(&module, next).is_err());
        let described = registries.describe(&registry.reference(module.repository(), "1"), MAX);
        assert_eq!(described.unwrap().signatures[0].signer.as_deref(), Some(*name));
    }
}

/// Returns a bundle of Sigstore with a statement of `cosign sign` about a manifest.
fn bundle(manifest: Digest, predicate: &str, key: &SigningKey) -> Vec<u8> {
    let statement = json!({
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{ "digest": { "sha256": manifest.to_string() } }],
        "predicateType": predicate,
        "predicate": {},
    });
    let statement = statement.to_string();
    let kind = "application/vnd.in-toto+json";
    let signed = format!("DSSEv1 {} {kind} {} {statement}", kind.len(), statement.len());
    let bundle = json!({
        "mediaType": "application/vnd.dev.sigstore.bundle.v0.3+json",
        "verificationMaterial": { "publicKey": { "hint": "x" } },
        "dsseEnvelope": {
            "payload": STANDARD.encode(&statement),
            "payloadType": kind,
            "signatures": [{ "sig": STANDARD.encode(key.sign(signed.as_bytes())) }],
        },
    });
    bundle.to_string().into_bytes()
}

#[test]
fn bundles_of_sigstore_are_verified() {
    const SIGN: &str = "https://sigstore.dev/cosign/sign/v1";
    let (folder, registry) = (Folder::new(), OciRegistry::start());
    let key = SigningKey::p256();
    let file = folder.write("ci.pub", key.public_pem());
    let signers = [("ci".to_owned(), file.into())].into();
    let registries = Registries::new(&RegistrySettings { signers, ..settings(&folder) });
    let pull = |module: &Reference| registries.pull(module, &SignaturePolicy::AnySigner, MAX);
    let module = registry.add("a/b", "1", b"component");
    let digest = module.digest().unwrap();
    // The registry has lost this one.
    registry.refer("a/b", digest, Digest::new(b"missing"));
    for bundle in [
        b"text".to_vec(),
        bundle(Digest::new(b"another manifest"), SIGN, &key),
        // A statement about the tests of a module does not recommend it.
        bundle(digest, "https://in-toto.io/attestation/test-result/v0.1", &key),
        bundle(digest, SIGN, &SigningKey::p256()),
    ] {
        registry.add_bundle("a/b", digest, &bundle);
        assert!(matches!(pull(&module).unwrap_err(), RegistryError::Unsigned(_)));
    }
    registry.add_bundle("a/b", digest, &bundle(digest, SIGN, &key));
    assert_eq!(pull(&module).unwrap().signer.as_deref(), Some("ci"));
}

#[test]
fn keys_that_cannot_be_used_are_named() {
    let folder = Folder::new();
    let module = "oci://127.0.0.1:1/a/b:1".parse::<Reference>().unwrap();
    for (content, problem) in
        [(None, "No such file or directory"), (Some("text"), "not a public key of ECDSA P-256")]
    {
        let file = folder.path("ci.pub");
        if let Some(content) = content {
            fs::write(&file, content).unwrap();
        }
        let signers = [("ci".to_owned(), Path::new(&file).to_owned())].into();
        let settings = RegistrySettings { signers, ..settings(&Folder::new()) };
        let policy = SignaturePolicy::AnySigner;
        let error = Registries::new(&settings).pull(&module, &policy, MAX).unwrap_err().to_string();
        assert!(error.starts_with(&format!("signer ci: key {file}: {problem}")), "{error}");
    }
}
