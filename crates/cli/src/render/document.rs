//! Answers for programs. They say exactly what is stored; on a terminal, too, they must do no harm.

use std::fmt::Write;

use anyhow::Result;
use carillon_plan::printable::is_harmful;
use serde::Serialize;

/// As JSON. What could mislead who reads it is escaped, which changes nothing for a program.
pub(super) fn json(value: &impl Serialize) -> Result<String> {
    let text = serde_json::to_string_pretty(value)?;
    // What is harmful and no end of a line can only be within a string.
    let escape = |out: &mut String, c: char| {
        for unit in c.encode_utf16(&mut [0; 2]) {
            // Writing to a String cannot fail.
            let _ = write!(out, "\\u{unit:04x}");
        }
    };
    Ok(escaped(&text, escape) + "\n")
}

/// As YAML. Only a string in double quotes can be escaped: with one that has to be, all of it is written
/// as JSON is, which is YAML.
pub(crate) fn yaml(value: &impl Serialize) -> Result<String> {
    let text = serde_saphyr::to_string(value)?;
    if !text.contains(|c| is_harmful(c) && c != '\n') {
        return Ok(text.trim_end().to_owned() + "\n");
    }
    let text = serde_json::to_string_pretty(value)?;
    // YAML knows no halves of a character.
    let escape = |out: &mut String, c: char| {
        let _ = write!(out, "\\U{:08x}", u32::from(c));
    };
    Ok(escaped(&text, escape) + "\n")
}

fn escaped(text: &str, escape: impl Fn(&mut String, char)) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if is_harmful(c) && c != '\n' {
            escape(&mut out, c);
        } else {
            out.push(c);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn documents_are_exact_and_harmless() {
        let all: String = (0..0xf_0000).filter_map(char::from_u32).collect();
        let harmful: String = all.chars().filter(|c| is_harmful(*c)).collect();
        for text in [harmful.as_str(), "a\nb", "größer 👍🏽", "", "yes"] {
            let value = json!({"text": text, "list": [1, null, {"a": text}]});
            let as_json = json(&value).unwrap();
            let as_yaml = yaml(&value).unwrap();
            for document in [&as_json, &as_yaml] {
                let harmful = document.chars().find(|c| is_harmful(*c) && *c != '\n');
                assert_eq!(harmful, None);
                assert!(document.ends_with('\n') && !document.ends_with("\n\n"));
            }
            assert_eq!(serde_json::from_str::<Value>(&as_json).unwrap(), value);
            assert_eq!(serde_saphyr::from_str::<Value>(&as_yaml).unwrap(), value);
        }
    }
}
