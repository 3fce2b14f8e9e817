//! The server's configuration and the script that starts it.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use foreshard_api::{PORT, ValkeyCluster};
use foreshard_kube::{apply, quantity};
use k8s_openapi::api::core::v1::ConfigMap;

use super::{config_name, meta};

/// The file names in the ConfigMap.
pub(super) const CONFIG_FILE: &str = "store.conf";
pub(super) const START_FILE: &str = "start.sh";

/// Defaults that the user may change.
const DEFAULTS: &[(&str, &str)] = &[
    // One lost shard should not stop the others.
    ("cluster-require-full-coverage", "no"),
    // A replica that comes back gets its copy at once, not after the engine's usual five seconds.
    ("repl-diskless-sync", "yes"),
    ("repl-diskless-sync-delay", "0"),
    ("tcp-keepalive", "60"),
];

/// Lines that are Foreshard's, written last. They are refused in `spec.config`.
const OWNED: &[(&str, &str)] = &[
    ("bind", "* -::*"),
    ("protected-mode", "no"),
    ("daemonize", "no"),
    ("dir", "/data"),
    ("cluster-enabled", "yes"),
    ("cluster-config-file", "nodes.conf"),
    ("cluster-node-timeout", "5000"),
    // Otherwise a primary that gave its last slot away turns itself into a replica, and replicas change shards.
    ("cluster-allow-replica-migration", "no"),
    // A replica that was cut off for long may still be the best copy there is: whether it may be elected is decided
    // by the votes, not by a clock.
    ("cluster-replica-validity-factor", "0"),
    // There is no storage yet, so nothing on disk may pretend to be data.
    ("save", "\"\""),
    ("appendonly", "no"),
];

/// Starts the server. It decides no role: a member without data forgets who it was, joins as a stranger, and is told
/// by the operator whom to follow. An emptied primary that kept its name would be followed into emptiness.
const START: &str = r#"#!/bin/sh
set -eu
rm -f /data/nodes.conf
for server in valkey-server redis-server; do
  if command -v "$server" >/dev/null; then
    exec "$server" /etc/foreshard/store.conf \
      --cluster-announce-ip "$POD_IP" \
      --cluster-announce-hostname "$POD_NAME.$SERVICE.$POD_NAMESPACE.svc"
  fi
done
echo "Neither valkey-server nor redis-server is in this image's PATH" >&2
exit 127
"#;

/// The ConfigMap every pod mounts.
pub(super) fn config_map(cluster: &ValkeyCluster) -> ConfigMap {
    let data = BTreeMap::from([
        (CONFIG_FILE.to_owned(), config_file(cluster)),
        (START_FILE.to_owned(), START.to_owned()),
    ]);
    ConfigMap {
        metadata: meta(cluster, config_name(cluster)),
        data: Some(data),
        ..ConfigMap::default()
    }
}

/// Changes when what a server starts with changes.
pub(super) fn hash(config: &ConfigMap) -> String {
    apply::hash(&serde_json::json!(config.data))
}

fn config_file(cluster: &ValkeyCluster) -> String {
    let spec = &cluster.spec;
    let mut lines: BTreeMap<&str, String> = DEFAULTS
        .iter()
        .map(|&(name, value)| (name, value.to_owned()))
        .collect();
    if let Some(bytes) = max_memory(cluster) {
        lines.insert("maxmemory", bytes.to_string());
    }
    for (name, value) in &spec.config {
        lines.insert(name, quoted(value));
    }
    let mut text = String::new();
    for (name, value) in &lines {
        let _ = writeln!(text, "{name} {value}");
    }
    let _ = writeln!(text, "port {PORT}");
    for (name, value) in OWNED {
        let _ = writeln!(text, "{name} {value}");
    }
    text
}

/// An empty value must be written as one. Values with blanks are several arguments, as in the engine's own files.
fn quoted(value: &str) -> String {
    if value.trim().is_empty() {
        "\"\"".to_owned()
    } else {
        value.to_owned()
    }
}

/// Three quarters of the memory limit: the rest is for copies made while saving and syncing, and for buffers.
fn max_memory(cluster: &ValkeyCluster) -> Option<u64> {
    let limits = cluster.spec.resources.limits.as_ref()?;
    let bytes = quantity::whole(&limits.get("memory")?.0)?;
    Some(bytes / 4 * 3)
}
