//! Benchmarks: each prints a table and leaves its figures in `target/bench/<name>.json`.

mod operator_memory;

use anyhow::{Context as _, Result, bail};
use foreshard_testbed::paths::Paths;
use futures::future::BoxFuture;
use kube::Client;
use serde::Serialize;

/// One figure. `theirs` and `ratio` are absent where nothing was measured beside ours in the same run.
#[derive(Serialize)]
pub(crate) struct Figure {
    /// What was measured.
    pub(crate) name: String,
    /// Our figure.
    pub(crate) ours: f64,
    /// The figure of what we compare with, from the same run.
    pub(crate) theirs: Option<f64>,
    /// Theirs divided by ours.
    pub(crate) ratio: Option<f64>,
    /// The unit.
    pub(crate) unit: &'static str,
    /// What we want to reach.
    pub(crate) target: Option<f64>,
}

type Bench = fn(Client) -> BoxFuture<'static, Result<Vec<Figure>>>;

fn all() -> Vec<(&'static str, Bench)> {
    vec![("operator-memory", |client| Box::pin(operator_memory::run(client)))]
}

/// Runs one benchmark, or all.
pub(crate) async fn run(name: Option<&str>) -> Result<()> {
    let chosen: Vec<_> = all()
        .into_iter()
        .filter(|(known, _)| name.is_none_or(|name| name == *known))
        .collect();
    if chosen.is_empty() {
        let names: Vec<&str> = all().iter().map(|(name, _)| *name).collect();
        bail!(
            "no benchmark is called {}; there are: {}",
            name.unwrap_or_default(),
            names.join(", ")
        );
    }
    let client = Client::try_default().await?;
    let folder = Paths::find()?.root().join("target/bench");
    std::fs::create_dir_all(&folder)?;
    for (name, bench) in chosen {
        let figures = bench(client.clone())
            .await
            .with_context(|| format!("benchmark {name}"))?;
        println!(
            "{:<44} {:>10} {:>10} {:>7} {:>8}",
            name, "ours", "theirs", "ratio", "target"
        );
        for figure in &figures {
            let text =
                |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.1}"));
            println!(
                "{:<44} {:>10} {:>10} {:>7} {:>8} {}",
                figure.name,
                text(Some(figure.ours)),
                text(figure.theirs),
                text(figure.ratio),
                text(figure.target),
                figure.unit
            );
        }
        std::fs::write(
            folder.join(format!("{name}.json")),
            serde_json::to_string_pretty(&figures)?,
        )?;
    }
    Ok(())
}
