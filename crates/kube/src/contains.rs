//! Whether a live object has everything we ask for, whatever the API server and others have added to it.

use serde_json::Value;

use crate::quantity;

/// Whether `live` holds all of `wanted`.
///
/// Objects: every wanted field. Lists: every wanted element, in order, with others in between allowed. Numbers and
/// strings: the same value, also when it is the same quantity in another spelling.
#[must_use]
pub fn contains(live: &Value, wanted: &Value) -> bool {
    match (live, wanted) {
        (Value::Object(live), Value::Object(wanted)) => {
            wanted.iter().all(|(key, wanted)| match live.get(key) {
                Some(live) => contains(live, wanted),
                // The server drops empty maps, lists and nulls.
                None => is_empty(wanted),
            })
        }
        (Value::Array(live), Value::Array(wanted)) => {
            let mut rest = live.iter();
            wanted
                .iter()
                .all(|wanted| rest.any(|live| contains(live, wanted)))
        }
        (live, wanted) => live == wanted || same_quantity(live, wanted),
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(fields) => fields.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}

fn same_quantity(a: &Value, b: &Value) -> bool {
    let text = |value: &Value| match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    };
    match (
        text(a).and_then(|a| quantity::milli(&a)),
        text(b).and_then(|b| quantity::milli(&b)),
    ) {
        (Some(a), Some(b)) => a == b,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_the_server_adds_does_not_matter() {
        let live = json!({"spec": {"replicas": 2, "updateStrategy": {"type": "OnDelete"},
            "containers": [{"name": "injected"}, {"name": "store", "image": "x", "limits": {"memory": "1Gi"}}]}});
        let wanted = json!({"spec": {"replicas": 2, "containers": [{"name": "store", "limits": {"memory": "1024Mi"}}], "nodeSelector": {}}});
        assert!(contains(&live, &wanted));
    }

    #[test]
    fn what_somebody_changed_or_removed_is_seen() {
        let live = json!({"spec": {"replicas": 3, "ports": [{"port": 1}, {"port": 2}]}});
        assert!(!contains(&live, &json!({"spec": {"replicas": 2}})));
        assert!(!contains(&live, &json!({"spec": {"selector": {"a": "b"}}})));
        assert!(!contains(
            &live,
            &json!({"spec": {"ports": [{"port": 2}, {"port": 1}]}})
        ));
    }
}
