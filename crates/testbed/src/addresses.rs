//! The cluster's address plan: pure arithmetic, no network.

use std::net::Ipv4Addr;

use anyhow::{Result, bail};

/// Most nodes the address plan has room for.
pub const MAX_NODES: u8 = 16;
/// The addresses of Services.
pub const SERVICE_RANGE: &str = "10.96.0.0/16";
/// The API server's own Service, always the first of [`SERVICE_RANGE`].
pub const API_SERVICE: Ipv4Addr = Ipv4Addr::new(10, 96, 0, 1);
/// The cluster's DNS server.
pub const DNS_SERVICE: Ipv4Addr = Ipv4Addr::new(10, 96, 0, 10);
/// All pods of all nodes.
pub const POD_RANGE: &str = "10.244.0.0/16";
/// The port of the API server.
pub const API_PORT: u16 = 6443;

/// Refuses a node number outside the plan. Nodes are numbered from 1.
pub fn check_node(number: u8) -> Result<()> {
    if number == 0 || number > MAX_NODES {
        bail!("there is no node {number}: nodes are numbered from 1 to {MAX_NODES}");
    }
    Ok(())
}

/// The address of a node. All are reached through node 1, which is also where the control plane listens.
#[must_use]
pub fn node_address(number: u8) -> Ipv4Addr {
    Ipv4Addr::new(172, 31, 255, number)
}

/// The address of the control plane.
#[must_use]
pub fn control_plane_address() -> Ipv4Addr {
    node_address(1)
}

/// The range a node gives its pods their addresses from: 4,096 addresses each.
#[must_use]
pub fn pod_range(number: u8) -> String {
    let third = number.saturating_sub(1).saturating_mul(16);
    format!("10.244.{third}.0/20")
}

/// The name of a node's network namespace.
#[must_use]
pub fn namespace(number: u8) -> String {
    format!("fsnode{number}")
}

/// The name Kubernetes knows a node by.
#[must_use]
pub fn node_name(number: u8) -> String {
    format!("node-{number}")
}

/// The device in node 1's namespace that leads to another node.
#[must_use]
pub fn link_to(number: u8) -> String {
    format!("to-node{number}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pod_ranges_do_not_overlap_and_stay_within_the_cluster_range() {
        let thirds: Vec<u8> = (1..=MAX_NODES)
            .map(|n| pod_range(n).split('.').nth(2).unwrap().parse().unwrap())
            .collect();
        assert_eq!(thirds.first(), Some(&0));
        assert_eq!(thirds.last(), Some(&240));
        assert!(thirds.windows(2).all(|pair| pair[1] - pair[0] == 16));
    }

    #[test]
    fn node_numbers_are_checked() {
        assert!(check_node(0).is_err());
        assert!(check_node(1).is_ok());
        assert!(check_node(16).is_ok());
        assert!(check_node(17).is_err());
    }

    #[test]
    fn device_names_fit_in_fifteen_bytes() {
        assert!(link_to(MAX_NODES).len() <= 15);
    }
}
