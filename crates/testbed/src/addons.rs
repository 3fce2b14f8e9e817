//! What a cluster needs besides Kubernetes itself: DNS, metrics, and a `StorageClass` with its provisioner.
//!
//! They run as processes in node 1's namespace, each with its own identity, and are reached through Services with
//! hand-made endpoints.

use std::fs;
use std::time::Duration;

use anyhow::{Context as _, Result};
use base64::Engine as _;
use serde_json::{Value, json};

use crate::addresses::{DNS_SERVICE, control_plane_address, namespace};
use crate::api::Api;
use crate::control_plane::config;
use crate::paths::Paths;
use crate::pki::Pki;
use crate::process::{self, Component};
use crate::{kubeconfig, netns, wait};

/// The cluster's DNS server.
pub const COREDNS: &str = "coredns";
/// The source of `kubectl top` and of autoscalers.
pub const METRICS_SERVER: &str = "metrics-server";
/// Makes, grows and removes volumes.
pub const STORAGE: &str = "host-path-provisioner";

/// Who CoreDNS is.
pub const COREDNS_USER: &str = "testbed:coredns";
/// Who metrics-server is.
pub const METRICS_USER: &str = "testbed:metrics-server";
/// Who the provisioner is.
pub const STORAGE_USER: &str = "testbed:host-path-provisioner";
/// The name the API server calls metrics-server by.
pub const METRICS_HOST: &str = "metrics-server.kube-system.svc";

const METRICS_PORT: u16 = 4443;
const COREDNS_READY_PORT: u16 = 8181;
const ANSWER_TIMEOUT: Duration = Duration::from_secs(90);

/// Grants the addons their rights, makes their Services and starts them.
pub fn start(paths: &Paths, api: &Api) -> Result<()> {
    for (path, object) in objects(paths)? {
        api.apply(&path, &object)?;
    }
    let pki = Pki::of(paths);
    for name in ["coredns", "metrics-server", "storage"] {
        kubeconfig::write(&config(paths, name), &pki, &pki.files(name))?;
    }
    let corefile = paths.run().join("Corefile");
    fs::write(&corefile, corefile_text(paths)).context("write the Corefile")?;
    fs::create_dir_all(paths.volumes()).context("make the folder of volumes")?;
    for component in components(paths) {
        process::start(paths, &component)?;
    }
    Ok(())
}

/// Waits until DNS and metrics answer.
pub fn wait_ready(paths: &Paths, api: &Api) -> Result<()> {
    let agent: ureq::Agent = ureq::Agent::config_builder()
        .proxy(None)
        .timeout_global(Some(Duration::from_secs(2)))
        .build()
        .into();
    let address = format!("http://{}:{COREDNS_READY_PORT}/ready", control_plane_address());
    wait::for_component(paths, COREDNS, "CoreDNS to answer", ANSWER_TIMEOUT, || {
        netns::within(&namespace(1), || {
            agent.get(&address).call()?;
            Ok(Some(()))
        })
    })?;
    wait::for_component(
        paths,
        METRICS_SERVER,
        "metrics-server to answer",
        ANSWER_TIMEOUT,
        || api.get("/apis/metrics.k8s.io/v1beta1/nodes").map(|_| Some(())),
    )
}

fn components(paths: &Paths) -> [Component; 3] {
    let pki = Pki::of(paths);
    let metrics_config = config(paths, "metrics-server");
    let metrics_config = metrics_config.display();
    let tls = pki.files("metrics-server-tls");
    let component = |name: &str, arguments: Vec<String>| Component {
        name: name.to_owned(),
        namespace: namespace(1),
        program: paths.program(name),
        arguments,
    };
    [
        component(
            COREDNS,
            vec!["-conf".into(), paths.run().join("Corefile").display().to_string()],
        ),
        component(
            METRICS_SERVER,
            vec![
                format!("--kubeconfig={metrics_config}"),
                format!("--authentication-kubeconfig={metrics_config}"),
                format!("--authorization-kubeconfig={metrics_config}"),
                format!("--bind-address={}", control_plane_address()),
                format!("--secure-port={METRICS_PORT}"),
                format!("--tls-cert-file={}", tls.certificate.display()),
                format!("--tls-private-key-file={}", tls.key.display()),
                format!(
                    "--kubelet-certificate-authority={}",
                    pki.authority().certificate.display()
                ),
                "--kubelet-preferred-address-types=InternalIP".into(),
                "--kubelet-use-node-status-port".into(),
                // The shortest it takes; the timeout has to be shorter still.
                "--metric-resolution=10s".into(),
                "--kubelet-request-timeout=5s".into(),
            ],
        ),
        component(
            STORAGE,
            vec![
                format!("--kubeconfig={}", config(paths, "storage").display()),
                format!("--directory={}", paths.volumes().display()),
            ],
        ),
    ]
}

fn corefile_text(paths: &Paths) -> String {
    let config = config(paths, "coredns");
    format!(
        "cluster.local:53 in-addr.arpa:53 {{\n\
         \x20 errors\n\
         \x20 ready {address}:{COREDNS_READY_PORT}\n\
         \x20 kubernetes cluster.local in-addr.arpa {{\n\
         \x20   kubeconfig {config}\n\
         \x20   pods insecure\n\
         \x20   ttl 5\n\
         \x20 }}\n\
         }}\n",
        address = control_plane_address(),
        config = config.display(),
    )
}

fn objects(paths: &Paths) -> Result<Vec<(String, Value)>> {
    let authority = fs::read(Pki::of(paths).authority().certificate).context("read the authority")?;
    let authority = base64::engine::general_purpose::STANDARD.encode(authority);
    let here = control_plane_address();
    let dns_ports = json!([
        {"name": "dns", "port": 53, "protocol": "UDP"},
        {"name": "dns-tcp", "port": 53, "protocol": "TCP"},
    ]);
    let mut objects = vec![
        core(
            "services",
            "Service",
            "kube-dns",
            json!({"spec": {"clusterIP": DNS_SERVICE, "ports": dns_ports}}),
        ),
        slice(
            "kube-dns",
            &json!({"ports": dns_ports, "endpoints": [{"addresses": [here], "conditions": {"ready": true}}]}),
        ),
        core(
            "services",
            "Service",
            "metrics-server",
            json!({"spec": {"ports": [{"name": "https", "port": 443, "targetPort": METRICS_PORT, "protocol": "TCP"}]}}),
        ),
        slice(
            "metrics-server",
            &json!({
                "ports": [{"name": "https", "port": METRICS_PORT, "protocol": "TCP"}],
                "endpoints": [{"addresses": [here], "conditions": {"ready": true}}],
            }),
        ),
        (
            "/apis/apiregistration.k8s.io/v1/apiservices/v1beta1.metrics.k8s.io".to_owned(),
            json!({
                "apiVersion": "apiregistration.k8s.io/v1",
                "kind": "APIService",
                "metadata": {"name": "v1beta1.metrics.k8s.io"},
                "spec": {
                    "group": "metrics.k8s.io", "version": "v1beta1",
                    "groupPriorityMinimum": 100, "versionPriority": 100,
                    "caBundle": authority,
                    "service": {"namespace": "kube-system", "name": "metrics-server", "port": 443},
                },
            }),
        ),
        (
            "/apis/storage.k8s.io/v1/storageclasses/standard".to_owned(),
            json!({
                "apiVersion": "storage.k8s.io/v1",
                "kind": "StorageClass",
                "metadata": {"name": "standard", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
                "provisioner": "testbed.foreshard.io/host-path",
                "reclaimPolicy": "Delete",
                "allowVolumeExpansion": true,
                "volumeBindingMode": "WaitForFirstConsumer",
            }),
        ),
    ];
    objects.extend(rights());
    Ok(objects)
}

/// What each addon may do, and no more.
fn rights() -> Vec<(String, Value)> {
    let rule = |group: &str, resources: &[&str], verbs: &[&str]| json!({"apiGroups": [group], "resources": resources, "verbs": verbs});
    let read = ["get", "list", "watch"];
    let mut objects = Vec::new();
    for (name, user, rules) in [
        (
            "testbed:coredns",
            COREDNS_USER,
            vec![
                rule(
                    "",
                    &["endpoints", "services", "pods", "namespaces"],
                    &["list", "watch"],
                ),
                rule("discovery.k8s.io", &["endpointslices"], &["list", "watch"]),
            ],
        ),
        (
            "testbed:metrics-server",
            METRICS_USER,
            vec![
                rule("", &["nodes/metrics"], &["get"]),
                rule("", &["pods", "nodes", "namespaces"], &read),
            ],
        ),
        (
            "testbed:host-path-provisioner",
            STORAGE_USER,
            vec![
                rule(
                    "",
                    &["persistentvolumes"],
                    &["get", "list", "watch", "create", "patch", "delete"],
                ),
                rule("", &["persistentvolumeclaims"], &read),
                rule("", &["persistentvolumeclaims/status"], &["patch"]),
                rule("storage.k8s.io", &["storageclasses"], &read),
            ],
        ),
        (
            // The API server asks kubelets for logs, exec and metrics.
            "testbed:apiserver-kubelet",
            "kube-apiserver-kubelet-client",
            vec![rule(
                "",
                &["nodes/proxy", "nodes/stats", "nodes/log", "nodes/metrics"],
                &["*"],
            )],
        ),
    ] {
        objects.push((
            format!("{RBAC}/clusterroles/{name}"),
            json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": name}, "rules": rules}),
        ));
        objects.push(binding(name, name, user));
    }
    // Asking the API server who a caller is and what it may do is the same right for every extension.
    objects.push(binding(
        "testbed:metrics-server-delegation",
        "system:auth-delegator",
        METRICS_USER,
    ));
    objects.push((
        "/apis/rbac.authorization.k8s.io/v1/namespaces/kube-system/rolebindings/testbed:metrics-server".to_owned(),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": {"name": "testbed:metrics-server", "namespace": "kube-system"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "extension-apiserver-authentication-reader"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": METRICS_USER}],
        }),
    ));
    objects
}

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";

fn binding(name: &str, role: &str, user: &str) -> (String, Value) {
    (
        format!("{RBAC}/clusterrolebindings/{name}"),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
        }),
    )
}

fn core(plural: &str, kind: &str, name: &str, mut object: Value) -> (String, Value) {
    if let Some(fields) = object.as_object_mut() {
        fields.insert("apiVersion".into(), json!("v1"));
        fields.insert("kind".into(), json!(kind));
        fields.insert(
            "metadata".into(),
            json!({"name": name, "namespace": "kube-system"}),
        );
    }
    (format!("/api/v1/namespaces/kube-system/{plural}/{name}"), object)
}

fn slice(service: &str, content: &Value) -> (String, Value) {
    let name = format!("{service}-testbed");
    let object = json!({
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": name,
            "namespace": "kube-system",
            "labels": {"kubernetes.io/service-name": service, "endpointslice.kubernetes.io/managed-by": "testbed"},
        },
        "addressType": "IPv4",
        "ports": content.get("ports"),
        "endpoints": content.get("endpoints"),
    });
    (
        format!("/apis/discovery.k8s.io/v1/namespaces/kube-system/endpointslices/{name}"),
        object,
    )
}
