use anyhow::{Context as _, Result, ensure};
use foreshard_testbed::paths::Paths;
use kube::ResourceExt;
use kube::core::DynamicObject;

use crate::cluster::Cluster;
use crate::evidence::kubectl;
use crate::space::Space;

/// Every file in `config/samples` is applied as it is, and becomes Ready.
pub(crate) async fn run(space: Space) -> Result<()> {
    let folder = Paths::find()?.root().join("config/samples");
    let mut files: Vec<_> = std::fs::read_dir(&folder)?.collect::<Result<_, _>>()?;
    files.sort_by_key(std::fs::DirEntry::path);
    ensure!(!files.is_empty(), "there are no samples in {}", folder.display());
    for file in files {
        let applied = kubectl()
            .args(["apply", "-n", &space.namespace, "-o", "json", "-f"])
            .arg(file.path())
            .output()
            .await?;
        let words = String::from_utf8_lossy(&applied.stderr);
        ensure!(applied.status.success(), "{}: {words}", file.path().display());
        let object: DynamicObject =
            serde_json::from_slice(&applied.stdout).context("reading what kubectl applied")?;
        let cluster = Cluster::named(&space, &object.name_any());
        cluster
            .settled()
            .await
            .with_context(|| format!("with {}", file.path().display()))?;
        cluster.delete().await?;
    }
    Ok(())
}
