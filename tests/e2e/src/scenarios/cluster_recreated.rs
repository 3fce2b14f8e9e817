use anyhow::{Result, ensure};
use kube::api::DeleteParams;
use serde_json::json;

use crate::cluster::Cluster;
use crate::load::{Load, flawless};
use crate::space::Space;

/// A cluster is deleted and made anew under the same name at once: the new one has its own pods and none of the old
/// one's data, although for a moment the old one's pods are still there and answer.
pub(crate) async fn run(space: Space) -> Result<()> {
    let spec = || Cluster::spec(&json!({"replicasPerShard": 1}));
    let first = Cluster::create(&space, "shop", spec()).await?;
    first.ready().await?;
    flawless(
        &Load::start(&space, "shop", 3, &["--rate", "500", "--keys", "1000"])
            .await?
            .report()
            .await?,
    )?;
    let old: Vec<_> = first
        .ask()
        .await?
        .into_iter()
        .map(|member| member.view.id)
        .collect();

    first.api().delete("shop", &DeleteParams::default()).await?;
    let second = Cluster::create(&space, "shop", spec()).await?;
    second.settled().await?;
    for member in second.whole(3, 1).await? {
        ensure!(
            !old.contains(&member.view.id),
            "{} is a member of the old cluster",
            member.pod
        );
        ensure!(
            member.view.keys == 0,
            "{} has {} keys of the old cluster",
            member.pod,
            member.view.keys
        );
    }
    flawless(
        &Load::start(&space, "shop", 3, &["--rate", "500", "--keys", "1000"])
            .await?
            .report()
            .await?,
    )
}
