//! What the operator may do. `cargo xtask generate` writes roles from this, so that code and roles change together.

use k8s_openapi::api::rbac::v1::PolicyRule;

/// What it does in the namespaces it looks after.
#[must_use]
pub fn rules() -> Vec<PolicyRule> {
    vec![
        // Our kinds: read, and write nothing but the status.
        rule("foreshard.io", &["valkeyclusters"], &["get", "list", "watch"]),
        rule("foreshard.io", &["valkeyclusters/status"], &["patch"]),
        // Children.
        rule("apps", &["statefulsets"], CHILD),
        rule("", &["services", "configmaps"], CHILD),
        rule("policy", &["poddisruptionbudgets"], CHILD),
        rule("", &["pods"], &["list", "watch"]),
        rule("events.k8s.io", &["events"], &["create", "patch"]),
    ]
}

/// What it does in its own namespace: the Lease.
#[must_use]
pub fn own_namespace_rules() -> Vec<PolicyRule> {
    vec![rule(
        "coordination.k8s.io",
        &["leases"],
        &["get", "create", "update"],
    )]
}

/// Server-side apply is a patch, and creates what is not there.
const CHILD: &[&str] = &["get", "list", "watch", "create", "patch", "delete"];

fn rule(group: &str, resources: &[&str], verbs: &[&str]) -> PolicyRule {
    let owned = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect();
    PolicyRule {
        api_groups: Some(vec![group.to_owned()]),
        resources: Some(owned(resources)),
        verbs: owned(verbs),
        ..PolicyRule::default()
    }
}
