//! Webhooks that are asked about our pods.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use carillon_plan::view::doctor::operators::Installed;
use carillon_plan::view::doctor::webhooks::{self, Source};
use carillon_plan::view::doctor::{Check, Seen};

use super::objects::Subjects;
use crate::client::Api;
use crate::client::doctor::{MUTATING, NAMESPACES, VALIDATING, Within};

pub(super) async fn check(
    api: &Api,
    subjects: &Subjects,
    operators: &Seen<Vec<Installed>>,
) -> Result<Check> {
    let mut hooks = Vec::new();
    for (kind, of) in [
        ("ValidatingWebhookConfiguration", VALIDATING),
        ("MutatingWebhookConfiguration", MUTATING),
    ] {
        match api.seen(of, Within::Cluster, "", |one| one).await? {
            Ok(found) => hooks.extend(webhooks::hooks(kind, &found)),
            Err(why) => return Ok(Check::not_made(webhooks::CHECK, why)),
        }
    }
    let namespaces = api.seen(NAMESPACES, Within::Cluster, "", |one| one).await?;
    let (labels, left_out) = match namespaces {
        Ok(found) => (webhooks::labels(&found), None),
        Err(why) => (BTreeMap::new(), Some(why)),
    };
    let services: BTreeSet<_> = hooks
        .iter()
        .filter_map(|hook| hook.service.clone())
        .collect();
    let silent = api.silent(services).await?;
    let subjects = subjects.all.iter().map(|(subject, _)| Source::of(subject));
    let operators = operators.iter().flatten().map(Source::of_operator);
    let sources: Vec<Source> = subjects.chain(operators).collect();
    let check = webhooks::check(&hooks, &silent, &sources, &labels);
    Ok(check.without(left_out.filter(|_| !hooks.is_empty())))
}
