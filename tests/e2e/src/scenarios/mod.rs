//! What must hold on a real Kubernetes, one behaviour per scenario.

mod cluster_bad_image;
mod cluster_bad_input;
mod cluster_drain;
mod cluster_engines;
mod cluster_forms;
mod cluster_name_taken;
mod cluster_process_killed;
mod cluster_recreated;
mod cluster_undecodable;
mod idle_writes;
mod operator_restart;
mod samples;

use anyhow::Result;
use futures::future::BoxFuture;

use crate::space::Space;

/// A scenario.
pub(crate) struct Scenario {
    /// Its name, as in `make e2e ONLY=<name>`.
    pub(crate) name: &'static str,
    /// `core` ones are part of `make test`.
    pub(crate) tags: &'static [&'static str],
    /// What it shows.
    pub(crate) about: &'static str,
    /// Whether it reaches into the nodes, which only the testbed lets it.
    pub(crate) testbed_only: bool,
    /// Whether it disturbs the operator, the nodes or the CRDs and so must run by itself.
    pub(crate) alone: bool,
    /// The scenario itself.
    pub(crate) run: fn(Space) -> BoxFuture<'static, Result<()>>,
}

/// Every scenario.
pub(crate) fn all() -> Vec<Scenario> {
    vec![
        Scenario {
            name: "cluster-forms",
            tags: &["core", "cluster"],
            about: "3 x 2 pods on two nodes become a serving cluster; deletion leaves nothing",
            testbed_only: false,
            alone: false,
            run: |space| Box::pin(cluster_forms::run(space)),
        },
        Scenario {
            name: "cluster-engines",
            tags: &["core", "cluster"],
            about: "the same on Valkey 8.1, Redis 7.0 and Redis 8.0",
            testbed_only: false,
            alone: false,
            run: |space| Box::pin(cluster_engines::run(space)),
        },
        Scenario {
            name: "cluster-bad-input",
            tags: &["core", "cluster"],
            about: "specs that cannot work are refused at admission, with the field named",
            testbed_only: false,
            alone: false,
            run: |space| Box::pin(cluster_bad_input::run(space)),
        },
        Scenario {
            name: "cluster-bad-image",
            tags: &["core", "cluster"],
            about: "an unknown image shows as a condition with the kubelet's reason; mending it mends it",
            testbed_only: false,
            alone: false,
            run: |space| Box::pin(cluster_bad_image::run(space)),
        },
        Scenario {
            name: "cluster-name-taken",
            tags: &["core", "cluster"],
            about: "an object of somebody else is never taken over",
            testbed_only: false,
            alone: false,
            run: |space| Box::pin(cluster_name_taken::run(space)),
        },
        Scenario {
            name: "cluster-process-killed",
            tags: &["core", "cluster"],
            about: "a primary's process dies and restarts empty in place: every replicated write survives",
            testbed_only: true,
            alone: false,
            run: |space| Box::pin(cluster_process_killed::run(space)),
        },
        Scenario {
            name: "cluster-recreated",
            tags: &["core", "cluster"],
            about: "deleted and made anew under the same name at once, it has nothing of the old one",
            testbed_only: false,
            alone: false,
            run: |space| Box::pin(cluster_recreated::run(space)),
        },
        Scenario {
            name: "samples",
            tags: &["core", "docs"],
            about: "every file in config/samples is applied as it is and becomes Ready",
            testbed_only: false,
            alone: false,
            run: |space| Box::pin(samples::run(space)),
        },
        Scenario {
            name: "cluster-undecodable",
            tags: &["core", "cluster"],
            about: "an object that cannot be read says so, and the others are served on",
            testbed_only: false,
            alone: true,
            run: |space| Box::pin(cluster_undecodable::run(space)),
        },
        Scenario {
            name: "cluster-drain",
            tags: &["core", "cluster"],
            about: "both nodes are drained under load: one member goes at a time, nothing replicated is lost",
            testbed_only: true,
            alone: true,
            run: |space| Box::pin(cluster_drain::run(space)),
        },
        Scenario {
            name: "operator-restart",
            tags: &["core", "operator"],
            about: "killed at five moments of forming, it still forms; a second instance takes over and acts only then",
            testbed_only: true,
            alone: true,
            run: |space| Box::pin(operator_restart::run(space)),
        },
        Scenario {
            name: "idle-writes",
            tags: &["core", "operator"],
            about: "a healthy cluster gets no API writes for three minutes",
            testbed_only: false,
            alone: true,
            run: |space| Box::pin(idle_writes::run(space)),
        },
    ]
}
