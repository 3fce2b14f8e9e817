//! The operator's permissions, plain for `kubectl` and as rules for the chart.

use anyhow::{Context as _, Result};
use foreshard_operator::rbac::{own_namespace_rules, rules};
use k8s_openapi::api::rbac::v1::PolicyRule;
use serde_json::json;

use super::{Generated, yaml};

/// Where `config/rbac` puts the operator; the chart goes where Helm is told to.
const NAMESPACE: &str = "foreshard-system";

pub fn files() -> Result<Vec<Generated>> {
    let (watched, own) = (rules(), own_namespace_rules());
    Ok(vec![
        Generated::new(
            "config/rbac/role.yaml",
            &roles(&watched, &own).context("write config/rbac/role.yaml")?,
        ),
        Generated::new("charts/foreshard/files/rules.yaml", &yaml::write(&watched)?),
        Generated::new(
            "charts/foreshard/files/own-namespace-rules.yaml",
            &yaml::write(&own)?,
        ),
    ])
}

fn roles(watched: &[PolicyRule], own: &[PolicyRule]) -> Result<String> {
    let labels = json!({ "app.kubernetes.io/name": "foreshard", "app.kubernetes.io/component": "operator" });
    let cluster_role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": { "name": "foreshard", "labels": labels },
        "rules": watched,
    });
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": { "name": "foreshard-lease", "namespace": NAMESPACE, "labels": labels },
        "rules": own,
    });
    Ok(format!(
        "{}---\n{}",
        yaml::write(&cluster_role)?,
        yaml::write(&role)?
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_rule_is_for_everything() {
        for rule in rules().into_iter().chain(own_namespace_rules()) {
            for list in [&rule.api_groups, &rule.resources] {
                let list = list.as_deref().unwrap_or_default();
                assert!(
                    !list.is_empty() && list.iter().all(|item| item != "*"),
                    "{rule:?}"
                );
            }
            assert!(
                !rule.verbs.is_empty() && rule.verbs.iter().all(|verb| verb != "*"),
                "{rule:?}"
            );
        }
    }
}
