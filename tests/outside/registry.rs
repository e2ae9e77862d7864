//! Are modules pushed to `docker-registry` and pulled from it, and are signatures of other
//! programs verified?

use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};

use relayer_rest_host::module::{DEFAULT_MODULE, Digest};
use relayer_rest_tests::certificates::Authority;
use relayer_rest_tests::folder::Folder;
use relayer_rest_tests::program::{Ended, Program};
use relayer_rest_tests::wait::until;
use serde_json::{Value, json};

use super::free_address;

/// The versions of the packages that make bundles.
const SIGSTORE: &str = "@sigstore/sign@4.1.1 @sigstore/bundle@4.0.0";

/// A program that signs a statement, with the key and the statement as its arguments.
const SIGN: &str = r#"import { createSign } from "node:crypto";
import { readFileSync } from "node:fs";
import { bundleToJSON } from "@sigstore/bundle";
import { DSSEBundleBuilder } from "@sigstore/sign";
const [key, statement] = process.argv.slice(2).map((file) => readFileSync(file));
const signer = {
  async sign(data) {
    const signature = createSign("sha256").update(data).sign(key);
    return { signature, key: { $case: "publicKey", publicKey: "", hint: "ci" } };
  },
};
const builder = new DSSEBundleBuilder({ signer, witnesses: [] });
const bundle = await builder.create({ type: "application/vnd.in-toto+json", data: statement });
process.stdout.write(JSON.stringify(bundleToJSON(bundle)));
"#;

/// A running `docker-registry`.
struct Registry {
    process: Child,
    address: SocketAddr,
}

impl Registry {
    /// Starts a registry with its content in a folder, and with more lines of its section
    /// `http`, and below.
    async fn start(folder: &Folder, address: SocketAddr, more: &str) -> Self {
        let content = folder.path("content");
        let config = folder.write(
            "registry.yml",
            format!(
                "version: 0.1\nstorage:\n  filesystem:\n    rootdirectory: {content}\n\
                 http:\n  addr: {address}\n{more}"
            ),
        );
        let process = Command::new("docker-registry")
            .args(["serve", &config])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let registry = Self { process, address };
        until("docker-registry", || TcpStream::connect(address).is_ok()).await;
        registry
    }

    /// Adds a blob, and returns its descriptor.
    fn add_blob(&self, folder: &Folder, media_type: &str, content: &[u8]) -> Value {
        let digest = format!("sha256:{}", Digest::new(content));
        let file = folder.replace("blob", content);
        let address = self.address;
        let location = run(&format!(
            "curl -sSf -o /dev/null -w '%header{{location}}' -X POST http://{address}/v2/a/b/blobs/uploads/"
        ));
        let location = location.trim();
        let kind = "content-type: application/octet-stream";
        let url = format!("'{location}&digest={digest}'");
        run(&format!("curl -sSf -X PUT -H '{kind}' --data-binary @{file} {url}"));
        json!({ "mediaType": media_type, "digest": digest, "size": content.len() })
    }

    /// Adds a manifest or an index, and returns its digest.
    fn add_manifest(&self, folder: &Folder, tag: &str, manifest: &Value) -> Digest {
        let content = manifest.to_string();
        let file = folder.replace("manifest", &content);
        let kind = manifest["mediaType"].as_str().unwrap();
        let url = format!("http://{}/v2/a/b/manifests/{tag}", self.address);
        run(&format!("curl -sSf -X PUT -H 'content-type: {kind}' --data-binary @{file} {url}"));
        Digest::new(content.as_bytes())
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        self.process.kill().ok();
        self.process.wait().ok();
    }
}

/// Runs a script, and returns its output.
fn run(script: &str) -> String {
    let output = Command::new("sh").args(["-ec", script]).output().unwrap();
    assert!(output.status.success(), "{script}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn manifest(config: &Value, layers: &[Value]) -> Value {
    json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": config,
        "layers": layers,
    })
}

/// Creates a key with `openssl`, and writes settings with it as the key of the signer `ci`.
fn with_key(folder: &Folder) -> String {
    let [key, public] = ["ci.pem", "ci.pub"].map(|name| folder.path(name));
    run(&format!(
        "openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out {key}
         openssl pkey -in {key} -pubout -out {public}"
    ));
    let text = "[registries]\ncache = 'modules'\ndocker-config = 'docker.json'\n\
                signers = { ci = 'ci.pub' }\nrequire-signature = true\n";
    folder.write("docker.json", "{}");
    folder.write("relayer-rest.toml", text)
}

/// Pushes the API's module, and returns its reference with the digest.
async fn push(folder: &Folder, registry: &Registry, settings: &str) -> (String, Digest) {
    let file = folder.write("api.wasm", DEFAULT_MODULE);
    let tag = format!("oci://{}/a/b:1.0", registry.address);
    let args = ["push", &file, &tag, "--config", settings, "--json"];
    let pushed = Program::new(args).run().await;
    assert_eq!(pushed.status, Some(0), "{pushed:?}");
    let report: Value = serde_json::from_str(&pushed.stdout).unwrap();
    let reference = report["reference"].as_str().unwrap().to_owned();
    let digest = reference.rsplit_once(':').unwrap().1.parse().unwrap();
    (reference, digest)
}

/// Serves the API with a module until the server listens.
async fn serve(module: &str, settings: &str) -> Result<(), Ended> {
    let args = ["--module", module, "--config", settings];
    Program::server().args(args).try_start().await?.stop().await;
    Ok(())
}

#[tokio::test]
#[ignore = "needs docker-registry and htpasswd: apt install docker-registry apache2-utils"]
async fn docker_registry_serves_modules_with_tls_and_passwords() {
    let (folder, authority) = (Folder::new(), Authority::new());
    let address = free_address();
    let SocketAddr::V4(ip) = address else { panic!() };
    // Loopback addresses are reached over HTTP, except for this form of one.
    let name = &format!("{:#x}", ip.ip().to_bits());
    authority.issue(&ip.ip().to_string()).write(&folder, "registry");
    let ca = folder.write("ca.pem", authority.pem());
    let [certificate, key, passwords] =
        ["registry.pem", "registry.key", "passwords"].map(|name| folder.path(name));
    run(&format!("htpasswd -Bbc {passwords} user secret"));
    let more = format!(
        "  tls:\n    certificate: {certificate}\n    key: {key}\n\
         auth:\n  htpasswd:\n    realm: modules\n    path: {passwords}\n"
    );
    let _registry = Registry::start(&folder, address, &more).await;
    let port = address.port();
    let tag = format!("oci://{name}:{port}/a/b:1.0");
    let file = folder.write("api.wasm", DEFAULT_MODULE);
    let out = folder.path("out.wasm");
    let text = "[registries]\ncache = 'modules'\ndocker-config = 'docker.json'\n";
    let settings = folder.write("relayer-rest.toml", text);
    let login = |password: &str| {
        let auth = json!({ "username": "user", "password": password });
        let auths = json!({ "auths": { format!("{name}:{port}"): auth } });
        folder.replace("docker.json", auths.to_string());
    };
    let command = async |args: &[&str], ca: &str| {
        Program::new(args).args(["--config", &settings]).env("SSL_CERT_FILE", ca).run().await
    };
    login("wrong");
    let denied = command(&["push", &file, &tag], &ca).await;
    assert!(denied.stderr.contains("access denied: status 401"), "{denied:?}");
    login("secret");
    let other = folder.write("other.pem", Authority::new().pem());
    let untrusted = command(&["push", &file, &tag], &other).await;
    assert!(untrusted.stderr.contains("invalid peer certificate"), "{untrusted:?}");
    let pushed = command(&["push", &file, &tag], &ca).await;
    assert_eq!(pushed.status, Some(0), "{pushed:?}");
    let inspected = command(&["inspect", &tag], &ca).await;
    assert!(inspected.stdout.contains("\nsignature  none\n"), "{inspected:?}");
    let pulled = command(&["pull", &tag, &out], &ca).await;
    assert_eq!(pulled.status, Some(0), "{pulled:?}");
    assert_eq!(std::fs::read(&out).unwrap(), DEFAULT_MODULE);
}

#[tokio::test]
#[ignore = "needs docker-registry, openssl and curl: apt install docker-registry openssl curl"]
async fn signatures_of_openssl_in_the_form_of_cosign_are_verified() {
    let folder = Folder::new();
    let registry = Registry::start(&folder, free_address(), "").await;
    let settings = with_key(&folder);
    let (module, digest) = push(&folder, &registry, &settings).await;
    let unsigned = serve(&module, &settings).await.unwrap_err();
    assert!(unsigned.stderr.contains("the module has no signature"), "{unsigned:?}");
    let payload = json!({
        "critical": {
            "identity": { "docker-reference": format!("{}/a/b", registry.address) },
            "image": { "docker-manifest-digest": format!("sha256:{digest}") },
            "type": "cosign container image signature",
        },
        "optional": null,
    });
    let payload = payload.to_string();
    let [key, file] = [folder.path("ci.pem"), folder.write("payload", &payload)];
    let signature = run(&format!("openssl dgst -sha256 -sign {key} {file} | base64 -w0"));
    let kind = "application/vnd.dev.cosign.simplesigning.v1+json";
    let mut layer = registry.add_blob(&folder, kind, payload.as_bytes());
    layer["annotations"] = json!({ "dev.cosignproject.cosign/signature": signature });
    let config = registry.add_blob(&folder, "application/vnd.oci.image.config.v1+json", b"{}");
    registry.add_manifest(&folder, &format!("sha256-{digest}.sig"), &manifest(&config, &[layer]));
    serve(&module, &settings).await.unwrap();
    // The module and its signature are there.
    drop(registry);
    serve(&module, &settings).await.unwrap();
}

#[tokio::test]
#[ignore = "needs docker-registry, openssl and curl, and node 20 and npm, with the npm registry"]
async fn bundles_of_sigstore_for_node_are_verified() {
    let folder = Folder::new();
    let registry = Registry::start(&folder, free_address(), "").await;
    let settings = with_key(&folder);
    let (module, digest) = push(&folder, &registry, &settings).await;
    let statement = json!({
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{ "digest": { "sha256": digest.to_string() } }],
        "predicateType": "https://sigstore.dev/cosign/sign/v1",
        "predicate": {},
    });
    folder.write("statement.json", statement.to_string());
    folder.write("sign.mjs", SIGN);
    let here = folder.as_path().display();
    run(&format!("cd {here} && npm install --silent --no-audit --no-fund {SIGSTORE}"));
    let bundle = run(&format!("cd {here} && node sign.mjs ci.pem statement.json"));
    let kind = "application/vnd.dev.sigstore.bundle.v0.3+json";
    let layer = registry.add_blob(&folder, kind, bundle.as_bytes());
    let config = registry.add_blob(&folder, "application/vnd.oci.empty.v1+json", b"{}");
    let bundle = manifest(&config, &[layer]);
    let added = registry.add_manifest(&folder, "bundle", &bundle);
    // This registry has no list of referrers, so it is under a tag.
    let index = json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.index.v1+json",
        "manifests": [{
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "artifactType": kind,
            "digest": format!("sha256:{added}"),
            "size": bundle.to_string().len(),
        }],
    });
    let unsigned = serve(&module, &settings).await.unwrap_err();
    assert!(unsigned.stderr.contains("the module has no signature"), "{unsigned:?}");
    registry.add_manifest(&folder, &format!("sha256-{digest}"), &index);
    serve(&module, &settings).await.unwrap();
}
