//! Kubeconfig files: who somebody is and where the API server listens.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};
use serde_json::json;

use crate::addresses::{API_PORT, control_plane_address};
use crate::pki::{Files, Pki};

/// Writes the kubeconfig of an identity. It points at the certificate files, which are only readable by root.
pub fn write(path: &Path, pki: &Pki, identity: &Files) -> Result<()> {
    fs::write(path, render(pki, identity)).with_context(|| format!("write {}", path.display()))
}

/// The text of a kubeconfig. JSON is YAML, and every client reads it.
#[must_use]
pub fn render(pki: &Pki, identity: &Files) -> String {
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "testbed", "cluster": {
            "server": format!("https://{}:{API_PORT}", control_plane_address()),
            "certificate-authority": pki.authority().certificate,
        }}],
        "users": [{"name": "user", "user": {
            "client-certificate": identity.certificate,
            "client-key": identity.key,
        }}],
        "contexts": [{"name": "testbed", "context": {"cluster": "testbed", "user": "user"}}],
        "current-context": "testbed",
    });
    format!("{config:#}\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paths::Paths;

    #[test]
    fn names_the_server_the_authority_and_the_identity() {
        let pki = Pki::of(&Paths::at("/repo").unwrap());
        let text = render(&pki, &pki.files("admin"));
        let config: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(
            config["clusters"][0]["cluster"]["server"],
            "https://172.31.255.1:6443"
        );
        assert_eq!(
            config["clusters"][0]["cluster"]["certificate-authority"],
            "/repo/.testbed/run/pki/ca.crt"
        );
        assert_eq!(
            config["users"][0]["user"]["client-key"],
            "/repo/.testbed/run/pki/admin.key"
        );
        assert_eq!(config["current-context"], config["contexts"][0]["name"]);
    }
}
