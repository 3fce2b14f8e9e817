//! Which lines of the server's configuration are Foreshard's and which are the user's.

/// Directives a user may not set, because Foreshard's safety depends on their values.
///
/// They are written after the user's own, and refused at admission so that nobody wonders why a line has no effect.
pub const OWNED: &[&str] = &[
    "aclfile",
    "appenddirname",
    "appendonly",
    "bind",
    "cluster-allow-replica-migration",
    "cluster-announce-bus-port",
    "cluster-announce-hostname",
    "cluster-announce-ip",
    "cluster-announce-port",
    "cluster-announce-tls-port",
    "cluster-config-file",
    "cluster-enabled",
    "cluster-migration-barrier",
    "cluster-node-timeout",
    "cluster-port",
    "cluster-replica-no-failover",
    "cluster-replica-validity-factor",
    "cluster-slave-no-failover",
    "cluster-slave-validity-factor",
    "daemonize",
    "dbfilename",
    "dir",
    "include",
    "logfile",
    "masterauth",
    "masteruser",
    "pidfile",
    "port",
    "primaryauth",
    "primaryuser",
    "protected-mode",
    "rename-command",
    "replica-announce-ip",
    "replica-announce-port",
    "replicaof",
    "requirepass",
    "save",
    "slave-announce-ip",
    "slave-announce-port",
    "slaveof",
    "supervised",
    "unixsocket",
    "user",
];

/// Whether a directive is Foreshard's to set.
#[must_use]
pub fn is_owned(directive: &str) -> bool {
    let directive = directive.to_ascii_lowercase();
    directive.starts_with("tls-") || OWNED.binary_search(&directive.as_str()).is_ok()
}

/// The owned directives as a CEL list, for the admission rule.
#[must_use]
pub fn owned_as_cel() -> String {
    let names: Vec<String> = OWNED.iter().map(|name| format!("'{name}'")).collect();
    format!("[{}]", names.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_sorted_because_it_is_searched_by_halves() {
        assert!(OWNED.is_sorted());
    }

    #[test]
    fn ours_are_recognised_in_any_case_and_others_are_left_alone() {
        for name in ["port", "PORT", "cluster-enabled", "tls-cert-file", "save"] {
            assert!(is_owned(name), "{name}");
        }
        for name in [
            "maxmemory-policy",
            "cluster-require-full-coverage",
            "appendfsync",
            "hz",
        ] {
            assert!(!is_owned(name), "{name}");
        }
    }
}
