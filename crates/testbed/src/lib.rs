//! A real Kubernetes of several nodes on one machine, without Docker.
//!
//! Everything lives in private network namespaces and under `.testbed/` of the repository: nothing on the host's
//! network changes, and [`cluster::down`] leaves nothing behind but the caches of built binaries and images.
//!
//! Tests use three parts of it as a library: [`engine`] runs real store processes on loopback, [`images`] makes
//! container images, and [`faults`] breaks things on purpose.

// A command-line tool for developers: its output is what the person at the terminal reads.
#![allow(clippy::print_stdout, clippy::print_stderr)]

pub mod addons;
pub mod addresses;
pub mod api;
pub mod apt_sources;
pub mod cgroups;
pub mod cleanup;
pub mod cluster;
pub mod containerd;
pub mod containers;
pub mod control_plane;
pub mod engine;
pub mod faults;
pub mod host;
pub mod images;
pub mod kube_binaries;
pub mod kubeconfig;
pub mod netns;
pub mod node;
pub mod paths;
pub mod pki;
pub mod process;
pub mod progress;
pub mod run;
pub mod wait;
