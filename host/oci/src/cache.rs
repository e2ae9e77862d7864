//! The folder of pulled modules: blobs by their digest, the signatures of manifests, and the
//! manifests to which tags led last.
//!
//! Blobs are verified and signatures are checked again whenever they are used, so the folder
//! needs no protection beyond the one of its user's files. Files get their names only when
//! they are complete.

use std::env;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use bytesize::ByteSize;
use relayer_rest_common::{Digest, files};
use tempfile::NamedTempFile;
use tracing::warn;

use super::reference::Reference;
use super::settings::RegistrySettings;
use super::signature::Signature;

/// The maximum size of the signatures of a manifest, in bytes.
const MAX_SIGNATURES: u64 = 32 << 20;

/// The folder of pulled modules. All methods work without one, too.
#[derive(Debug, Clone)]
pub(crate) struct Cache {
    folder: Option<PathBuf>,
    max_size: ByteSize,
}

impl Cache {
    /// Uses the folder of the settings, or the default one.
    pub(crate) fn new(settings: &RegistrySettings) -> Self {
        let folder = settings.cache.clone().or_else(default_folder);
        Self { folder, max_size: settings.cache_size }
    }

    /// Returns whether there is a blob of this digest, which is not verified yet.
    pub(crate) fn has(&self, digest: Digest) -> bool {
        self.blob_file(digest).is_some_and(|file| file.is_file())
    }

    /// Returns the blob of this digest, if it is there and at most this large.
    pub(crate) fn blob(&self, digest: Digest, max: u64) -> Option<Vec<u8>> {
        let file = self.blob_file(digest)?;
        let bytes = files::read(&file, max).ok()?;
        if Digest::new(&bytes) != digest {
            warn!(file = %file.display(), "damaged file in the folder of pulled modules ignored");
            return None;
        }
        // The folder's files are removed in the order of their last use.
        File::open(&file).and_then(|file| file.set_modified(SystemTime::now())).ok();
        Some(bytes)
    }

    /// Keeps a blob.
    pub(crate) fn keep_blob(&self, digest: Digest, bytes: &[u8]) {
        self.keep("blobs", &digest.to_string(), bytes);
        self.evict();
    }

    /// Returns the signatures of a manifest.
    pub(crate) fn signatures(&self, manifest: Digest) -> Vec<Signature> {
        let folder = self.folder.as_deref();
        let file = folder.map(|folder| folder.join("signatures").join(manifest.to_string()));
        let bytes = file.and_then(|file| files::read(&file, MAX_SIGNATURES).ok());
        bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default()
    }

    /// Keeps the signatures of a manifest.
    pub(crate) fn keep_signatures(&self, manifest: Digest, signatures: &[Signature]) {
        let text = serde_json::to_vec(signatures).expect("its keys are texts");
        self.keep("signatures", &manifest.to_string(), &text);
    }

    /// Returns the manifest to which a tag led last.
    pub(crate) fn tagged(&self, reference: &Reference) -> Option<Digest> {
        let file = self.folder.as_deref()?.join("tags").join(tag_name(reference));
        String::from_utf8(files::read(&file, 64).ok()?).ok()?.parse().ok()
    }

    /// Keeps the manifest to which a tag leads.
    pub(crate) fn keep_tag(&self, reference: &Reference, manifest: Digest) {
        self.keep("tags", &tag_name(reference), manifest.to_string().as_bytes());
    }

    fn blob_file(&self, digest: Digest) -> Option<PathBuf> {
        Some(self.folder.as_deref()?.join("blobs").join(digest.to_string()))
    }

    /// Writes a file. Without it, the module is pulled again, so a failure is logged only.
    fn keep(&self, kind: &str, name: &str, bytes: &[u8]) {
        let Some(folder) = self.folder.as_deref().map(|folder| folder.join(kind)) else { return };
        if let Err(error) = write(&folder, name, bytes) {
            let folder = folder.display();
            warn!(%folder, %error, "cannot keep a pulled module; check registries.cache");
        }
    }

    /// Removes the blobs that were not used for longest, until the others fit the limit.
    fn evict(&self) {
        let Some(folder) = self.folder.as_deref() else { return };
        let Ok(entries) = fs::read_dir(folder.join("blobs")) else { return };
        let mut blobs: Vec<_> = entries
            .filter_map(|entry| {
                let entry = entry.ok()?;
                let metadata = entry.metadata().ok()?;
                Some((metadata.modified().ok()?, metadata.len(), entry.path()))
            })
            .collect();
        blobs.sort();
        let mut size: u64 = blobs.iter().map(|(_, size, _)| size).sum();
        // The last one is in use.
        blobs.pop();
        for (_, bytes, file) in blobs {
            if size <= self.max_size.as_u64() {
                break;
            }
            if fs::remove_file(file).is_ok() {
                size -= bytes;
            }
        }
    }
}

/// Returns `relayer-rest/modules` in the folder for caches of the user.
fn default_folder() -> Option<PathBuf> {
    let absolute = |name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let home = || Some(absolute("HOME")?.join(".cache"));
    let caches = absolute("XDG_CACHE_HOME").or_else(home)?;
    Some(caches.join("relayer-rest").join("modules"))
}

/// Returns the name of the file of a tag: references have characters that names cannot have.
fn tag_name(reference: &Reference) -> String {
    Digest::new(reference.to_string().as_bytes()).to_string()
}

fn write(folder: &Path, name: &str, bytes: &[u8]) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    let mut file = NamedTempFile::new_in(folder)?;
    file.write_all(bytes)?;
    file.persist(folder.join(name))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::Cache;
    use bytesize::ByteSize;
    use relayer_rest_common::Digest;
    use std::fs;

    fn cache(folder: &tempfile::TempDir, max_size: u64) -> Cache {
        let folder = Some(folder.path().join("modules"));
        Cache { folder, max_size: ByteSize::b(max_size) }
    }

    #[test]
    fn blobs_are_verified_when_they_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let cache = cache(&folder, 1000);
        let digest = Digest::new(b"abc");
        assert_eq!(cache.blob(digest, 10), None);
        cache.keep_blob(digest, b"abc");
        assert!(cache.has(digest));
        assert_eq!(cache.blob(digest, 10).as_deref(), Some(&b"abc"[..]));
        assert_eq!(cache.blob(digest, 2), None);
        fs::write(folder.path().join(format!("modules/blobs/{digest}")), "abd").unwrap();
        assert_eq!(cache.blob(digest, 10), None);
    }

    #[test]
    fn the_blobs_unused_for_longest_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let cache = cache(&folder, 25);
        let blobs: Vec<_> = (0..4_u8).map(|number| [number; 10]).collect();
        let has = || blobs.iter().map(|blob| cache.has(Digest::new(blob))).collect::<Vec<_>>();
        for blob in &blobs[..3] {
            cache.keep_blob(Digest::new(blob), blob);
        }
        assert_eq!(has(), [false, true, true, false]);
        assert!(cache.blob(Digest::new(&blobs[1]), 10).is_some());
        cache.keep_blob(Digest::new(&blobs[3]), &blobs[3]);
        assert_eq!(has(), [false, true, false, true]);
    }

    #[test]
    fn tags_lead_to_manifests() {
        let folder = tempfile::tempdir().unwrap();
        let cache = cache(&folder, 1000);
        let [one, other] = ["oci://a/b:1", "oci://a/b:2"].map(|text| text.parse().unwrap());
        let digest = Digest::new(b"abc");
        cache.keep_tag(&one, digest);
        assert_eq!([cache.tagged(&one), cache.tagged(&other)], [Some(digest), None]);
    }
}
