//! The cluster's certificates: one authority for the cluster, one for the front proxy, and one key per identity.

use std::fs;
use std::net::IpAddr;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, SanType, date_time_ymd,
};

use crate::addresses::{API_SERVICE, control_plane_address, node_address, node_name};
use crate::paths::Paths;

/// A certificate and its key, as files.
#[derive(Debug, Clone)]
pub struct Files {
    /// The certificate.
    pub certificate: PathBuf,
    /// Its key.
    pub key: PathBuf,
}

impl Files {
    fn new(folder: &Path, name: &str) -> Self {
        Self {
            certificate: folder.join(format!("{name}.crt")),
            key: folder.join(format!("{name}.key")),
        }
    }
}

/// Where the certificates of a cluster lie.
#[derive(Debug, Clone)]
pub struct Pki {
    folder: PathBuf,
}

/// The identities that are not nodes: file name, user name, group.
const CLIENTS: &[(&str, &str, Option<&str>)] = &[
    ("admin", "testbed-admin", Some("system:masters")),
    ("controller-manager", "system:kube-controller-manager", None),
    ("scheduler", "system:kube-scheduler", None),
    ("proxy", "system:kube-proxy", None),
    ("apiserver-kubelet", "kube-apiserver-kubelet-client", None),
    ("apiserver-etcd", "kube-apiserver", None),
    ("coredns", crate::addons::COREDNS_USER, None),
    ("metrics-server", crate::addons::METRICS_USER, None),
    ("storage", crate::addons::STORAGE_USER, None),
];

impl Pki {
    /// The certificates of the cluster at this place.
    #[must_use]
    pub fn of(paths: &Paths) -> Self {
        Self { folder: paths.pki() }
    }

    /// The authority every component trusts.
    #[must_use]
    pub fn authority(&self) -> Files {
        self.files("ca")
    }

    /// The authority of requests the API server passes on.
    #[must_use]
    pub fn front_proxy_authority(&self) -> Files {
        self.files("front-proxy-ca")
    }

    /// The key that signs service accounts' tokens; the certificate is its public half.
    #[must_use]
    pub fn service_accounts(&self) -> Files {
        Files {
            certificate: self.folder.join("service-accounts.pub"),
            key: self.folder.join("service-accounts.key"),
        }
    }

    /// The certificate of an identity, by file name.
    #[must_use]
    pub fn files(&self, name: &str) -> Files {
        Files::new(&self.folder, name)
    }

    /// The client certificate of a node's kubelet.
    #[must_use]
    pub fn kubelet(&self, number: u8) -> Files {
        self.files(&format!("kubelet-{number}"))
    }

    /// The server certificate of a node's kubelet.
    #[must_use]
    pub fn kubelet_server(&self, number: u8) -> Files {
        self.files(&format!("kubelet-{number}-server"))
    }

    /// Makes both authorities and everything of the control plane.
    pub fn create(&self) -> Result<()> {
        fs::create_dir_all(&self.folder).with_context(|| format!("make {}", self.folder.display()))?;
        let authority = create_authority("foreshard-testbed", &self.authority())?;
        let front_proxy = create_authority("foreshard-testbed-front-proxy", &self.front_proxy_authority())?;

        let accounts = self.service_accounts();
        let key = KeyPair::generate().context("make the key of service accounts")?;
        write(&accounts.key, &key.serialize_pem())?;
        write(&accounts.certificate, &key.public_key_pem())?;

        for (file, user, group) in CLIENTS {
            issue(&authority, &client(user, *group), &self.files(file))?;
        }
        issue(
            &front_proxy,
            &client("front-proxy-client", None),
            &self.files("front-proxy"),
        )?;
        let here = IpAddr::from(control_plane_address());
        let local = IpAddr::from([127, 0, 0, 1]);
        let api_names = [
            "kubernetes",
            "kubernetes.default",
            "kubernetes.default.svc",
            "kubernetes.default.svc.cluster.local",
            "localhost",
        ];
        let api = server("kube-apiserver", &api_names, &[here, API_SERVICE.into(), local])?;
        issue(&authority, &api, &self.files("apiserver"))?;
        issue(
            &authority,
            &server("etcd", &["localhost"], &[local])?,
            &self.files("etcd"),
        )?;
        let metrics = server("metrics-server", &[crate::addons::METRICS_HOST], &[here])?;
        issue(&authority, &metrics, &self.files("metrics-server-tls"))
    }

    /// Makes both certificates of a node's kubelet.
    pub fn create_node(&self, number: u8) -> Result<()> {
        let authority = self.load_authority()?;
        let name = node_name(number);
        let user = format!("system:node:{name}");
        issue(
            &authority,
            &client(&user, Some("system:nodes")),
            &self.kubelet(number),
        )?;
        let listens = server(&user, &[&name], &[node_address(number).into()])?;
        issue(&authority, &listens, &self.kubelet_server(number))
    }

    fn load_authority(&self) -> Result<Issuer<'static, KeyPair>> {
        let files = self.authority();
        let key = fs::read_to_string(&files.key).with_context(|| format!("read {}", files.key.display()))?;
        let key = KeyPair::from_pem(&key).context("read the authority's key")?;
        Ok(Issuer::new(authority_parameters("foreshard-testbed"), key))
    }
}

fn authority_parameters(name: &str) -> CertificateParams {
    let mut parameters = parameters(name, None);
    parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    parameters.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    parameters
}

fn create_authority(name: &str, files: &Files) -> Result<Issuer<'static, KeyPair>> {
    let key = KeyPair::generate().with_context(|| format!("make the key of {name}"))?;
    let parameters = authority_parameters(name);
    let certificate = parameters
        .self_signed(&key)
        .with_context(|| format!("sign {name}"))?;
    write(&files.certificate, &certificate.pem())?;
    write(&files.key, &key.serialize_pem())?;
    Ok(Issuer::new(parameters, key))
}

fn issue(authority: &Issuer<'_, KeyPair>, parameters: &CertificateParams, files: &Files) -> Result<()> {
    let name = files.certificate.display();
    let key = KeyPair::generate().with_context(|| format!("make the key of {name}"))?;
    let certificate = parameters
        .signed_by(&key, authority)
        .with_context(|| format!("sign {name}"))?;
    write(&files.certificate, &certificate.pem())?;
    write(&files.key, &key.serialize_pem())
}

/// A certificate to show to servers: the common name is the user, the organization its group.
fn client(user: &str, group: Option<&str>) -> CertificateParams {
    let mut parameters = parameters(user, group);
    parameters.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    parameters
}

/// A certificate to listen with.
fn server(name: &str, hosts: &[&str], addresses: &[IpAddr]) -> Result<CertificateParams> {
    let mut parameters = parameters(name, None);
    for host in hosts {
        let host = (*host)
            .try_into()
            .with_context(|| format!("{host} is no host name"))?;
        parameters.subject_alt_names.push(SanType::DnsName(host));
    }
    let addresses = addresses.iter().map(|address| SanType::IpAddress(*address));
    parameters.subject_alt_names.extend(addresses);
    // etcd's gateway calls its own server with the server's certificate, so it must be good for both.
    parameters.extended_key_usages = vec![
        ExtendedKeyUsagePurpose::ServerAuth,
        ExtendedKeyUsagePurpose::ClientAuth,
    ];
    Ok(parameters)
}

fn parameters(name: &str, group: Option<&str>) -> CertificateParams {
    let mut parameters = CertificateParams::default();
    let mut subject = DistinguishedName::new();
    subject.push(DnType::CommonName, name);
    if let Some(group) = group {
        subject.push(DnType::OrganizationName, group);
    }
    parameters.distinguished_name = subject;
    // A cluster lives for hours; fixed dates keep a machine's wrong clock from breaking it.
    parameters.not_before = date_time_ymd(2020, 1, 1);
    parameters.not_after = date_time_ymd(2099, 1, 1);
    parameters.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    parameters.use_authority_key_identifier_extension = true;
    parameters
}

fn write(path: &Path, text: &str) -> Result<()> {
    use std::io::Write as _;
    fs::File::options()
        .create(true)
        .write(true)
        .truncate(true)
        .mode(0o600)
        .open(path)
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .with_context(|| format!("write {}", path.display()))
}
