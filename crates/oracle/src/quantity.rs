//! Quantities, as specs and nodes write them.

use serde_json::Value;

/// A quantity in its base unit: `500m` is 0.5, `1Ki` is 1024.
pub(crate) fn quantity(value: &Value) -> Option<f64> {
    let text = match value {
        Value::Number(number) => return number.as_f64(),
        Value::String(text) => text.trim(),
        _ => return None,
    };
    if let Ok(number) = text.parse() {
        return Some(number);
    }
    let suffixes = [
        ("Ki", 1024f64),
        ("Mi", 1024f64.powi(2)),
        ("Gi", 1024f64.powi(3)),
        ("Ti", 1024f64.powi(4)),
        ("Pi", 1024f64.powi(5)),
        ("Ei", 1024f64.powi(6)),
        ("n", 1e-9),
        ("u", 1e-6),
        ("m", 1e-3),
        ("k", 1e3),
        ("M", 1e6),
        ("G", 1e9),
        ("T", 1e12),
        ("P", 1e15),
        ("E", 1e18),
    ];
    suffixes.iter().find_map(|(suffix, factor)| {
        let digits = text.strip_suffix(suffix)?;
        Some(digits.parse::<f64>().ok()? * factor)
    })
}
