//! What the caches look like from outside, whatever is in them.

use std::collections::HashMap;

use serde_json::{Value, json};

use super::shared::Store;
use super::size::Sizes;
use crate::gate::Kind;
use crate::metrics::Metrics;

/// Sets the gauges that are counted when somebody looks.
pub fn measure(sizes: &Sizes, metrics: &Metrics) {
    for (kind, rows, bytes) in sizes.iter() {
        let (of_rows, of_bytes) = (&metrics.store_rows, &metrics.store_bytes);
        of_rows.with_label_values(&[kind.word()]).set(rows as i64);
        of_bytes.with_label_values(&[kind.word()]).set(bytes as i64);
    }
}

/// The beginning of what `/debug/store` shows.
pub fn debug(store: &Store, sizes: &Sizes) -> Value {
    let size =
        |(kind, rows, bytes): (Kind, _, _)| (kind.word(), json!({"rows": rows, "bytes": bytes}));
    let sizes: HashMap<_, _> = sizes.iter().map(size).collect();
    let seen = store.read().seen("");
    let seen: HashMap<_, _> = Kind::ALL
        .map(|kind| (kind.word(), seen.of(kind).to_string()))
        .into();
    json!({"caches": sizes, "seen": seen})
}
