//! `kubectl foreshard status`: a cluster in a table that fits 100 columns.

use std::fmt::Write as _;

use anyhow::{Context as _, bail};
use comfy_table::{ContentArrangement, Table, presets};
use foreshard_api::valkey_cluster::{MemberStatus, Role, ShardStatus};
use foreshard_api::{ValkeyCluster, ValkeyClusterStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};

/// The widest line.
const WIDTH: u16 = 100;

/// Fetches and renders one cluster, or all of the namespace.
pub(crate) async fn show(client: Client, name: Option<&str>) -> anyhow::Result<String> {
    let namespace = client.default_namespace().to_owned();
    let api: Api<ValkeyCluster> = Api::default_namespaced(client);
    let clusters = match name {
        Some(name) => match api.get_opt(name).await.context("asking the API server")? {
            Some(cluster) => vec![cluster],
            None => {
                bail!("there is no ValkeyCluster {name} in namespace {namespace}; try `kubectl get vc -A`")
            }
        },
        None => {
            api.list(&ListParams::default())
                .await
                .context("asking the API server")?
                .items
        }
    };
    if clusters.is_empty() {
        return Ok(format!("There is no ValkeyCluster in namespace {namespace}.\n"));
    }
    let texts: Vec<String> = clusters.iter().map(render).collect();
    Ok(texts.join("\n"))
}

/// One cluster as text.
fn render(cluster: &ValkeyCluster) -> String {
    let spec = &cluster.spec;
    let replicas = match spec.replicas_per_shard {
        0 => "no replicas".to_owned(),
        1 => "1 replica each".to_owned(),
        several => format!("{several} replicas each"),
    };
    let mut text = format!(
        "ValkeyCluster {}/{}: {} shards, {replicas}, image {}\n",
        cluster.namespace().unwrap_or_default(),
        cluster.name_any(),
        spec.shards,
        spec.image
    );
    let Some(status) = &cluster.status else {
        text.push_str(
            "It has no status yet. Is the operator running? `kubectl get pods -n foreshard-system`\n",
        );
        return text;
    };
    summary(&mut text, status, cluster.metadata.generation.unwrap_or_default());
    if !status.shards.is_empty() {
        let _ = writeln!(text, "{}", table(&status.shards).trim_fmt());
    }
    if !status.plan.is_empty() {
        text.push_str("Next:\n");
        for line in &status.plan {
            let _ = writeln!(text, "  {line}");
        }
    }
    text
}

fn summary(text: &mut String, status: &ValkeyClusterStatus, generation: i64) {
    let phase = status
        .phase
        .map_or_else(|| "Unknown".to_owned(), |phase| format!("{phase:?}"));
    let _ = writeln!(text, "{phase}: {}", status.message);
    let _ = writeln!(
        text,
        "members {}, slots {}, engine {}, endpoint {}",
        status.members,
        status.slots,
        status.engine.as_deref().unwrap_or("unknown"),
        status.endpoint
    );
    let wrong: Vec<&Condition> = status
        .conditions
        .iter()
        .filter(|condition| !is_good(condition))
        .collect();
    for condition in wrong {
        let _ = writeln!(
            text,
            "  {}={} ({}): {}",
            condition.type_, condition.status, condition.reason, condition.message
        );
    }
    if status.observed_generation != generation {
        text.push_str("  The spec was changed and has not been looked at yet.\n");
    }
}

/// Whether a condition is as it should be. `Degraded` and `Progressing` should be false, the others true.
fn is_good(condition: &Condition) -> bool {
    let wanted = if matches!(condition.type_.as_str(), "Degraded" | "Progressing") {
        "False"
    } else {
        "True"
    };
    condition.status == wanted
}

fn table(shards: &[ShardStatus]) -> Table {
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(WIDTH);
    table.set_header(["SHARD", "POD", "ROLE", "SYNC", "SLOTS", "NODE", "ID"]);
    for shard in shards {
        for (index, member) in shard.members.iter().enumerate() {
            let number = if index == 0 {
                shard.shard.to_string()
            } else {
                String::new()
            };
            table.add_row(row(number, shard, member));
        }
    }
    table
}

fn row(number: String, shard: &ShardStatus, member: &MemberStatus) -> [String; 7] {
    let (role, sync, slots) = match member.role {
        Role::Primary => ("primary", "", shard.slots.as_str()),
        Role::Replica => (
            "replica",
            if member.in_sync == "yes" {
                "in sync"
            } else {
                "behind"
            },
            "",
        ),
        Role::Unknown => ("unknown", "no answer", ""),
    };
    let short = member.id.get(..8).unwrap_or(&member.id).to_owned();
    [
        number,
        member.pod.clone(),
        role.into(),
        sync.into(),
        slots.into(),
        member.node.clone(),
        short,
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cluster(status: &serde_json::Value) -> ValkeyCluster {
        serde_json::from_value(serde_json::json!({
            "apiVersion": "foreshard.io/v1alpha1", "kind": "ValkeyCluster",
            "metadata": {"name": "shop", "namespace": "prod", "generation": 2},
            "spec": {"image": "valkey/valkey:9.1", "shards": 3, "replicasPerShard": 1},
            "status": status,
        }))
        .unwrap()
    }

    #[test]
    fn a_cluster_with_a_lagging_and_a_silent_member() {
        let status = serde_json::json!({
            "observedGeneration": 2, "phase": "Degraded", "message": "Pod shop-1-1 does not answer: connection refused",
            "members": "3/6", "slots": "10923/16384", "engine": "valkey 9.1.2", "endpoint": "shop.prod.svc:6379",
            "conditions": [
                {"type": "Ready", "status": "False", "reason": "MemberUnreachable", "message": "Pod shop-1-1 does not answer", "lastTransitionTime": "2026-01-01T00:00:00Z"},
                {"type": "Degraded", "status": "False", "reason": "AsAsked", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"},
            ],
            "shards": [
                {"shard": 0, "slots": "0-5461", "members": [
                    {"pod": "shop-0-0", "node": "node-1", "id": "07c37dfeb235213a872192d90877d0cd55635b91", "role": "primary"},
                    {"pod": "shop-0-1", "node": "node-2", "id": "e7d1eecce10fd6bb5eb35b9f99a514335d9ba9ca", "role": "replica", "inSync": "no"}]},
                {"shard": 1, "slots": "", "members": [{"pod": "shop-1-1", "node": "node-2", "id": "", "role": "unknown"}]},
            ],
            "plan": ["waits: Pod shop-1-1 does not answer: connection refused"],
        });
        let text = render(&cluster(&status));
        assert!(
            text.lines()
                .all(|line| line.chars().count() <= usize::from(WIDTH)),
            "{text}"
        );
        let trimmed: Vec<&str> = text.lines().map(str::trim_end).collect();
        insta::assert_snapshot!(trimmed.join("\n"));
    }

    #[test]
    fn a_cluster_nobody_has_looked_at_says_where_to_look() {
        let text = render(&cluster(&serde_json::Value::Null));
        assert!(text.contains("Is the operator running?"), "{text}");
    }
}
