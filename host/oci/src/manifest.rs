//! Manifests of modules, in the layout of `wkg`: a configuration that describes the
//! component, and one layer with the component itself.

use std::time::SystemTime;

use relayer_rest_common::Digest;
use relayer_rest_common::text::for_log;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::error::RegistryError;
use super::reference::{SHA256, parse_digest};

/// The media types of OCI.
pub(crate) const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
pub(crate) const INDEX: &str = "application/vnd.oci.image.index.v1+json";

/// The media types of a module's configuration and of its component.
const CONFIG: &str = "application/vnd.wasm.config.v0+json";
const COMPONENT: &str = "application/wasm";

/// The maximum size of a manifest, in bytes.
pub(crate) const MAX_MANIFEST: u64 = 1 << 20;

/// The imports and exports of a component.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct World {
    /// The interfaces that it imports.
    pub imports: Vec<String>,
    /// The interfaces that it exports.
    pub exports: Vec<String>,
}

/// A manifest: a list of blobs.
#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Manifest {
    schema_version: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) media_type: Option<String>,
    pub(crate) config: Descriptor,
    pub(crate) layers: Vec<Descriptor>,
}

/// A blob of a registry.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Descriptor {
    pub(crate) media_type: String,
    #[serde(deserialize_with = "read_digest", serialize_with = "write_digest")]
    pub(crate) digest: Digest,
    pub(crate) size: u64,
    #[serde(default, skip_serializing_if = "serde_json::Map::is_empty")]
    pub(crate) annotations: serde_json::Map<String, serde_json::Value>,
}

/// A list of manifests.
#[derive(Debug, Deserialize)]
pub(crate) struct Index {
    #[serde(default)]
    pub(crate) manifests: Vec<IndexEntry>,
}

/// A manifest in a list.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct IndexEntry {
    pub(crate) artifact_type: Option<String>,
    #[serde(deserialize_with = "read_digest")]
    pub(crate) digest: Digest,
}

/// The configuration of a module.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct WasmConfig<'a> {
    created: String,
    architecture: &'static str,
    os: &'static str,
    layer_digests: [String; 1],
    component: Component<'a>,
}

#[derive(Serialize)]
struct Component<'a> {
    exports: &'a [String],
    imports: &'a [String],
    target: Option<&'a str>,
}

/// A blob to push, with its descriptor.
pub(crate) struct Blob<'a> {
    pub(crate) descriptor: Descriptor,
    pub(crate) bytes: std::borrow::Cow<'a, [u8]>,
}

impl Manifest {
    /// Parses a manifest.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, RegistryError> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Kind {
            media_type: Option<String>,
            #[serde(default)]
            manifests: Option<serde::de::IgnoredAny>,
        }
        let kind: Kind = serde_json::from_slice(bytes).map_err(|error| invalid(&error))?;
        if kind.manifests.is_some() || kind.media_type.as_deref() == Some(INDEX) {
            let problem = "it is a list of images, not a module";
            return Err(RegistryError::Manifest(problem.to_owned()));
        }
        let manifest: Self = serde_json::from_slice(bytes).map_err(|error| invalid(&error))?;
        if manifest.schema_version != 2 {
            let problem = format!("schema version {} is not 2", manifest.schema_version);
            return Err(RegistryError::Manifest(problem));
        }
        Ok(manifest)
    }

    /// Returns the component, if this is the manifest of a module.
    pub(crate) fn component(&self) -> Result<&Descriptor, RegistryError> {
        let error = |problem: String| Err(RegistryError::Manifest(problem));
        if self.config.media_type != CONFIG {
            let found = for_log(&self.config.media_type);
            return error(format!("the configuration is {found}, not {CONFIG}"));
        }
        match &self.layers[..] {
            [layer] if layer.media_type == COMPONENT => Ok(layer),
            [layer] => {
                let found = for_log(&layer.media_type);
                error(format!("the layer is {found}, not {COMPONENT}"))
            }
            layers => error(format!("it has {} layers instead of one", layers.len())),
        }
    }

    /// Creates the manifest of a component, and its configuration.
    pub(crate) fn new<'a>(
        component: &'a [u8],
        world: &World,
        created: SystemTime,
    ) -> (Self, [Blob<'a>; 2]) {
        let layer = Descriptor::new(COMPONENT, component);
        let config = WasmConfig {
            created: humantime::format_rfc3339_seconds(created).to_string(),
            architecture: "wasm",
            os: "wasip2",
            layer_digests: [format!("{SHA256}{}", layer.digest)],
            component: Component { exports: &world.exports, imports: &world.imports, target: None },
        };
        let config = serde_json::to_vec(&config).expect("its keys are texts");
        let manifest = Self {
            schema_version: 2,
            media_type: Some(MANIFEST.to_owned()),
            config: Descriptor::new(CONFIG, &config),
            layers: vec![layer.clone()],
        };
        let config = Blob { descriptor: manifest.config.clone(), bytes: config.into() };
        (manifest, [config, Blob { descriptor: layer, bytes: component.into() }])
    }

    /// Returns the bytes of the manifest.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("its keys are texts")
    }
}

impl Descriptor {
    /// Describes a blob.
    fn new(media_type: &str, bytes: &[u8]) -> Self {
        Self {
            media_type: media_type.to_owned(),
            digest: Digest::new(bytes),
            size: bytes.len() as u64,
            annotations: serde_json::Map::new(),
        }
    }

    /// Returns an annotation that is a text.
    pub(crate) fn annotation(&self, name: &str) -> Option<&str> {
        self.annotations.get(name)?.as_str()
    }
}

fn invalid(error: &serde_json::Error) -> RegistryError {
    RegistryError::Manifest(format!("not valid: {}", for_log(&error.to_string())))
}

fn read_digest<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Digest, D::Error> {
    let text = String::deserialize(deserializer)?;
    parse_digest(&text).ok_or_else(|| {
        let text = for_log(&text);
        serde::de::Error::custom(format!("\"{text}\" is not a digest sha256:…"))
    })
}

fn write_digest<S: Serializer>(digest: &Digest, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&format_args!("{SHA256}{digest}"))
}

#[cfg(test)]
mod tests {
    use super::{Manifest, World};
    use serde_json::{Value, json};
    use std::time::SystemTime;

    /// The manifest and the configuration that wkg 0.16.1 pushed for a module.
    const OF_WKG: [&str; 2] = [
        r#"{"config":{"digest":"sha256:8c969276655a97f480135e0e5bf46f54a0c9a949f3912781060a710c62012047","mediaType":"application/vnd.wasm.config.v0+json","size":605},"layers":[{"annotations":{"org.opencontainers.image.title":"w.wasm"},"digest":"sha256:f69c99bfa1a3901cc5b0e2db7f0bc1e666f361d4c0db88fd2c04f7d947083854","mediaType":"application/wasm","size":164295}],"mediaType":"application/vnd.oci.image.manifest.v1+json","schemaVersion":2}"#,
        r#"{"created":"2026-11-28T10:41:31.507547231Z","author":null,"architecture":"wasm","os":"wasip2","layerDigests":["sha256:f69c99bfa1a3901cc5b0e2db7f0bc1e666f361d4c0db88fd2c04f7d947083854"],"component":{"exports":["relayer:rest/handler@0.1.0"],"imports":["relayer:rest/types@0.1.0","relayer:rest/failure@0.1.0"],"target":null}}"#,
    ];

    fn manifest() -> Value {
        let digest = format!("sha256:{}", "0a".repeat(32));
        json!({
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": {
                "mediaType": "application/vnd.wasm.config.v0+json", "digest": digest, "size": 2,
            },
            "layers": [{ "mediaType": "application/wasm", "digest": digest, "size": 3 }],
        })
    }

    #[test]
    fn a_manifest_of_wkg_names_its_component() {
        let manifest = Manifest::parse(OF_WKG[0].as_bytes()).unwrap();
        let component = manifest.component().unwrap();
        assert_eq!((component.size, &*component.digest.short()), (164_295, "f69c99bfa1a3"));
    }

    #[test]
    fn other_manifests_are_rejected_with_the_reason() {
        let without = |pointer: &str, value: Value| {
            let mut manifest = manifest();
            *manifest.pointer_mut(pointer).unwrap() = value;
            manifest.to_string()
        };
        let layers = manifest()["layers"][0].clone();
        for (text, problem) in [
            ("{".to_owned(), "not valid: EOF"),
            ("[]".to_owned(), "not valid: "),
            (json!({ "schemaVersion": 2, "manifests": [] }).to_string(), "a list of images"),
            (without("/schemaVersion", json!(1)), "schema version 1"),
            (without("/config/mediaType", json!("x")), "the configuration is x, not"),
            (without("/config/mediaType", json!("x\ny")), "the configuration is x\\ny, not"),
            (without("/layers/0/mediaType", json!("x")), "the layer is x, not"),
            (without("/layers/0/mediaType", json!("x\ny")), "the layer is x\\ny, not"),
            (without("/layers", json!([])), "it has 0 layers"),
            (without("/layers", json!([layers, layers])), "it has 2 layers"),
            (without("/layers/0/digest", json!("sha512:00")), "is not a digest"),
            (without("/layers/0/digest", json!("\n")), "\"\\n\" is not a digest"),
            (without("/layers/0/size", json!("\n")), "not valid: invalid type"),
            (without("/layers/0/size", json!(-1)), "not valid: invalid value"),
        ] {
            let parsed = Manifest::parse(text.as_bytes());
            let error = parsed.and_then(|manifest| manifest.component().cloned()).unwrap_err();
            let error = error.to_string();
            assert!(error.contains(problem) && !error.contains('\n'), "{error}");
        }
    }

    #[test]
    fn a_new_manifest_has_the_layout_of_wkg() {
        let world = World { imports: vec!["a:b/c".into()], exports: vec!["d:e/f".into()] };
        let (manifest, [config, layer]) = Manifest::new(b"abc", &world, SystemTime::UNIX_EPOCH);
        assert_eq!(*layer.bytes, *b"abc");
        let parsed = Manifest::parse(&manifest.to_bytes()).unwrap();
        assert_eq!(*parsed.component().unwrap(), layer.descriptor);
        assert_eq!(parsed.config, config.descriptor);
        let config: Value = serde_json::from_slice(&config.bytes).unwrap();
        let digest = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        let expected = json!({
            "created": "1970-01-01T00:00:00Z",
            "architecture": "wasm",
            "os": "wasip2",
            "layerDigests": [format!("sha256:{digest}")],
            "component": { "exports": ["d:e/f"], "imports": ["a:b/c"], "target": null },
        });
        assert_eq!(config, expected);
    }

    #[test]
    fn a_new_configuration_has_the_fields_of_wkg() {
        let world = World {
            imports: ["types", "failure"].map(|name| format!("relayer:rest/{name}@0.1.0")).into(),
            exports: vec!["relayer:rest/handler@0.1.0".into()],
        };
        let (_, [config, _]) = Manifest::new(b"abc", &world, SystemTime::UNIX_EPOCH);
        let mut config: Value = serde_json::from_slice(&config.bytes).unwrap();
        let of_wkg: Value = serde_json::from_str(OF_WKG[1]).unwrap();
        // The time, the digest and the author, who is not known, differ.
        for field in ["created", "layerDigests", "author"] {
            config[field] = of_wkg[field].clone();
        }
        assert_eq!(config, of_wkg);
    }
}
