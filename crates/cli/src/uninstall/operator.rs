//! Whether an operator leads: its lease is renewed.

use std::fmt;
use std::time::{Duration, Instant};

use anyhow::{Error, Result, anyhow};
use carillon_api::names::ANNOTATION_LEASE;
use carillon_plan::view::doctor::lease;
use serde_json::Value;

use crate::client::{Api, Asked};
use crate::render::Screen;

/// Part of the name of the operator's lease, where nothing says which one it is.
const NAME: &str = "carillon";
/// Between two looks at a lease.
const EVERY: Duration = Duration::from_millis(500);
/// How long a lease that says nothing else holds without being renewed, and how long one may say at most.
const SECONDS: (u64, u64) = (15, 300);

/// A lease by its name.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) struct Lease {
    pub(super) namespace: String,
    pub(super) name: String,
}

impl Lease {
    fn of((namespace, name): (&str, &str)) -> Self {
        Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        }
    }
}

impl fmt::Display for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// `carillon-system/carillon`.
pub(super) fn lease(text: &str) -> Result<Lease, String> {
    let named = lease::named(text).map(Lease::of);
    named.ok_or_else(|| "write NAMESPACE/NAME".to_owned())
}

/// The lease that an installation by our chart has written into its CRDs, if these are there and may be read.
pub(super) async fn of_installation(api: &Api) -> Result<Option<Lease>> {
    Ok(match api.crd_of_jobs().await? {
        Asked::Found(crd) => named_by(&crd),
        Asked::Missing | Asked::NotAllowed => None,
    })
}

fn named_by(crd: &Value) -> Option<Lease> {
    lease::noted(crd).map(Lease::of)
}

/// What to say of a lease that was named and is not there: by it, nobody knows whether an operator leads.
pub(super) async fn no_such_lease(api: &Api, named: &Lease) -> Error {
    let noted = match of_installation(api).await {
        Ok(noted) => noted,
        Err(error) => return error,
    };
    let noted = match noted {
        Some(noted) => format!("The CRDs note {noted} ({ANNOTATION_LEASE})"),
        None => format!("The CRDs note none ({ANNOTATION_LEASE})"),
    };
    anyhow!(
        "there is no lease {named}: it does not say whether an operator leads. {noted}. If none runs, \
         add --force to --release"
    )
}

/// Whether an operator leads.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Living {
    /// It does, and was seen to renew its lease.
    Led { lease: Lease, holder: String },
    /// None does, by its lease.
    Gone,
    /// There is no lease to go by.
    Unknown,
}

/// What is read of a lease.
#[derive(Clone, Debug, Eq, PartialEq)]
struct Held {
    lease: Lease,
    holder: String,
    /// Written anew with each renewal.
    renewed: String,
    lasts: Duration,
}

/// `None` when nobody holds it, or it is none of ours.
fn held(object: &Value, wanted: Option<&Lease>) -> Option<Held> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (meta, spec) = (&object["metadata"], &object["spec"]);
    let lease = Lease {
        namespace: text(&meta["namespace"]),
        name: text(&meta["name"]),
    };
    let ours = wanted.map_or_else(|| lease.name.contains(NAME), |wanted| *wanted == lease);
    let holder = text(&spec["holderIdentity"]);
    let seconds = spec["leaseDurationSeconds"].as_u64().unwrap_or(SECONDS.0);
    (ours && !holder.is_empty()).then(|| Held {
        lease,
        holder,
        renewed: text(&spec["renewTime"]),
        lasts: Duration::from_secs(seconds.min(SECONDS.1)),
    })
}

/// Looks at the operator's lease until it is renewed, or has not been for as long as it lasts. Clocks of
/// two machines are not compared.
pub(super) async fn living(
    api: &Api,
    wanted: Option<&Lease>,
    screen: &mut Screen,
) -> Result<Living> {
    let begun = Instant::now();
    let mut first: Option<Vec<Held>> = None;
    loop {
        let leases = api
            .leases(wanted.map(|lease| lease.namespace.as_str()))
            .await?;
        let now: Vec<Held> = leases
            .iter()
            .filter_map(|object| held(object, wanted))
            .collect();
        let Some(first) = &first else {
            if now.is_empty() {
                let any = leases.iter().any(|object| is_ours(object, wanted));
                if !any {
                    screen.aside(&format!(
                        "{}: if the operator was installed without leader election, or with a lease of \
                         another name (--lease), see that it does not run.",
                        match wanted {
                            Some(lease) => format!("There is no lease {lease}"),
                            None => format!("No lease has {NAME:?} in its name"),
                        }
                    ));
                }
                return Ok(if any { Living::Gone } else { Living::Unknown });
            }
            let names: Vec<String> = now.iter().map(|held| held.lease.to_string()).collect();
            let most = now.iter().map(|held| held.lasts).max().unwrap_or_default();
            screen.aside(&format!(
                "Looking for up to {} s whether somebody renews the lease {}",
                most.as_secs(),
                names.join(", ")
            ));
            first = Some(now);
            tokio::time::sleep(EVERY).await;
            continue;
        };
        // Also one that has a new holder, or is new.
        if let Some(living) = now.iter().find(|held| !first.contains(held)) {
            return Ok(Living::Led {
                lease: living.lease.clone(),
                holder: living.holder.clone(),
            });
        }
        let silent = begun.elapsed();
        if now.iter().all(|held| silent > held.lasts) {
            return Ok(Living::Gone);
        }
        tokio::time::sleep(EVERY).await;
    }
}

fn is_ours(object: &Value, wanted: Option<&Lease>) -> bool {
    let mut object = object.clone();
    object["spec"]["holderIdentity"] = "somebody".into();
    held(&object, wanted).is_some()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_lease_is_named_with_its_namespace() {
        let found = lease("carillon-system/carillon").unwrap();
        assert_eq!(found.to_string(), "carillon-system/carillon");
        for wrong in ["carillon", "/x", "x/", "a/b/c", ""] {
            assert!(lease(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn the_lease_of_an_installation_is_that_of_its_crds_and_of_no_tenant() {
        let crd =
            |value: Value| json!({"metadata": {"annotations": {"carillon.dev/lease": value}}});
        let wanted = named_by(&crd(json!("carillon-system/carillon"))).unwrap();
        for wrong in [json!("carillon"), json!(""), Value::Null, json!(3)] {
            assert_eq!(named_by(&crd(wrong)), None);
        }
        assert_eq!(
            named_by(&json!({"metadata": {"name": "of somebody's own making"}})),
            None
        );
        let of = |namespace: &str, name: &str| {
            let lease = json!({"metadata": {"namespace": namespace, "name": name},
                "spec": {"holderIdentity": "pod-a", "renewTime": "t"}});
            held(&lease, Some(&wanted)).is_some()
        };
        assert!(of("carillon-system", "carillon"));
        assert!(!of("tenant", "carillon") && !of("tenant", "my-carillon"));
    }

    #[test]
    fn a_lease_is_ours_by_its_name_and_held_while_it_names_a_holder() {
        let object = |name: &str, holder: &Value| {
            json!({"metadata": {"namespace": "sys", "name": name},
                "spec": {"holderIdentity": holder, "leaseDurationSeconds": 20, "renewTime": "t"}})
        };
        let wanted = lease("sys/bells").unwrap();
        let found = held(&object("my-carillon", &json!("pod-a")), None).unwrap();
        assert_eq!(
            (found.holder.as_str(), found.lasts.as_secs()),
            ("pod-a", 20)
        );
        assert_eq!(held(&object("bells", &json!("pod-a")), None), None);
        assert!(held(&object("bells", &json!("pod-a")), Some(&wanted)).is_some());
        assert_eq!(
            held(&object("my-carillon", &json!("pod-a")), Some(&wanted)),
            None
        );
        for nobody in [json!(""), json!(null)] {
            assert_eq!(held(&object("carillon", &nobody), None), None);
            assert!(is_ours(&object("carillon", &nobody), None));
        }
    }
}
