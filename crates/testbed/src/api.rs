//! A few requests to the API server, as the administrator.
//!
//! Not `kubectl`, because starting it costs 100 ms and more of the two cores a start fights for; not the `kube` crate,
//! because every request must be made on a thread that is inside the control plane's network namespace.

use std::fs;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use serde_json::Value;
use ureq::Agent;
use ureq::tls::{Certificate, ClientCert, PrivateKey, RootCerts, TlsConfig};

use crate::addresses::{API_PORT, control_plane_address, namespace};
use crate::netns;
use crate::paths::Paths;
use crate::pki::Pki;

/// Longest a single request may take.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// The administrator's connection to the API server.
#[derive(Debug, Clone)]
pub struct Api {
    agent: Agent,
}

impl Api {
    /// Prepares a connection; nothing is sent yet.
    pub fn connect(paths: &Paths) -> Result<Self> {
        let pki = Pki::of(paths);
        let admin = pki.files("admin");
        let authority = Certificate::from_pem(&fs::read(pki.authority().certificate)?)?;
        let certificate = Certificate::from_pem(&fs::read(admin.certificate)?)?;
        let key = PrivateKey::from_pem(&fs::read(admin.key)?)?;
        let tls = TlsConfig::builder()
            .root_certs(RootCerts::new_with_certs(&[authority]))
            .client_cert(Some(ClientCert::new_with_certs(&[certificate], key)))
            .build();
        let agent = Agent::config_builder()
            .tls_config(tls)
            .proxy(None)
            .http_status_as_error(false)
            .timeout_global(Some(REQUEST_TIMEOUT))
            .build()
            .into();
        Ok(Self { agent })
    }

    /// Whether the API server says it is ready.
    pub fn ready(&self) -> Result<bool> {
        let (status, _) = self.get_raw("/readyz")?;
        Ok(status == 200)
    }

    /// Reads an object or a list.
    pub fn get(&self, path: &str) -> Result<Value> {
        let (status, body) = self.get_raw(path)?;
        if status != 200 {
            bail!("GET {path}: {status}: {}", body.trim());
        }
        serde_json::from_str(&body).with_context(|| format!("read the answer to GET {path}"))
    }

    /// Applies an object on the server's side.
    pub fn apply(&self, path: &str, object: &Value) -> Result<()> {
        let address = address(path);
        netns::within(&namespace(1), || {
            let mut response = self
                .agent
                .patch(format!("{address}?fieldManager=testbed&force=true"))
                .content_type("application/apply-patch+yaml")
                .send(object.to_string())
                .with_context(|| format!("apply {path}"))?;
            if !response.status().is_success() {
                let said = response.body_mut().read_to_string().unwrap_or_default();
                bail!("apply {path}: {}: {}", response.status(), said.trim());
            }
            Ok(())
        })
    }

    fn get_raw(&self, path: &str) -> Result<(u16, String)> {
        let address = address(path);
        netns::within(&namespace(1), || {
            let mut response = self
                .agent
                .get(address)
                .call()
                .with_context(|| format!("GET {path}"))?;
            let body = response
                .body_mut()
                .read_to_string()
                .with_context(|| format!("read the answer to GET {path}"))?;
            Ok((response.status().as_u16(), body))
        })
    }
}

fn address(path: &str) -> String {
    format!("https://{}:{API_PORT}{path}", control_plane_address())
}
