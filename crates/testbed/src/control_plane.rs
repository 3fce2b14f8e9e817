//! etcd, the API server, the controller manager and the scheduler, all in node 1's namespace.

use std::time::Duration;

use std::fs;

use anyhow::{Context as _, Result};

use crate::addresses::{POD_RANGE, SERVICE_RANGE, control_plane_address, namespace};
use crate::api::Api;
use crate::kubeconfig;
use crate::paths::Paths;
use crate::pki::{Files, Pki};
use crate::process::{self, Component};
use crate::wait;

/// The component names, as in logs and records.
pub const ETCD: &str = "etcd";
/// The API server.
pub const API_SERVER: &str = "kube-apiserver";
/// The controller manager.
pub const CONTROLLER_MANAGER: &str = "kube-controller-manager";
/// The scheduler.
pub const SCHEDULER: &str = "kube-scheduler";

/// The API server needs 4 s on idle cores and ten times that when builds take both.
const API_SERVER_TIMEOUT: Duration = Duration::from_mins(2);

/// Starts etcd and the API server. They look for each other, so neither waits.
pub fn start_store_and_api(paths: &Paths) -> Result<()> {
    process::start(paths, &etcd(paths))?;
    start_api_server(paths)
}

/// Starts the API server alone.
pub fn start_api_server(paths: &Paths) -> Result<()> {
    fs::write(audit_policy(paths), AUDIT_POLICY).context("write the audit policy")?;
    process::start(paths, &api_server(paths)).map(drop)
}

/// Waits until the API server answers that it is ready.
pub fn wait_for_api_server(paths: &Paths, api: &Api) -> Result<()> {
    wait::for_component(
        paths,
        API_SERVER,
        "the API server to be ready",
        API_SERVER_TIMEOUT,
        || Ok(api.ready()?.then_some(())),
    )
}

/// Starts what works through the API server.
pub fn start_controllers(paths: &Paths) -> Result<()> {
    let pki = Pki::of(paths);
    for name in ["controller-manager", "scheduler"] {
        kubeconfig::write(&config(paths, name), &pki, &pki.files(name))?;
    }
    process::start(paths, &controller_manager(paths))?;
    process::start(paths, &scheduler(paths)).map(drop)
}

/// Writes the administrator's kubeconfig.
pub fn write_admin_config(paths: &Paths) -> Result<()> {
    let pki = Pki::of(paths);
    kubeconfig::write(&paths.kubeconfig(), &pki, &pki.files("admin"))
        .context("write the administrator's kubeconfig")
}

/// The kubeconfig of a component.
#[must_use]
pub fn config(paths: &Paths, name: &str) -> std::path::PathBuf {
    paths.run().join(format!("{name}.kubeconfig"))
}

/// Which requests the API server notes: writes by service accounts. Tests read there what a controller really wrote.
const AUDIT_POLICY: &str = "\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
rules:
- level: Metadata
  userGroups: [system:serviceaccounts]
  verbs: [create, update, patch, delete, deletecollection]
- level: None
";

fn audit_policy(paths: &Paths) -> std::path::PathBuf {
    paths.run().join("audit-policy.yaml")
}

fn etcd(paths: &Paths) -> Component {
    let pki = Pki::of(paths);
    let Files { certificate, key } = pki.files("etcd");
    component(
        paths,
        ETCD,
        vec![
            format!("--data-dir={}", paths.run().join("etcd").display()),
            "--listen-client-urls=https://127.0.0.1:2379".into(),
            "--advertise-client-urls=https://127.0.0.1:2379".into(),
            "--listen-peer-urls=http://127.0.0.1:2380".into(),
            format!("--cert-file={}", certificate.display()),
            format!("--key-file={}", key.display()),
            format!("--trusted-ca-file={}", pki.authority().certificate.display()),
            "--client-cert-auth=true".into(),
            // The data of a testbed need not outlive the machine.
            "--unsafe-no-fsync".into(),
            "--log-level=warn".into(),
        ],
    )
}

fn api_server(paths: &Paths) -> Component {
    let pki = Pki::of(paths);
    let authority = pki.authority().certificate.display().to_string();
    let accounts = pki.service_accounts();
    let mut arguments = vec![
        "--etcd-servers=https://127.0.0.1:2379".into(),
        format!("--etcd-cafile={authority}"),
        format!("--advertise-address={}", control_plane_address()),
        "--bind-address=0.0.0.0".into(),
        "--secure-port=6443".into(),
        format!("--client-ca-file={authority}"),
        format!("--service-cluster-ip-range={SERVICE_RANGE}"),
        "--service-account-issuer=https://kubernetes.default.svc.cluster.local".into(),
        format!("--service-account-key-file={}", accounts.certificate.display()),
        format!("--service-account-signing-key-file={}", accounts.key.display()),
        "--authorization-mode=Node,RBAC".into(),
        "--enable-admission-plugins=NodeRestriction".into(),
        "--allow-privileged=true".into(),
        format!("--kubelet-certificate-authority={authority}"),
        // Without it, exec and logs look the node's name up in DNS, where it is not.
        "--kubelet-preferred-address-types=InternalIP".into(),
        format!(
            "--requestheader-client-ca-file={}",
            pki.front_proxy_authority().certificate.display()
        ),
        "--requestheader-allowed-names=front-proxy-client".into(),
        "--requestheader-username-headers=X-Remote-User".into(),
        "--requestheader-group-headers=X-Remote-Group".into(),
        "--requestheader-extra-headers-prefix=X-Remote-Extra-".into(),
        "--enable-aggregator-routing=true".into(),
        "--profiling=false".into(),
        format!("--audit-policy-file={}", audit_policy(paths).display()),
        format!("--audit-log-path={}", paths.log("audit").display()),
    ];
    for (certificate, key, name) in [
        ("--etcd-certfile", "--etcd-keyfile", "apiserver-etcd"),
        ("--tls-cert-file", "--tls-private-key-file", "apiserver"),
        (
            "--kubelet-client-certificate",
            "--kubelet-client-key",
            "apiserver-kubelet",
        ),
        (
            "--proxy-client-cert-file",
            "--proxy-client-key-file",
            "front-proxy",
        ),
    ] {
        let files = pki.files(name);
        arguments.push(format!("{certificate}={}", files.certificate.display()));
        arguments.push(format!("{key}={}", files.key.display()));
    }
    component(paths, API_SERVER, arguments)
}

fn controller_manager(paths: &Paths) -> Component {
    let pki = Pki::of(paths);
    let authority = pki.authority();
    let config = config(paths, "controller-manager");
    component(
        paths,
        CONTROLLER_MANAGER,
        vec![
            format!("--kubeconfig={}", config.display()),
            format!("--authentication-kubeconfig={}", config.display()),
            format!("--authorization-kubeconfig={}", config.display()),
            "--bind-address=127.0.0.1".into(),
            // One of each, so an election would only add its time to every start.
            "--leader-elect=false".into(),
            "--use-service-account-credentials=true".into(),
            format!(
                "--service-account-private-key-file={}",
                pki.service_accounts().key.display()
            ),
            format!("--root-ca-file={}", authority.certificate.display()),
            format!("--cluster-signing-cert-file={}", authority.certificate.display()),
            format!("--cluster-signing-key-file={}", authority.key.display()),
            format!("--cluster-cidr={POD_RANGE}"),
            // Together with the kubelets' shorter lease: a lost node is noticed in 20 s instead of 50.
            "--node-monitor-grace-period=20s".into(),
            "--node-monitor-period=2s".into(),
            // An autoscaler that looks every 5 s keeps tests of it short.
            "--horizontal-pod-autoscaler-sync-period=5s".into(),
            "--profiling=false".into(),
        ],
    )
}

fn scheduler(paths: &Paths) -> Component {
    let config = config(paths, "scheduler");
    component(
        paths,
        SCHEDULER,
        vec![
            format!("--kubeconfig={}", config.display()),
            format!("--authentication-kubeconfig={}", config.display()),
            format!("--authorization-kubeconfig={}", config.display()),
            "--bind-address=127.0.0.1".into(),
            "--leader-elect=false".into(),
        ],
    )
}

fn component(paths: &Paths, name: &str, arguments: Vec<String>) -> Component {
    Component {
        name: name.to_owned(),
        namespace: namespace(1),
        program: paths.program(name),
        arguments,
    }
}
