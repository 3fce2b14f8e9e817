//! One shard: a StatefulSet of its own, because any shard may be the one to go.

use foreshard_api::{BUS_PORT, PORT, ValkeyCluster, labels};
use foreshard_kube::apply;
use foreshard_plan::cluster::Wish;
use k8s_openapi::api::apps::v1::{StatefulSet, StatefulSetSpec, StatefulSetUpdateStrategy};
use k8s_openapi::api::core::v1::{
    Affinity, Capabilities, ConfigMapVolumeSource, Container, ContainerPort, EmptyDirVolumeSource, EnvVar,
    EnvVarSource, ObjectFieldSelector, PodAffinityTerm, PodAntiAffinity, PodSecurityContext, PodSpec,
    PodTemplateSpec, Probe, SeccompProfile, SecurityContext, TCPSocketAction, Volume, VolumeMount,
    WeightedPodAffinityTerm,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::ResourceExt;
use kube::api::ObjectMeta;

use super::{CONTAINER, config::START_FILE, config_name, headless_name, meta, shard_name};

/// The user the server runs as: the one the official images have for it.
const USER: i64 = 999;

/// The shard's members.
pub(super) fn stateful_set(
    cluster: &ValkeyCluster,
    shard: u32,
    wish: Wish,
    config_hash: &str,
) -> StatefulSet {
    let mut metadata = meta(cluster, shard_name(cluster, shard));
    metadata
        .labels
        .get_or_insert_default()
        .insert(labels::SHARD.to_owned(), shard.to_string());
    let spec = StatefulSetSpec {
        replicas: i32::try_from(wish.members_per_shard).ok(),
        service_name: Some(headless_name(cluster)),
        pod_management_policy: Some("Parallel".to_owned()),
        // Which pod goes when is the operator's decision: replicas first, a primary only after it has handed over.
        update_strategy: Some(StatefulSetUpdateStrategy {
            type_: Some("OnDelete".to_owned()),
            ..Default::default()
        }),
        selector: LabelSelector {
            match_labels: Some(labels::shard_selector(&cluster.name_any(), shard)),
            ..LabelSelector::default()
        },
        template: template(cluster, shard, config_hash),
        ..StatefulSetSpec::default()
    };
    StatefulSet {
        metadata,
        spec: Some(spec),
        ..StatefulSet::default()
    }
}

/// The stamp of a set's pod template: pods that carry another were made from an earlier one.
pub(super) fn stamp(set: &StatefulSet) -> Option<String> {
    let annotations = set
        .spec
        .as_ref()?
        .template
        .metadata
        .as_ref()?
        .annotations
        .as_ref()?;
    annotations.get(labels::TEMPLATE).cloned()
}

/// The pod template, stamped with the hash of itself and of the configuration.
fn template(cluster: &ValkeyCluster, shard: u32, config_hash: &str) -> PodTemplateSpec {
    let name = cluster.name_any();
    let mut pod_labels = labels::cluster_labels(&name);
    pod_labels.insert(labels::SHARD.to_owned(), shard.to_string());
    let spec = pod_spec(cluster, shard);
    let stamp = apply::hash(&serde_json::json!([config_hash, spec]));
    let metadata = ObjectMeta {
        labels: Some(pod_labels),
        annotations: Some([(labels::TEMPLATE.to_owned(), stamp)].into()),
        ..ObjectMeta::default()
    };
    PodTemplateSpec {
        metadata: Some(metadata),
        spec: Some(spec),
    }
}

fn pod_spec(cluster: &ValkeyCluster, shard: u32) -> PodSpec {
    PodSpec {
        containers: vec![container(cluster)],
        affinity: Some(apart(cluster, shard)),
        automount_service_account_token: Some(false),
        enable_service_links: Some(false),
        security_context: Some(PodSecurityContext {
            run_as_non_root: Some(true),
            run_as_user: Some(USER),
            run_as_group: Some(USER),
            fs_group: Some(USER),
            seccomp_profile: Some(SeccompProfile {
                type_: "RuntimeDefault".to_owned(),
                ..Default::default()
            }),
            ..PodSecurityContext::default()
        }),
        termination_grace_period_seconds: Some(30),
        volumes: Some(vec![
            Volume {
                name: "config".to_owned(),
                config_map: Some(ConfigMapVolumeSource {
                    name: config_name(cluster),
                    ..Default::default()
                }),
                ..Volume::default()
            },
            Volume {
                name: "data".to_owned(),
                empty_dir: Some(EmptyDirVolumeSource::default()),
                ..Volume::default()
            },
        ]),
        ..PodSpec::default()
    }
}

fn container(cluster: &ValkeyCluster) -> Container {
    Container {
        name: CONTAINER.to_owned(),
        image: Some(cluster.spec.image.clone()),
        command: Some(vec!["/bin/sh".to_owned(), format!("/etc/foreshard/{START_FILE}")]),
        env: Some(vec![
            from_field("POD_IP", "status.podIP"),
            from_field("POD_NAME", "metadata.name"),
            from_field("POD_NAMESPACE", "metadata.namespace"),
            EnvVar {
                name: "SERVICE".to_owned(),
                value: Some(headless_name(cluster)),
                value_from: None,
            },
        ]),
        ports: Some(vec![port("client", PORT), port("bus", BUS_PORT)]),
        resources: Some(cluster.spec.resources.clone()),
        // A TCP check: an exec probe each second would cost a tenth of a core per pod.
        readiness_probe: Some(Probe {
            tcp_socket: Some(TCPSocketAction {
                port: IntOrString::String("client".to_owned()),
                host: None,
            }),
            period_seconds: Some(2),
            failure_threshold: Some(2),
            ..Probe::default()
        }),
        security_context: Some(SecurityContext {
            allow_privilege_escalation: Some(false),
            capabilities: Some(Capabilities {
                drop: Some(vec!["ALL".to_owned()]),
                add: None,
            }),
            read_only_root_filesystem: Some(true),
            ..SecurityContext::default()
        }),
        volume_mounts: Some(vec![
            VolumeMount {
                name: "config".to_owned(),
                mount_path: "/etc/foreshard".to_owned(),
                read_only: Some(true),
                ..VolumeMount::default()
            },
            VolumeMount {
                name: "data".to_owned(),
                mount_path: "/data".to_owned(),
                ..VolumeMount::default()
            },
        ]),
        ..Container::default()
    }
}

/// Members of a shard go to different nodes where they can: a node that dies should take one copy, not all.
fn apart(cluster: &ValkeyCluster, shard: u32) -> Affinity {
    let term = PodAffinityTerm {
        topology_key: "kubernetes.io/hostname".to_owned(),
        label_selector: Some(LabelSelector {
            match_labels: Some(labels::shard_selector(&cluster.name_any(), shard)),
            ..LabelSelector::default()
        }),
        ..PodAffinityTerm::default()
    };
    let preferred = vec![WeightedPodAffinityTerm {
        weight: 100,
        pod_affinity_term: term,
    }];
    Affinity {
        pod_anti_affinity: Some(PodAntiAffinity {
            preferred_during_scheduling_ignored_during_execution: Some(preferred),
            ..PodAntiAffinity::default()
        }),
        ..Affinity::default()
    }
}

fn from_field(name: &str, path: &str) -> EnvVar {
    let field = ObjectFieldSelector {
        field_path: path.to_owned(),
        api_version: None,
    };
    EnvVar {
        name: name.to_owned(),
        value: None,
        value_from: Some(EnvVarSource {
            field_ref: Some(field),
            ..EnvVarSource::default()
        }),
    }
}

fn port(name: &str, number: u16) -> ContainerPort {
    ContainerPort {
        name: Some(name.to_owned()),
        container_port: number.into(),
        ..ContainerPort::default()
    }
}
