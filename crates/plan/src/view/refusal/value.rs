//! What to write in place of a value of the wrong type.

use jiff::SignedDuration;
use serde_json::Value;

/// What is wrong, and what to write; `None` if the value is of that type.
pub(super) fn wrong_type(field: &str, found: &Value, wanted: &str) -> Option<String> {
    let is = match found {
        Value::Null => "empty",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    };
    let write = match (wanted, found) {
        ("integer" | "number", Value::Number(number)) if number.is_f64() => {
            "write a whole number".to_owned()
        }
        ("integer" | "number", Value::Number(_))
        | ("string", Value::String(_))
        | ("boolean", Value::Bool(_))
        | ("array", Value::Array(_))
        | ("object", Value::Object(_)) => return None,
        ("integer" | "number", Value::String(text)) => number_for(field, text),
        ("integer" | "number", _) => "write a number".to_owned(),
        ("boolean", Value::String(text)) => boolean_for(text),
        ("boolean", _) => "write true or false".to_owned(),
        // How it was written is not known any more: 1.10 is read as 1.1.
        ("string", Value::Number(number)) if number.is_f64() => {
            return Some(
                "it is a number: write it in quotes, digit by digit as it stands in your file"
                    .to_owned(),
            );
        }
        ("string", Value::Bool(_) | Value::Number(_)) => format!("write it in quotes: \"{found}\""),
        ("string", _) => "write a text".to_owned(),
        ("array", _) => {
            "write a list: each item on a line of its own that begins with \"- \"".to_owned()
        }
        ("object", Value::Array(_)) => "write fields, without \"- \" before them".to_owned(),
        ("object", _) => "write fields below it, each as NAME: VALUE".to_owned(),
        _ => return None,
    };
    let shown = match found {
        Value::Null => "it is empty".to_owned(),
        Value::Array(_) | Value::Object(_) => format!("it is {is}"),
        plain => format!("{plain} is {is}"),
    };
    Some(format!("{shown}: {write}"))
}

fn number_for(field: &str, text: &str) -> String {
    let text = text.trim();
    if text.parse::<i64>().is_ok() {
        return format!("remove the quotes: {text}");
    }
    let name = field.rsplit('.').next().unwrap_or(field);
    // Also of ttlSecondsAfterFinished.
    let seconds = name.contains("Seconds");
    match text.parse::<SignedDuration>() {
        Ok(duration) if seconds => format!("write seconds: {}", duration.as_secs()),
        _ if seconds => "write seconds, such as 600".to_owned(),
        _ => "write a number, without quotes".to_owned(),
    }
}

fn boolean_for(text: &str) -> String {
    match text.trim().to_ascii_lowercase().as_str() {
        is @ ("true" | "false") => format!("remove the quotes: {is}"),
        "yes" | "on" | "y" | "1" => "write true".to_owned(),
        "no" | "off" | "n" | "0" => "write false".to_owned(),
        _ => "write true or false".to_owned(),
    }
}
