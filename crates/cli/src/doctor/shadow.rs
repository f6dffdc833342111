//! What Carillon would do with objects that kube-controller-manager serves.

use std::time::Duration;

use anyhow::Result;
use carillon_plan::node::Nodes;
use carillon_plan::view::cron_job::read::cron;
use carillon_plan::view::doctor::operators::Installed;
use carillon_plan::view::doctor::shadow::{self, Looked, Shadow};
use carillon_plan::view::doctor::{Check, Seen};
use jiff::Timestamp;
use serde_json::Value;

use super::objects::Objects;
use crate::client::Api;
use crate::two_apis::SETS;

/// What is said of an object once may be of this moment alone: it is read again after this.
const AGAIN: Duration = Duration::from_secs(2);

pub(super) async fn check(
    api: &Api,
    objects: &Objects,
    operators: &Seen<Vec<Installed>>,
) -> Result<Check> {
    let Some(nodes) = api.nodes_if_allowed().await? else {
        return Ok(Check::not_made(shadow::CHECK, "you may not list nodes"));
    };
    let served = |plural| {
        let mut all = operators.iter().flatten();
        all.any(|one: &Installed| one.serves_native(plural))
    };
    let (mut looked, mut left_out) = (Looked::default(), None);
    let mut differing: Vec<(Shadow, &Value)> = Vec::new();
    for (plural, seen) in [
        ("daemonsets", &objects.native_sets),
        ("cronjobs", &objects.native_crons),
    ] {
        if served(plural) {
            left_out = Some(format!("{plural}, which Carillon serves already"));
            continue;
        }
        let found = match seen {
            Ok(found) => found,
            Err(why) => {
                left_out = Some(why.clone());
                continue;
            }
        };
        for object in found {
            match of_one(api, object, &nodes).await? {
                Ok(shadow) if shadow.done.is_empty() => count(&mut looked, plural),
                Ok(shadow) => {
                    count(&mut looked, plural);
                    differing.push((shadow, object));
                }
                Err(why) => left_out = Some(why),
            }
        }
    }
    let shadows = twice(api, differing, &nodes).await?;
    Ok(shadow::check(looked, &shadows, left_out))
}

fn count(looked: &mut Looked, plural: &str) {
    match plural {
        "daemonsets" => looked.sets += 1,
        _ => looked.crons += 1,
    }
}

/// Those of which the same is said a moment later.
async fn twice(api: &Api, differing: Vec<(Shadow, &Value)>, nodes: &Nodes) -> Result<Vec<Shadow>> {
    if differing.is_empty() {
        return Ok(Vec::new());
    }
    tokio::time::sleep(AGAIN).await;
    let mut shadows = Vec::new();
    for (first, object) in differing {
        let Some(now) = api.again(object).await? else {
            continue;
        };
        if let Ok(second) = of_one(api, &now, nodes).await?
            && second.done == first.done
        {
            shadows.push(second);
        }
    }
    Ok(shadows)
}

async fn of_one(api: &Api, object: &Value, nodes: &Nodes) -> Result<Seen<Shadow>> {
    if object["kind"] == SETS.kind {
        let known = api.known(object, nodes.clone()).await?;
        let shadow = shadow::daemon_set(&known, Timestamp::now());
        return Ok(shadow.ok_or_else(|| "you may not list pods and controllerrevisions".to_owned()));
    }
    let stored = cron(object);
    match api.children(&stored).await {
        Ok(children) => Ok(Ok(shadow::cron_job(&stored, &children, Timestamp::now()))),
        Err(_) => Ok(Err("you may not list jobs".to_owned())),
    }
}
