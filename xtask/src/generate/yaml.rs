//! YAML that people read and Kubernetes understands.

use anyhow::{Context as _, Result, ensure};
use serde::Serialize;
use serde_json::Value;

/// Writes a value as one YAML document, with its keys in order and nothing in it changed.
pub fn write(value: &impl Serialize) -> Result<String> {
    let mut value = serde_json::to_value(value).context("turn it into a tree")?;
    // Other crates of the workspace may switch on a feature that keeps keys as they come: sorted here, the text does
    // not depend on what else is built.
    value.sort_all_objects();
    let text = serde_saphyr::to_string(&value).context("write YAML")?;
    // Empty lines inside a block of text come with their indentation.
    let text: String = text
        .lines()
        .map(|line| {
            if line.trim().is_empty() {
                "\n".to_owned()
            } else {
                format!("{line}\n")
            }
        })
        .collect();
    let again: Value = serde_saphyr::from_str(&text).context("read the written YAML")?;
    ensure!(again == value, "the YAML does not say what was meant:\n{text}");
    Ok(text)
}

/// Writes a text such that Helm's template language gives back the same.
pub fn escape_for_helm(text: &str) -> String {
    text.replace("{{", "{{ \"{{\" }}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn awkward_strings_survive() {
        for text in [
            "^[a-z]([-a-z0-9]*[a-z0-9])?$",
            r"!self[k].matches('[\\x00-\\x1f]')",
            "first line\n\n  indented: yes\nlast line",
            "yes",
            "1.10",
            "- not a list",
            "# no comment",
            " spaces ",
        ] {
            let long = format!("{text} {}", "and on and on ".repeat(20));
            write(&json!({ "short": text, "long": long })).unwrap();
        }
    }

    #[test]
    fn keys_are_in_order_and_empty_lines_are_empty() {
        let text = write(&json!({ "b": "one\n\ntwo", "a": [1, { "d": 1, "c": 2 }] })).unwrap();
        assert_eq!(text, "a:\n- 1\n- c: 2\n  d: 1\nb: |-\n  one\n\n  two\n");
    }

    #[test]
    fn helm_finds_nothing_to_fill_in() {
        assert_eq!(escape_for_helm("a {{ b }}"), "a {{ \"{{\" }} b }}");
        assert_eq!(escape_for_helm("{ plain }"), "{ plain }");
    }
}
