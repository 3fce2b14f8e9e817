//! The CRDs, plain for `kubectl` and as a template for the chart.

use anyhow::{Context as _, Result, ensure};
use foreshard_api::ValkeyCluster;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt as _;

use super::{Generated, tidy, yaml};

/// What the chart adds to a CRD's metadata: uninstalling the chart must not delete every cluster with it.
const CHART_METADATA: &str = "\
metadata:
  {{- if .Values.keep }}
  annotations:
    helm.sh/resource-policy: keep
  {{- end }}
  labels:
    {{- include \"foreshard-crds.labels\" . | nindent 4 }}
";

pub fn files() -> Result<Vec<Generated>> {
    let kinds = [ValkeyCluster::crd()];
    let files: Vec<_> = kinds.iter().map(of_kind).collect::<Result<_>>()?;
    Ok(files.into_iter().flatten().collect())
}

fn of_kind(crd: &CustomResourceDefinition) -> Result<[Generated; 2]> {
    let name = format!("{}_{}.yaml", crd.spec.group, crd.spec.names.plural);
    let mut tree = serde_json::to_value(crd).with_context(|| format!("turn {name} into a tree"))?;
    tidy::tidy(&mut tree);
    let text = yaml::write(&tree).with_context(|| format!("write {name}"))?;
    let template = template(&text).with_context(|| format!("make a template of {name}"))?;
    Ok([
        Generated::new(format!("config/crd/{name}"), &text),
        Generated::new(format!("charts/foreshard-crds/templates/{name}"), &template),
    ])
}

fn template(crd: &str) -> Result<String> {
    let escaped = yaml::escape_for_helm(crd);
    let template = escaped.replacen("\nmetadata:\n", &format!("\n{CHART_METADATA}"), 1);
    ensure!(template != escaped, "it has no metadata to add to");
    Ok(template)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_crds_hold_no_noise() {
        for file in files().unwrap() {
            for noise in ["nullable", "fixed-point", ".0\n", "uint"] {
                assert!(!file.text.contains(noise), "{} has {noise}", file.path);
            }
        }
    }

    #[test]
    fn only_what_the_chart_adds_is_for_helm_to_fill_in() {
        let [plain, chart] = of_kind(&ValkeyCluster::crd()).unwrap();
        let added = CHART_METADATA.matches("{{").count();
        assert_eq!(
            chart.text.matches("{{").count(),
            added + 2 * plain.text.matches("{{").count()
        );
        assert!(chart.text.contains("helm.sh/resource-policy: keep"));
    }
}
