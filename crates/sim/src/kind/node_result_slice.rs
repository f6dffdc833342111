//! The CEL rules of NodeResultSlices.

use std::sync::OnceLock;

use serde_json::Value;

use super::schema;
use crate::status::Cause;

pub(super) fn schema() -> &'static Value {
    static SCHEMA: OnceLock<Value> = OnceLock::new();
    SCHEMA.get_or_init(|| {
        schema::of_crd(include_str!(
            "../../../../crds/carillon.dev_noderesultslices.yaml"
        ))
    })
}

pub(super) fn check(slice: &Value, old: Option<&Value>) -> Vec<Cause> {
    let Some(old) = old.filter(|old| old["sealed"] == true) else {
        return Vec::new();
    };
    let size = |slice: &Value| slice["results"].as_array().map_or(0, Vec::len);
    let mut causes = Vec::new();
    if slice["sealed"] != true {
        let why = "must not go back to false";
        causes.push(Cause::invalid("sealed", &slice["sealed"], why));
    }
    if size(slice) > size(old) {
        let why = "must not grow once sealed is true";
        causes.push(Cause::forbidden("results", why));
    }
    causes
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_sealed_slice_stays_sealed_and_does_not_grow() {
        let slice = |sealed: bool, size: usize| json!({"sealed": sealed, "results": vec![1; size]});
        assert!(check(&slice(true, 3), Some(&slice(false, 1))).is_empty());
        assert!(check(&slice(true, 1), Some(&slice(true, 1))).is_empty());
        assert_eq!(check(&slice(true, 2), Some(&slice(true, 1))).len(), 1);
        assert_eq!(check(&slice(false, 2), Some(&slice(true, 1))).len(), 2);
    }
}
