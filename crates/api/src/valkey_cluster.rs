//! `ValkeyCluster`: a sharded cluster.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ResourceRequirements;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::directives::owned_as_cel;

/// The most pods one cluster may have.
pub const MAX_PODS: i32 = 500;

/// What the user asks for.
#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[kube(
    group = "foreshard.io",
    version = "v1alpha1",
    kind = "ValkeyCluster",
    plural = "valkeyclusters",
    shortname = "vc",
    category = "foreshard",
    namespaced,
    status = "ValkeyClusterStatus",
    derive = "PartialEq",
    doc = "A sharded Valkey or Redis cluster.",
    scale(
        spec_replicas_path = ".spec.shards",
        status_replicas_path = ".status.servingShards",
        label_selector_path = ".status.selector"
    ),
    printcolumn(name = "Ready", type_ = "string", json_path = ".status.conditions[?(@.type=='Ready')].status"),
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Shards", type_ = "integer", json_path = ".spec.shards"),
    printcolumn(name = "Members", type_ = "string", json_path = ".status.members"),
    printcolumn(name = "Slots", type_ = "string", json_path = ".status.slots"),
    printcolumn(name = "Message", type_ = "string", json_path = ".status.message", priority = "1"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    validation = Rule::new("self.metadata.name.size() <= 40").message(
        "metadata.name: at most 40 characters, because pod and Service names are built from it"
    ),
    validation = Rule::new("self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')").message(
        "metadata.name: lower-case letters, digits and '-', beginning with a letter, because Services are named after it"
    )
)]
#[x_kube(validation = Rule::new("self.shards * (1 + self.replicasPerShard) <= 500").message(
    "spec.shards * (1 + spec.replicasPerShard): at most 500 pods in one cluster"
))]
#[serde(rename_all = "camelCase")]
pub struct ValkeyClusterSpec {
    /// The server's image. Valkey 8 and 9 and Redis 7 and 8 work; what the server can do is asked of it,
    /// not guessed from the tag.
    #[serde(default = "default_image")]
    #[schemars(length(min = 1, max = 1024))]
    pub image: String,

    /// How many shards serve slots. A cluster needs three to agree on a failover.
    #[serde(default = "default_shards")]
    #[schemars(range(min = 3, max = 100))]
    #[x_kube(validation = Rule::new("self == oldSelf").message(
        "spec.shards: this version cannot move slots yet, so the number of shards cannot be changed; make a new cluster"
    ))]
    pub shards: i32,

    /// How many replicas follow the primary of each shard. With 0, a lost pod is lost data.
    #[serde(default = "default_replicas_per_shard")]
    #[schemars(range(min = 0, max = 5))]
    #[x_kube(validation = Rule::new("self >= oldSelf").message(
        "spec.replicasPerShard: this version can add replicas but not take them away"
    ))]
    pub replicas_per_shard: i32,

    /// CPU and memory of each server. `maxmemory` follows the memory limit (three quarters of it) unless
    /// `config` says otherwise.
    #[serde(default)]
    pub resources: ResourceRequirements,

    /// Lines of the server's configuration, for example `maxmemory-policy: allkeys-lru`.
    #[serde(default)]
    #[schemars(extend("maxProperties" = 64, "additionalProperties" = {"type": "string", "maxLength": 512}))]
    #[x_kube(validation = Rule::new(format!("!self.exists(k, k in {} || k.startsWith('tls-'))", owned_as_cel()))
        .message("spec.config: holds a directive that Foreshard sets itself (such as port, dir, save, requirepass, tls-* or cluster-enabled); remove it"))]
    #[x_kube(validation = Rule::new("self.all(k, k.size() <= 64 && k.matches('^[a-z][a-z0-9-]*$'))").message(
        "spec.config: a directive is lower-case letters, digits and '-', at most 64 of them"
    ))]
    #[x_kube(validation = Rule::new("self.all(k, !self[k].contains('\\n') && !self[k].contains('\\r'))").message(
        "spec.config: a value is one line"
    ))]
    pub config: BTreeMap<String, String>,
}

fn default_image() -> String {
    "valkey/valkey:9.1".to_owned()
}

const fn default_shards() -> i32 {
    3
}

const fn default_replicas_per_shard() -> i32 {
    1
}

/// What Foreshard last saw. It can be deleted at any time: the next pass writes it again.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct ValkeyClusterStatus {
    /// The generation of the spec this status speaks of.
    pub observed_generation: i64,
    /// Where the cluster is in its life, for the reader. Nothing reads it back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<Phase>,
    /// One sentence: what is happening, or what a person should do.
    pub message: String,
    /// Reachable members of those wanted, such as `6/6`.
    pub members: String,
    /// Served slots of all, such as `16384/16384`.
    pub slots: String,
    /// How many shards own slots.
    pub serving_shards: i32,
    /// Selects the cluster's pods; the scale subresource hands it out.
    pub selector: String,
    /// Where clients connect.
    pub endpoint: String,
    /// The engine and version the members report.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub engine: Option<String>,
    /// Ready, Progressing, Degraded and what they are made of.
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// What will be done next, in order, each with its reason.
    pub plan: Vec<String>,
    /// The shards and their members.
    pub shards: Vec<ShardStatus>,
}

/// One shard.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct ShardStatus {
    /// The shard's number, as in its StatefulSet's name.
    pub shard: u32,
    /// The slot ranges its primary owns, such as `0-5460`.
    pub slots: String,
    /// Its members.
    pub members: Vec<MemberStatus>,
}

/// One member of a shard.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct MemberStatus {
    /// The pod.
    pub pod: String,
    /// The Kubernetes node it runs on.
    pub node: String,
    /// The member's id in the cluster.
    pub id: String,
    /// `primary`, `replica` or `unknown`.
    pub role: Role,
    /// `yes` or `no`; empty for a primary.
    pub in_sync: String,
}

/// What a member is to its shard.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub enum Role {
    /// It owns the shard's slots, or would.
    Primary,
    /// It follows the shard's primary.
    Replica,
    /// It has not been reached.
    #[default]
    Unknown,
}

/// Where a cluster is in its life. An output, derived from the plan's first step.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Its objects are being made.
    Creating,
    /// Pods are starting.
    WaitingForPods,
    /// Members are being introduced to each other.
    InitializingCluster,
    /// Slots are being given to primaries.
    AssigningSlots,
    /// Replicas are being attached and are catching up.
    ConfiguringReplicas,
    /// The last checks before it is called running.
    VerifyingClusterHealth,
    /// As asked.
    Running,
    /// It serves, or should, but something is wrong.
    Degraded,
    /// The spec cannot be acted upon.
    Failed,
}
