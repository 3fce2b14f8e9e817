//! What a failed scenario leaves behind: the operator's log, events, objects, pods' logs, the nodes' logs.

use std::fs;
use std::path::Path;

use foreshard_testbed::paths::Paths;
use tokio::process::Command;

use crate::operator;
use crate::space::Space;

/// Collects what helps to understand a failure. What cannot be had is noted and does not hide the failure itself.
pub(crate) async fn collect(space: &Space, error: &anyhow::Error) {
    let folder = &space.evidence;
    if let Err(error) = fs::create_dir_all(folder) {
        println!("could not keep evidence in {}: {error}", folder.display());
        return;
    }
    write(folder, "error.txt", format!("{error:?}\n"));
    let ns = space.namespace.as_str();
    let system = operator::NAMESPACE;
    let questions: &[(&str, &[&str])] = &[
        (
            "operator.log",
            &[
                "logs",
                "-n",
                system,
                "-l",
                "app.kubernetes.io/name=foreshard",
                "--tail=-1",
                "--prefix",
            ],
        ),
        (
            "operator-before.log",
            &[
                "logs",
                "-n",
                system,
                "-l",
                "app.kubernetes.io/name=foreshard",
                "--tail=-1",
                "-p",
            ],
        ),
        (
            "events.txt",
            &["get", "events", "-n", ns, "--sort-by=.metadata.creationTimestamp"],
        ),
        (
            "clusters.yaml",
            &["get", "valkeyclusters", "-n", ns, "-o", "yaml"],
        ),
        (
            "objects.txt",
            &[
                "get",
                "statefulsets,pods,services,configmaps,pdb",
                "-n",
                ns,
                "-o",
                "wide",
            ],
        ),
        ("pods.yaml", &["get", "pods", "-n", ns, "-o", "yaml"]),
        (
            "stores.log",
            &[
                "logs",
                "-n",
                ns,
                "-l",
                "foreshard.io/cluster",
                "--tail=-1",
                "--prefix",
                "--all-containers",
            ],
        ),
        (
            "stores-before.log",
            &[
                "logs",
                "-n",
                ns,
                "-l",
                "foreshard.io/cluster",
                "--tail=-1",
                "--prefix",
                "-p",
            ],
        ),
    ];
    for (file, arguments) in questions {
        let text = match kubectl().args(*arguments).output().await {
            Ok(output) => [output.stdout, output.stderr].concat(),
            Err(error) => format!("kubectl could not be run: {error}").into_bytes(),
        };
        write(folder, file, text);
    }
    keep_node_logs(folder);
    println!("evidence: {}", folder.display());
}

/// The kubectl of the testbed inside its namespace, or the caller's.
pub(crate) fn kubectl() -> Command {
    match Paths::find().map(|paths| paths.program("kubectl")) {
        Ok(path) if path.exists() => Command::new(path),
        _ => Command::new("kubectl"),
    }
}

fn keep_node_logs(folder: &Path) {
    let Ok(paths) = Paths::find() else { return };
    let Ok(logs) = fs::read_dir(paths.logs()) else {
        return;
    };
    for log in logs.flatten() {
        let target = folder.join(format!("node-{}", log.file_name().to_string_lossy()));
        if log.path().is_file()
            && let Err(error) = fs::copy(log.path(), target)
        {
            println!("could not keep {}: {error}", log.path().display());
        }
    }
}

fn write(folder: &Path, file: &str, content: impl AsRef<[u8]>) {
    if let Err(error) = fs::write(folder.join(file), content) {
        println!("could not keep {file}: {error}");
    }
}
