//! Cuts the items out of a list while it arrives. What a list has beside them is skipped unread.

use super::frames::LONGEST_LINE;

/// Cuts one reply. Items go out one by one, each as the JSON it is; none is looked into.
#[derive(Debug, Default)]
pub(super) struct Items {
    place: Place,
    value: Value,
    /// The beginning of what is being cut out, when it did not come in one piece.
    half: Vec<u8>,
    metadata: Vec<u8>,
}

/// What comes next.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
enum Place {
    #[default]
    Object,
    Key,
    InKey,
    Colon(Field),
    Begin(Field),
    In(Field),
    Item,
    InItem,
    End,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Field {
    Metadata,
    Items,
    Other,
}

impl Items {
    /// Takes what has arrived, and gives each item that is complete by now.
    ///
    /// # Errors
    /// What `each` says, or why this is no list.
    pub(super) fn push(
        &mut self,
        mut chunk: &[u8],
        mut each: impl FnMut(&[u8]) -> Result<(), String>,
    ) -> Result<(), String> {
        while let Some(&byte) = chunk.first() {
            let inside = matches!(self.place, Place::InKey | Place::In(_) | Place::InItem);
            if !inside {
                if !byte.is_ascii_whitespace() && !self.step(byte)? {
                    continue;
                }
                chunk = &chunk[1..];
                continue;
            }
            let (length, is_over) = self.value.end(chunk);
            let (part, rest) = chunk.split_at(length);
            chunk = rest;
            if is_over && self.half.is_empty() {
                self.cut_out(part, &mut each)?;
            } else if self.place != Place::In(Field::Other) {
                if self.half.len() + part.len() > LONGEST_LINE {
                    return Err(format!("a part of more than {LONGEST_LINE} bytes"));
                }
                self.half.extend_from_slice(part);
                if is_over {
                    // Given back empty, so that one huge object does not stay for ever.
                    let whole = std::mem::take(&mut self.half);
                    self.cut_out(&whole, &mut each)?;
                }
            } else if is_over {
                self.place = Place::Key;
            }
        }
        Ok(())
    }

    /// The list's metadata, once all of it is there.
    ///
    /// # Errors
    /// When it is not.
    pub(super) fn finish(self) -> Result<Vec<u8>, String> {
        match self.place {
            Place::End => Ok(self.metadata),
            _ => Err("it ends in the middle of a list".to_owned()),
        }
    }

    /// Passes a byte between values. Whether it was taken: what begins a value is a part of it.
    fn step(&mut self, byte: u8) -> Result<bool, String> {
        let next = match (self.place, byte) {
            (Place::Object, b'{') | (Place::Key, b',') | (Place::Begin(Field::Items), b']') => {
                Some(Place::Key)
            }
            (Place::Key, b'}') => Some(Place::End),
            (Place::Colon(field), b':') => Some(Place::Begin(field)),
            (Place::Begin(Field::Items), b'[') | (Place::Item, b',') => Some(Place::Item),
            (Place::Item, b']') => Some(Place::Key),
            _ => None,
        };
        if let Some(next) = next {
            self.place = next;
            return Ok(true);
        }
        let begins = !matches!(byte, b',' | b':' | b']' | b'}');
        self.place = match self.place {
            Place::Key if byte == b'"' => Place::InKey,
            // Go writes an empty list as null.
            Place::Begin(Field::Items) if byte == b'n' => Place::In(Field::Other),
            Place::Begin(field) if begins && field != Field::Items => Place::In(field),
            Place::Item if begins => Place::InItem,
            _ => {
                return Err(format!(
                    "not a list: {:?} is out of place",
                    char::from(byte)
                ));
            }
        };
        self.value = Value::default();
        Ok(false)
    }

    fn cut_out(
        &mut self,
        whole: &[u8],
        each: &mut impl FnMut(&[u8]) -> Result<(), String>,
    ) -> Result<(), String> {
        match self.place {
            Place::InItem => {
                self.place = Place::Item;
                return each(whole);
            }
            Place::InKey => {
                self.place = Place::Colon(match whole {
                    b"\"items\"" => Field::Items,
                    b"\"metadata\"" => Field::Metadata,
                    _ => Field::Other,
                });
            }
            Place::In(Field::Metadata) => {
                self.metadata = whole.to_vec();
                self.place = Place::Key;
            }
            _ => self.place = Place::Key,
        }
        Ok(())
    }
}

/// Finds the end of a value.
#[derive(Clone, Copy, Debug, Default)]
struct Value {
    depth: usize,
    in_text: bool,
    is_escaped: bool,
    has_begun: bool,
}

impl Value {
    /// How many of these bytes are the value's, and whether that is all of it.
    fn end(&mut self, bytes: &[u8]) -> (usize, bool) {
        let mut at = 0;
        while let Some(&byte) = bytes.get(at) {
            if self.in_text {
                at += self.text(&bytes[at..]);
                if !self.in_text && self.depth == 0 {
                    return (at, true);
                }
                continue;
            }
            match byte {
                b'"' => self.in_text = true,
                b'{' | b'[' => self.depth += 1,
                // Of a number or word, the end is what comes behind it.
                b',' | b'}' | b']' if self.depth == 0 => return (at, true),
                b'}' | b']' => {
                    self.depth -= 1;
                    if self.depth == 0 {
                        return (at + 1, true);
                    }
                }
                _ if self.depth == 0 && self.has_begun && byte.is_ascii_whitespace() => {
                    return (at, true);
                }
                _ => {}
            }
            self.has_begun = true;
            at += 1;
        }
        (at, false)
    }

    /// How many of these bytes are the text's that it is in.
    fn text(&mut self, bytes: &[u8]) -> usize {
        if std::mem::take(&mut self.is_escaped) {
            return 1;
        }
        let special = |byte: &u8| matches!(byte, b'"' | b'\\');
        let Some(at) = bytes.iter().position(special) else {
            return bytes.len();
        };
        if bytes[at] == b'"' {
            self.in_text = false;
        } else {
            self.is_escaped = true;
        }
        at + 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Items and metadata of a list that arrives in pieces of this size.
    fn cut(list: &str, size: usize) -> Result<(Vec<String>, String), String> {
        let (mut items, mut found) = (Items::default(), Vec::new());
        for chunk in list.as_bytes().chunks(size) {
            items.push(chunk, |item| {
                found.push(String::from_utf8(item.to_vec()).unwrap());
                Ok(())
            })?;
        }
        let metadata = String::from_utf8(items.finish()?).unwrap();
        Ok((found, metadata))
    }

    #[test]
    fn items_are_found_however_a_list_is_cut_and_ordered() {
        let first = r#"{"a":"}],\" \\","b":[{},[1,"]"]]}"#;
        let metadata = r#"{"continue":"x","r":{}}"#;
        for list in [
            format!(r#"{{"kind":"L","metadata":{metadata},"items":[{first},{{}},7]}}"#),
            format!(r#"{{"items":[ {first} , {{}},7 ],"n":12,"metadata":{metadata}}}"#),
            format!(
                " {{ \"metadata\" : {metadata} , \"items\" : [{first},\n{{}},7\n] , \"n\": [null] }} "
            ),
        ] {
            for size in 1..=list.len() {
                let (items, found) = cut(&list, size).unwrap();
                assert_eq!(items, [first, "{}", "7"], "{size} {list}");
                assert_eq!(found, metadata, "{size} {list}");
            }
        }
    }

    #[test]
    fn a_list_may_be_empty_or_null() {
        for items in ["[]", "[ ]", "null"] {
            let list = format!(r#"{{"items":{items},"metadata":{{}}}}"#);
            assert_eq!(cut(&list, 3), Ok((vec![], "{}".to_owned())), "{items}");
        }
    }

    #[test]
    fn what_is_no_list_is_an_error() {
        for wrong in [
            "",
            "[]",
            "{",
            r#"{"items":[{}"#,
            r#"{"items":{}}"#,
            r#"{"items":[}]}"#,
            r#"{"metadata":}"#,
            "{}}",
            "<html>",
        ] {
            assert!(cut(wrong, 4).is_err(), "{wrong}");
        }
        let endless = format!(r#"{{"items":["{}"#, "x".repeat(LONGEST_LINE));
        assert!(
            cut(&endless, 1 << 20)
                .unwrap_err()
                .contains("a part of more")
        );
    }
}
