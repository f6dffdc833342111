//! The API server's own record of what was asked of it.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::cluster::Audit;

/// Entries for pods, our kinds, what is served natively and leases (except the nodes' own) carry the request's body.
/// Events are left out, and so is the stage before an answer is known.
pub(crate) fn policy(audit: Audit) -> Value {
    let level = match audit {
        Audit::Off => "None",
        Audit::Requests => "Request",
        Audit::Responses => "RequestResponse",
    };
    serde_json::json!({
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived"],
        // Half of every answer, and nobody reads it.
        "omitManagedFields": true,
        "rules": [
            {"level": "None", "resources": [
                {"group": "", "resources": ["events"]},
                {"group": "events.k8s.io", "resources": ["events"]},
            ]},
            {"level": "None", "namespaces": ["kube-node-lease"]},
            {"level": level,
             "verbs": ["create", "update", "patch", "delete", "deletecollection"],
             "resources": [
                {"group": "", "resources": ["pods", "pods/*"]},
                {"group": "apps", "resources": ["daemonsets", "daemonsets/*", "controllerrevisions"]},
                {"group": "batch"},
                {"group": "carillon.dev"},
                {"group": "coordination.k8s.io", "resources": ["leases"]},
            ]},
            {"level": "Metadata"},
        ],
    })
}

/// One request, at its end (or, for a watch, also at its start).
#[derive(Clone, Debug, PartialEq)]
pub struct AuditEvent {
    /// Identifies the request; the same in all its stages.
    pub id: String,
    /// `ResponseStarted` (watches), `ResponseComplete` or `Panic`.
    pub stage: String,
    /// `create`, `get`, `list`, `watch`, `update`, `patch`, `delete`, `deletecollection`.
    pub verb: String,
    /// Who asked, for example `system:serviceaccount:carillon:carillon`.
    pub user: String,
    /// The `User-Agent` header; empty when none was sent.
    pub user_agent: String,
    /// Path and query.
    pub request_uri: String,
    /// API group; empty for the core group.
    pub group: String,
    /// Plural, such as `pods`; empty for a request that is not for a resource.
    pub resource: String,
    /// Such as `status` or `binding`; empty when none.
    pub subresource: String,
    /// Empty for a cluster-scoped object.
    pub namespace: String,
    /// Empty for a list, and for a create with `generateName` unless responses are recorded.
    pub name: String,
    /// The object's uid when the API server knew it: from the body of an update, from a delete's
    /// precondition, or from the response when responses are recorded.
    pub uid: Option<String>,
    /// The answer's HTTP status.
    pub code: Option<u16>,
    /// When the request came, as RFC 3339 with microseconds: sorts as text.
    pub received: String,
    /// When this stage was reached.
    pub stage_time: String,
    /// Whether the client asked for a dry run: nothing was stored.
    pub dry_run: bool,
    /// The body, for the resources whose bodies are recorded.
    pub request_object: Option<Value>,
    /// The answer's body, with [`Audit::Responses`].
    pub response_object: Option<Value>,
}

impl AuditEvent {
    /// One line of the log; `None` when it is not an audit event.
    pub fn parse(line: &str) -> Option<Self> {
        let mut entry: Value = serde_json::from_str(line).ok()?;
        let text = |entry: &Value, pointer: &str| {
            entry
                .pointer(pointer)
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned()
        };
        let request_object = entry.get_mut("requestObject").map(Value::take);
        let response_object = entry.get_mut("responseObject").map(Value::take);
        let metadata = |object: &Option<Value>, key: &str| {
            Some(
                object
                    .as_ref()?
                    .pointer(&format!("/metadata/{key}"))?
                    .as_str()?
                    .to_owned(),
            )
        };
        let known = Some(text(&entry, "/objectRef/uid")).filter(|uid| !uid.is_empty());
        let precondition = || {
            let body = request_object.as_ref()?;
            Some(body.pointer("/preconditions/uid")?.as_str()?.to_owned())
        };
        let uid = known
            .or_else(precondition)
            .or_else(|| metadata(&response_object, "uid"));
        let mut name = text(&entry, "/objectRef/name");
        if name.is_empty() && entry["verb"] == "create" {
            name = metadata(&response_object, "name")
                .or_else(|| metadata(&request_object, "name"))
                .unwrap_or_default();
        }
        let request_uri = text(&entry, "/requestURI");
        let by_body = request_object
            .as_ref()
            .is_some_and(|body| body.get("dryRun").is_some());
        Some(Self {
            id: entry.get("auditID")?.as_str()?.to_owned(),
            stage: text(&entry, "/stage"),
            verb: text(&entry, "/verb"),
            user: text(&entry, "/user/username"),
            user_agent: text(&entry, "/userAgent"),
            dry_run: by_body || request_uri.contains("dryRun="),
            request_uri,
            group: text(&entry, "/objectRef/apiGroup"),
            resource: text(&entry, "/objectRef/resource"),
            subresource: text(&entry, "/objectRef/subresource"),
            namespace: text(&entry, "/objectRef/namespace"),
            name,
            uid,
            code: entry
                .pointer("/responseStatus/code")
                .and_then(Value::as_u64)
                .map(|c| c as u16),
            received: text(&entry, "/requestReceivedTimestamp"),
            stage_time: text(&entry, "/stageTimestamp"),
            request_object,
            response_object,
        })
    }

    /// Whether the request changed something: a write, answered with 2xx, not a dry run.
    pub fn is_stored_write(&self) -> bool {
        let write = ["create", "update", "patch", "delete", "deletecollection"];
        write.contains(&self.verb.as_str())
            && self.code.is_some_and(|code| (200..300).contains(&code))
            && !self.dry_run
    }
}

/// Reads the whole log, in the order the API server wrote it (the order of answers).
/// A last line that is still being written is left out.
pub fn read(path: &Path) -> Result<Vec<AuditEvent>> {
    let text = fs::read_to_string(path)
        .with_context(|| format!("reading the audit log {}", path.display()))?;
    Ok(text.lines().filter_map(AuditEvent::parse).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const CREATE: &str = r#"{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Request",
        "auditID":"a1","stage":"ResponseComplete","requestURI":"/api/v1/namespaces/d/pods",
        "verb":"create","user":{"username":"admin"},"userAgent":"carillon/1",
        "objectRef":{"resource":"pods","namespace":"d","apiVersion":"v1"},
        "responseStatus":{"code":201},"requestObject":{"metadata":{"name":"p1"}},
        "requestReceivedTimestamp":"2026-01-01T00:00:00.000001Z",
        "stageTimestamp":"2026-01-01T00:00:00.000002Z"}"#;

    #[test]
    fn a_create_is_named_from_its_body() {
        let event = AuditEvent::parse(CREATE).expect("parsed");
        assert_eq!(event.name, "p1");
        assert_eq!((event.resource.as_str(), event.code), ("pods", Some(201)));
        assert!(event.is_stored_write());
        assert_eq!(event.uid, None);
    }

    #[test]
    fn a_dry_run_and_a_refusal_stored_nothing() {
        let dry = CREATE.replace("/pods\"", "/pods?dryRun=All\"");
        assert!(!AuditEvent::parse(&dry).expect("parsed").is_stored_write());
        let refused = CREATE.replace("201", "409");
        assert!(
            !AuditEvent::parse(&refused)
                .expect("parsed")
                .is_stored_write()
        );
    }

    #[test]
    fn a_delete_has_the_uid_of_its_precondition() {
        let line = r#"{"auditID":"a2","stage":"ResponseComplete","verb":"delete",
            "requestURI":"/x","objectRef":{"resource":"pods","name":"p"},
            "requestObject":{"preconditions":{"uid":"u-1"}}}"#;
        let event = AuditEvent::parse(line).expect("parsed");
        assert_eq!(event.uid.as_deref(), Some("u-1"));
        assert!(!event.is_stored_write(), "no answer yet");
    }

    #[test]
    fn a_torn_line_is_no_event() {
        assert_eq!(AuditEvent::parse(&CREATE[..100]), None);
        assert_eq!(AuditEvent::parse("{}"), None);
    }
}
