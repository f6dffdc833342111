//! What the API server refuses of a manifest, said so that its author knows what to write.

mod field;
mod value;

use carillon_api::crds;
use serde_json::Value;

use self::field::{Field, names_at, value_at};
use self::value::wrong_type;

/// What the API server has said.
#[derive(Clone, Debug, Default)]
pub struct Refusal {
    /// In one text.
    pub message: String,
    /// Field by field, as far as it has.
    pub causes: Vec<Cause>,
}

/// One of the things that are wrong: a `StatusCause` of the API.
#[derive(Clone, Debug, Default)]
pub struct Cause {
    /// Such as `FieldValueNotSupported`.
    pub reason: String,
    /// Such as `spec.parallelism`.
    pub field: String,
    /// Such as `Unsupported value: "x": supported values: "a", "b"`.
    pub message: String,
}

/// What was sent to it.
pub struct Sent<'a> {
    /// The object.
    pub manifest: &'a Value,
    /// Where it stands in what its author wrote, such as `spec.template.`; empty if it is that.
    pub place: &'a str,
    /// The word nearest to one that may be misspelt, if one is near.
    pub nearest: fn(&str, &[String]) -> Option<String>,
}

/// The problem that stands for others that were not looked for.
const NOT_CHECKED: &str = "some validation rules were not checked";

/// The problems, one a line; in the words of the API server what is not understood.
pub fn problems(refusal: &Refusal, sent: &Sent<'_>) -> Vec<String> {
    let causes = refusal.causes.iter();
    let causes = causes.filter(|cause| !cause.message.contains(NOT_CHECKED));
    let mut said: Vec<String> = causes.map(|cause| sent.cause(cause)).collect();
    if said.is_empty() {
        said = sent.decoding(&refusal.message).unwrap_or_default();
    }
    if said.is_empty() {
        said.push(refusal.message.clone());
    }
    // What has the wrong type is told twice: as that, and as what it is no value of.
    let mut once = Vec::new();
    said.retain(|problem| {
        let new = !once.contains(problem);
        once.push(problem.clone());
        new
    });
    said
}

impl Sent<'_> {
    fn cause(&self, cause: &Cause) -> String {
        let Cause {
            reason,
            field,
            message,
        } = cause;
        let found = value_at(self.manifest, &Field::read(field));
        let words = match reason.as_str() {
            "FieldValueRequired" if message == "Required value" => {
                Some("it is missing, and has to be there".to_owned())
            }
            "FieldValueNotSupported" => self.not_supported(message, found),
            "FieldValueTypeInvalid" => {
                wanted_type(message).and_then(|wanted| wrong_type(field, found?, wanted))
            }
            "FieldValueInvalid" => invalid(message, found),
            _ => None,
        };
        let words = words.unwrap_or_else(|| message.clone());
        format!("{}{field}: {words}", self.place)
    }

    /// `Unsupported value: "x": supported values: "a", "b"`.
    fn not_supported(&self, message: &str, found: Option<&Value>) -> Option<String> {
        let (_, allowed) = message.split_once("supported values: ")?;
        let allowed: Vec<String> = allowed
            .split(", ")
            .map(|word| word.trim_matches('"').to_owned())
            .collect();
        let found = found?;
        let nearest = found
            .as_str()
            .and_then(|word| (self.nearest)(word, &allowed));
        let hint = nearest.map(|near| format!("; did you mean {near}?"));
        Some(format!(
            "{found} is none of {}{}",
            allowed.join(", "),
            hint.unwrap_or_default()
        ))
    }

    /// What is wrong with an object that could not even be read.
    fn decoding(&self, message: &str) -> Option<Vec<String>> {
        if let Some((_, strict)) = message.split_once("strict decoding error: ") {
            let fields = strict.split(", ").map(|one| self.strict(one));
            return Some(fields.collect());
        }
        let (_, rest) = message.split_once("json: cannot unmarshal ")?;
        let (_, rest) = rest.split_once(" into Go struct field ")?;
        let (path, type_) = rest.split_once(" of type ")?;
        // It begins with the name of a Go type, and tells no places in lists.
        let (_, field) = path.split_once('.')?;
        let found = value_at(self.manifest, &Field::read(field))?;
        let wanted = match type_.trim_start_matches('*') {
            "string" => "string",
            "bool" => "boolean",
            number if number.starts_with("int") || number.starts_with("uint") => "integer",
            list if list.starts_with("[]") => "array",
            _ => "object",
        };
        let words = wrong_type(field, found, wanted)?;
        Some(vec![format!("{}{field}: {words}", self.place)])
    }

    /// `unknown field "spec.paralelism"`.
    fn strict(&self, one: &str) -> String {
        let named = |what: &str| one.strip_prefix(what)?.strip_suffix('"');
        if let Some(path) = named("duplicate field \"") {
            return format!("{}{path}: it is written twice: remove one", self.place);
        }
        let Some(path) = named("unknown field \"") else {
            return one.to_owned();
        };
        let field = Field::read(path);
        let known = field
            .parent()
            .map(|parent| self.known(&parent))
            .unwrap_or_default();
        let near = field.name().and_then(|name| (self.nearest)(name, &known));
        let hint = near.map(|near| format!("; did you mean {near}?"));
        let hint = hint.unwrap_or_default();
        format!("{}{path}: there is no such field{hint}", self.place)
    }

    /// Names of the fields that an object of the manifest may have at a place.
    fn known(&self, parent: &Field) -> Vec<String> {
        let kind = self.manifest["kind"].as_str().unwrap_or_default();
        // A pod is what a template of one is; that of a Job is known as that of a CronJob.
        let (kind, before) = match kind {
            "Pod" => ("DaemonSet", "spec.template"),
            "Job" => ("CronJob", "spec.jobTemplate"),
            kind => (kind, ""),
        };
        let mut crds = crds().into_iter();
        let crd = crds.find(|crd| crd.spec.names.kind == kind);
        let version = crd.and_then(|crd| crd.spec.versions.into_iter().next());
        let schema = version.and_then(|version| version.schema?.open_api_v3_schema);
        let schema = serde_json::to_value(schema).unwrap_or_default();
        names_at(&schema, &Field::read(before).then(parent))
    }
}

/// `Invalid value: "string": spec.parallelism in body must be of type integer: "string"`.
fn wanted_type(message: &str) -> Option<&str> {
    let (_, wanted) = message.split_once(" in body must be of type ")?;
    let (wanted, _) = wanted.split_once(':')?;
    wanted.split(',').next()
}

/// What stands behind `Invalid value: VALUE: `.
fn invalid(message: &str, found: Option<&Value>) -> Option<String> {
    let written = || found.map_or_else(|| "the value".to_owned(), Value::to_string);
    let limits = [
        (
            "should be greater than or equal to ",
            "is too small",
            "or more",
        ),
        (
            "should be less than or equal to ",
            "is too large",
            "or less",
        ),
    ];
    for (says, wrong, or) in limits {
        if let Some((_, limit)) = message.split_once(says) {
            return Some(format!("{} {wrong}: write {limit} {or}", written()));
        }
    }
    if let Some((_, pattern)) = message.split_once(" in body should match ") {
        return Some(format!("{} does not match {pattern}", written()));
    }
    let words = behind_value(message.strip_prefix("Invalid value: ")?)?;
    Some(match words {
        "field is immutable" => {
            "it cannot be changed: delete the object, and create it anew with the new value"
                .to_owned()
        }
        words => words.to_owned(),
    })
}

/// What follows a value in JSON and a colon.
fn behind_value(text: &str) -> Option<&str> {
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    values.next()?.ok()?;
    text[values.byte_offset()..].strip_prefix(": ")
}

#[cfg(test)]
mod tests;
