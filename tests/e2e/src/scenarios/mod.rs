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
mod operator_namespaced;
mod operator_restart;
mod samples;

use anyhow::Result;
use futures::future::BoxFuture;

use crate::space::Space;

/// What a scenario does.
type Run = fn(Space) -> BoxFuture<'static, Result<()>>;

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
    pub(crate) run: Run,
}

impl Scenario {
    const fn new(name: &'static str, tags: &'static [&'static str], about: &'static str, run: Run) -> Self {
        Self {
            name,
            tags,
            about,
            testbed_only: false,
            alone: false,
            run,
        }
    }

    /// It disturbs the operator, the nodes or the CRDs.
    const fn alone(self) -> Self {
        Self { alone: true, ..self }
    }

    /// It reaches into the nodes.
    const fn testbed_only(self) -> Self {
        Self {
            testbed_only: true,
            ..self
        }
    }
}

/// Every scenario.
pub(crate) fn all() -> Vec<Scenario> {
    vec![
        Scenario::new(
            "cluster-forms",
            &["core", "cluster"],
            "3 x 2 pods on two nodes become a serving cluster; deletion leaves nothing",
            |space| Box::pin(cluster_forms::run(space)),
        ),
        Scenario::new(
            "cluster-engines",
            &["core", "cluster"],
            "the same on Valkey 8.1, Redis 7.0 and Redis 8.0",
            |space| Box::pin(cluster_engines::run(space)),
        ),
        Scenario::new(
            "cluster-bad-input",
            &["core", "cluster"],
            "specs that cannot work are refused at admission, with the field named",
            |space| Box::pin(cluster_bad_input::run(space)),
        ),
        Scenario::new(
            "cluster-bad-image",
            &["core", "cluster"],
            "an unknown image shows as a condition with the kubelet's reason; mending it mends it",
            |space| Box::pin(cluster_bad_image::run(space)),
        ),
        Scenario::new(
            "cluster-name-taken",
            &["core", "cluster"],
            "an object of somebody else is never taken over",
            |space| Box::pin(cluster_name_taken::run(space)),
        ),
        Scenario::new(
            "cluster-process-killed",
            &["core", "cluster"],
            "a primary's process dies and restarts empty in place: every replicated write survives",
            |space| Box::pin(cluster_process_killed::run(space)),
        )
        .testbed_only(),
        Scenario::new(
            "cluster-recreated",
            &["core", "cluster"],
            "deleted and made anew under the same name at once, it has nothing of the old one",
            |space| Box::pin(cluster_recreated::run(space)),
        ),
        Scenario::new(
            "samples",
            &["core", "docs"],
            "every file in config/samples is applied as it is and becomes Ready",
            |space| Box::pin(samples::run(space)),
        ),
        Scenario::new(
            "cluster-undecodable",
            &["core", "cluster"],
            "an object that cannot be read says so, and the others are served on",
            |space| Box::pin(cluster_undecodable::run(space)),
        )
        .alone(),
        Scenario::new(
            "cluster-drain",
            &["core", "cluster"],
            "both nodes are drained under load: one member goes at a time, nothing replicated is lost",
            |space| Box::pin(cluster_drain::run(space)),
        )
        .alone()
        .testbed_only(),
        Scenario::new(
            "operator-restart",
            &["core", "operator"],
            "killed at five moments of forming, it still forms; a second instance takes over and acts only then",
            |space| Box::pin(operator_restart::run(space)),
        )
        .alone()
        .testbed_only(),
        Scenario::new(
            "operator-namespaced",
            &["core", "operator"],
            "installed for one namespace with roles there only, it serves that one and leaves others alone",
            |space| Box::pin(operator_namespaced::run(space)),
        )
        .alone()
        .testbed_only(),
        Scenario::new(
            "idle-writes",
            &["core", "operator"],
            "a healthy cluster gets no API writes for three minutes",
            |space| Box::pin(idle_writes::run(space)),
        )
        .alone(),
    ]
}
