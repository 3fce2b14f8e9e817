//! How members and clients find the cluster.

use foreshard_api::{BUS_PORT, PORT, ValkeyCluster, labels};
use k8s_openapi::api::core::v1::{Service, ServicePort, ServiceSpec};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::ResourceExt;

use super::{headless_name, meta};

/// Gives every pod a name of its own, also before it is ready: members must find each other first.
pub(super) fn headless(cluster: &ValkeyCluster) -> Service {
    let spec = ServiceSpec {
        cluster_ip: Some("None".to_owned()),
        publish_not_ready_addresses: Some(true),
        ports: Some(vec![port("client", PORT), port("bus", BUS_PORT)]),
        selector: Some(labels::cluster_selector(&cluster.name_any())),
        ..ServiceSpec::default()
    };
    Service {
        metadata: meta(cluster, headless_name(cluster)),
        spec: Some(spec),
        ..Service::default()
    }
}

/// Where clients begin. Any member tells them where each slot is.
pub(super) fn client(cluster: &ValkeyCluster) -> Service {
    let spec = ServiceSpec {
        ports: Some(vec![port("client", PORT)]),
        selector: Some(labels::cluster_selector(&cluster.name_any())),
        ..ServiceSpec::default()
    };
    Service {
        metadata: meta(cluster, cluster.name_any()),
        spec: Some(spec),
        ..Service::default()
    }
}

fn port(name: &str, number: u16) -> ServicePort {
    ServicePort {
        name: Some(name.to_owned()),
        port: number.into(),
        target_port: Some(IntOrString::String(name.to_owned())),
        protocol: Some("TCP".to_owned()),
        ..ServicePort::default()
    }
}
