//! GET of many.

use std::ops::Bound;

use serde_json::{Value, json};

use super::{Answer, State};
use crate::call::{Call, Partial};
use crate::kind::Kind;
use crate::selector::Selector;
use crate::status::Status;

/// What a client sends back for the next page.
struct Continue {
    revision: u64,
    namespace: String,
    name: String,
}

impl Continue {
    fn write(&self) -> String {
        format!("{}/{}/{}", self.revision, self.namespace, self.name)
    }

    fn read(text: &str) -> Option<Self> {
        let mut parts = text.splitn(3, '/');
        Some(Self {
            revision: parts.next()?.parse().ok()?,
            namespace: parts.next()?.to_owned(),
            name: parts.next()?.to_owned(),
        })
    }
}

impl State {
    pub(super) fn list(
        &mut self,
        call: &Call,
        kind: &Kind,
        as_of: Option<u64>,
    ) -> Result<Answer, Status> {
        let selector = Selector::parse(call.parameter("labelSelector"))?;
        let limit = match call.parameter("limit") {
            "" => 0,
            text => text
                .parse()
                .map_err(|_| Status::bad_request("limit is not a number"))?,
        };
        let token = match call.parameter("continue") {
            "" => None,
            text => Some(
                Continue::read(text)
                    .ok_or_else(|| Status::bad_request("continue key is not valid"))?,
            ),
        };
        let asked = match &token {
            Some(token) => Some(token.revision),
            None => self.asked_revision(call)?,
        };
        let revision = asked.or(as_of).unwrap_or_else(|| self.store.revision());
        if revision < self.store.compacted() {
            return Err(Status::expired(
                "The provided continue parameter is too old to display a consistent list result.",
            ));
        }
        let resource = call.resource();
        let after = token.map(|token| {
            let mut key = call.key(&token.name);
            key.namespace = token.namespace.into();
            key
        });
        let earlier;
        let mut rest: Box<dyn Iterator<Item = _>> = if revision == self.store.revision() {
            Box::new(self.store.each(&resource, &call.namespace, after.as_ref()))
        } else {
            earlier = self.store.range_at(&resource, &call.namespace, revision);
            let first = after.map_or(Bound::Unbounded, Bound::Excluded);
            Box::new(earlier.range((first, Bound::Unbounded)))
        };
        let (mut items, mut end) = (Vec::new(), None);
        while limit == 0 || items.len() < limit {
            let Some((key, object)) = rest.next() else {
                break;
            };
            if selector.matches(object) {
                items.push(match call.partial {
                    Partial::List => json!({"metadata": object["metadata"]}),
                    Partial::No | Partial::Object => item(kind, object),
                });
            }
            end = Some(key);
        }
        // What is left may hold nothing that is selected; that is seen on the next page.
        let mut metadata = json!({"resourceVersion": revision.to_string()});
        let left = rest.count();
        if let Some(last) = end.filter(|_| left > 0) {
            let token = Continue {
                revision,
                namespace: last.namespace.to_string(),
                name: last.name.to_string(),
            };
            metadata["continue"] = json!(token.write());
            if call.parameter("labelSelector").is_empty() {
                metadata["remainingItemCount"] = json!(left);
            }
        }
        let list = json!({
            "apiVersion": kind.api_version(),
            "kind": format!("{}List", kind.kind),
            "metadata": metadata,
            "items": Value::Array(items),
        });
        Ok(Answer::Object(200, list.into()))
    }

    /// The revision a list has to be of; `None` when the newest will do.
    fn asked_revision(&self, call: &Call) -> Result<Option<u64>, Status> {
        let text = call.parameter("resourceVersion");
        if ["", "0"].contains(&text) {
            return Ok(None);
        }
        let asked: u64 = text
            .parse()
            .map_err(|_| Status::bad_request(format!("invalid resource version {text:?}")))?;
        let current = self.store.revision();
        if asked > current {
            return Err(Status::too_large_revision(asked, current));
        }
        Ok((call.parameter("resourceVersionMatch") == "Exact").then_some(asked))
    }
}

/// An object as a part of a list: of typed lists the items do not repeat what the list says.
pub(super) fn item(kind: &Kind, object: &Value) -> Value {
    let mut item = object.clone();
    if kind.schema.is_none()
        && let Some(item) = item.as_object_mut()
    {
        item.remove("apiVersion");
        item.remove("kind");
    }
    item
}
