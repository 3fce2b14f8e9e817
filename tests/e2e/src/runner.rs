//! Runs scenarios: a few at a time, and those that disturb the operator or the nodes alone, at the end.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use futures::StreamExt as _;
use kube::Client;

use crate::evidence;
use crate::scenarios::{self, Scenario};
use crate::space::{Space, is_current_cluster};

/// How long one scenario may take.
const LIMIT: Duration = Duration::from_mins(10);

/// Runs the chosen scenarios and prints the count as the last line.
pub(crate) async fn run(only: Option<&str>, tag: Option<&str>, jobs: usize) -> Result<bool> {
    let chosen: Vec<Scenario> = scenarios::all()
        .into_iter()
        .filter(|scenario| only.is_none_or(|name| scenario.name == name))
        .filter(|scenario| tag.is_none_or(|tag| scenario.tags.contains(&tag)))
        .collect();
    if chosen.is_empty() {
        bail!(
            "no scenario is called {}; `make e2e-list` prints them",
            only.or(tag).unwrap_or_default()
        );
    }
    let (skipped, chosen): (Vec<Scenario>, Vec<Scenario>) = chosen
        .into_iter()
        .partition(|scenario| is_current_cluster() && scenario.testbed_only);
    for scenario in &skipped {
        println!(
            "{}: skipped, because it reaches into the nodes and CLUSTER=current is not the testbed",
            scenario.name
        );
    }
    let client = Client::try_default().await?;
    let (alone, together): (Vec<Scenario>, Vec<Scenario>) =
        chosen.into_iter().partition(|scenario| scenario.alone);

    let mut passed = 0;
    let mut failed = Vec::new();
    let mut outcomes = futures::stream::iter(together)
        .map(|scenario| one(client.clone(), scenario))
        .buffer_unordered(jobs)
        .chain(futures::stream::iter(alone).then(|scenario| one(client.clone(), scenario)))
        .boxed_local();
    while let Some((name, outcome)) = outcomes.next().await {
        if outcome { passed += 1 } else { failed.push(name) }
    }
    for name in &failed {
        println!("failed: {name}; see target/e2e/{name}/");
    }
    let skipped = if skipped.is_empty() {
        String::new()
    } else {
        format!(", {} skipped", skipped.len())
    };
    println!("{passed} passed, {} failed{skipped}", failed.len());
    Ok(failed.is_empty())
}

async fn one(client: Client, scenario: Scenario) -> (&'static str, bool) {
    let name = scenario.name;
    let began = Instant::now();
    println!("{name}: begins");
    let outcome = match Space::open(client, name).await {
        Err(error) => Err(error),
        Ok(space) => {
            let run = tokio::time::timeout(LIMIT, (scenario.run)(space.clone())).await;
            let outcome =
                run.unwrap_or_else(|_| Err(anyhow::anyhow!("it took longer than {} s", LIMIT.as_secs())));
            if let Err(error) = &outcome {
                evidence::collect(&space, error).await;
            }
            let closed = space.close().await;
            outcome.and(closed)
        }
    };
    let seconds = began.elapsed().as_secs_f64();
    match &outcome {
        Ok(()) => println!("{name}: passed in {seconds:.1} s"),
        Err(error) => println!("{name}: FAILED after {seconds:.1} s: {error:#}"),
    }
    (name, outcome.is_ok())
}
