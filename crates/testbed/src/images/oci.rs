//! The OCI image layout: blobs named by their digest, and an index that says which is the image.

use std::fs::File;
use std::io::{Read, Seek as _, SeekFrom, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use serde_json::json;
use sha2::{Digest as _, Sha256};

const INDEX: &str = "application/vnd.oci.image.index.v1+json";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar";

/// What an image does when it is started.
#[derive(Debug, Clone, Default)]
pub struct Config {
    /// `uid:gid` of the process.
    pub user: String,
    /// The program, before the arguments a user gives.
    pub entrypoint: Vec<String>,
    /// The arguments when a user gives none.
    pub command: Vec<String>,
    /// Where the process starts.
    pub folder: String,
}

/// A layer: a tar archive, not compressed, since it only travels within the machine.
#[derive(Debug)]
pub enum Layer {
    /// An archive on disk.
    File(PathBuf),
    /// An archive in memory.
    Memory(Vec<u8>),
}

/// Content's digest as OCI writes it.
#[must_use]
pub fn digest(content: &[u8]) -> String {
    format!("sha256:{}", hex(&Sha256::digest(content)))
}

/// A digest of everything a reader gives, and its length.
fn digest_reader(mut reader: impl Read) -> Result<(String, u64)> {
    let mut hasher = Sha256::new();
    let length = std::io::copy(&mut reader, &mut hasher)?;
    Ok((format!("sha256:{}", hex(&hasher.finalize())), length))
}

/// Bytes as hexadecimal text.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Writes an image as an OCI archive and gives the digest of its manifest.
pub fn write(archive: &Path, name: &str, config: &Config, layers: &[Layer]) -> Result<String> {
    let file = File::create(archive).with_context(|| format!("make {}", archive.display()))?;
    let mut tar = tar::Builder::new(std::io::BufWriter::new(file));
    let digest =
        append(&mut tar, name, config, layers).with_context(|| format!("write {}", archive.display()))?;
    tar.into_inner()
        .and_then(|mut file| file.flush())
        .with_context(|| format!("write {}", archive.display()))?;
    Ok(digest)
}

fn append(
    tar: &mut tar::Builder<impl Write>,
    name: &str,
    config: &Config,
    layers: &[Layer],
) -> Result<String> {
    let mut descriptors = Vec::new();
    let mut digests = Vec::new();
    for layer in layers {
        let (digest, length) = append_layer(tar, layer)?;
        descriptors.push(json!({"mediaType": LAYER, "digest": digest, "size": length}));
        digests.push(digest);
    }
    let config = json!({
        "architecture": "amd64",
        "os": "linux",
        "config": {
            "User": config.user,
            "Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"],
            "Entrypoint": config.entrypoint,
            "Cmd": config.command,
            "WorkingDir": config.folder,
        },
        "rootfs": {"type": "layers", "diff_ids": digests},
    });
    let config = append_blob(tar, CONFIG, config.to_string().as_bytes())?;
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": config,
        "layers": descriptors,
    });
    let mut manifest = append_blob(tar, MANIFEST, manifest.to_string().as_bytes())?;
    let digest = manifest
        .get("digest")
        .and_then(serde_json::Value::as_str)
        .unwrap_or_default()
        .to_owned();
    if let Some(fields) = manifest.as_object_mut() {
        fields.insert("annotations".into(), json!({"io.containerd.image.name": name}));
    }
    let index = json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": [manifest]});
    append_file(tar, "index.json", index.to_string().as_bytes())?;
    append_file(tar, "oci-layout", br#"{"imageLayoutVersion":"1.0.0"}"#)?;
    Ok(digest)
}

fn append_layer(tar: &mut tar::Builder<impl Write>, layer: &Layer) -> Result<(String, u64)> {
    match layer {
        Layer::Memory(content) => {
            let digest = digest(content);
            append_file(tar, &blob_path(&digest), content)?;
            Ok((digest, content.len() as u64))
        }
        Layer::File(path) => {
            let mut file = File::open(path).with_context(|| format!("open {}", path.display()))?;
            let (digest, length) = digest_reader(&mut file)?;
            file.seek(SeekFrom::Start(0))?;
            append_reader(tar, &blob_path(&digest), file, length)?;
            Ok((digest, length))
        }
    }
}

fn append_blob(tar: &mut tar::Builder<impl Write>, kind: &str, content: &[u8]) -> Result<serde_json::Value> {
    let digest = digest(content);
    append_file(tar, &blob_path(&digest), content)?;
    Ok(json!({"mediaType": kind, "digest": digest, "size": content.len()}))
}

fn blob_path(digest: &str) -> String {
    format!("blobs/{}", digest.replace(':', "/"))
}

fn append_file(tar: &mut tar::Builder<impl Write>, path: &str, content: &[u8]) -> Result<()> {
    append_reader(tar, path, content, content.len() as u64)
}

fn append_reader(
    tar: &mut tar::Builder<impl Write>,
    path: &str,
    content: impl Read,
    length: u64,
) -> Result<()> {
    let mut header = header(tar::EntryType::Regular, 0o644, 0);
    header.set_size(length);
    tar.append_data(&mut header, path, content)
        .with_context(|| format!("append {path}"))
}

/// A header whose every field is decided here, so that the same content always has the same digest.
#[must_use]
pub fn header(kind: tar::EntryType, mode: u32, owner: u64) -> tar::Header {
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_uid(owner);
    header.set_gid(owner);
    header.set_mtime(0);
    header.set_size(0);
    header
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn read(archive: &[u8]) -> BTreeMap<String, Vec<u8>> {
        let mut entries = BTreeMap::new();
        for entry in tar::Archive::new(archive).entries().unwrap() {
            let mut entry = entry.unwrap();
            let mut content = Vec::new();
            entry.read_to_end(&mut content).unwrap();
            entries.insert(entry.path().unwrap().display().to_string(), content);
        }
        entries
    }

    fn image(layer: &[u8]) -> (Vec<u8>, String) {
        let mut tar = tar::Builder::new(Vec::new());
        let config = Config {
            user: "999:999".into(),
            ..Config::default()
        };
        let digest = append(
            &mut tar,
            "docker.io/a/b:1",
            &config,
            &[Layer::Memory(layer.to_vec())],
        )
        .unwrap();
        (tar.into_inner().unwrap(), digest)
    }

    #[test]
    fn known_digest() {
        assert_eq!(
            digest(b""),
            "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
        );
    }

    #[test]
    fn every_blob_is_named_by_its_digest_and_every_reference_resolves() {
        let (archive, manifest_digest) = image(b"layer");
        let entries = read(&archive);
        for (path, content) in entries.iter().filter(|(path, _)| path.starts_with("blobs/")) {
            assert_eq!(*path, blob_path(&digest(content)));
        }
        let parse = |path: &str| serde_json::from_slice::<serde_json::Value>(&entries[path]).unwrap();
        let index = parse("index.json");
        assert_eq!(index["manifests"][0]["digest"], manifest_digest.as_str());
        assert_eq!(
            index["manifests"][0]["annotations"]["io.containerd.image.name"],
            "docker.io/a/b:1"
        );
        let manifest = parse(&blob_path(&manifest_digest));
        let config = parse(&blob_path(manifest["config"]["digest"].as_str().unwrap()));
        assert_eq!(config["rootfs"]["diff_ids"][0], manifest["layers"][0]["digest"]);
        assert_eq!(config["config"]["User"], "999:999");
        assert_eq!(manifest["layers"][0]["size"], 5);
    }

    #[test]
    fn the_same_content_gives_the_same_archive() {
        assert_eq!(image(b"x").0, image(b"x").0);
        assert_ne!(image(b"x").1, image(b"y").1);
    }
}
