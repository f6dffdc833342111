//! What a kind says of what is cached for it.

use std::fmt::Debug;
use std::sync::Arc;

use carillon_plan::ObjectKey;
use carillon_plan::meta::Meta;
use carillon_plan::node::NodeRow;
use jiff::Timestamp;
use serde_json::Value;

use super::reads::{Read, Selects};
use crate::args::Config;
use crate::gate::Kind;
use crate::metrics::Metrics;
use crate::store::{PodTable, Sizes, Store, Tables, Wake};

/// A kind that is served, as the caches know it.
pub trait CachedKind: Debug + Send + Sync + Sized + 'static {
    /// Name of its controller in logs, metrics and the work queue.
    const NAME: &'static str;
    /// Of which kinds its objects are.
    const KINDS: &'static [Kind];
    /// What it may read.
    const READS: &'static [Read];
    /// What it keeps of pods.
    const PODS: Option<&'static dyn PodTable> = None;
    /// What is served.
    type Object;

    /// The kinds that it plans from; none: it is not to run.
    fn plans_from(config: &Config) -> Vec<Kind>;

    /// Which of those that have a label it plans from.
    fn selects(_: &Config, _: &Store) -> Selects {
        Selects::Labelled
    }

    /// Tells the caches what the flags say, whether or not it is to run.
    fn prepare(_: &Config, _: &Store) {}

    /// An object, as it is cached.
    fn object<'t>(tables: &'t Tables, key: &ObjectKey) -> Option<&'t Arc<Self::Object>>;

    /// The metadata of an object.
    fn meta(object: &Self::Object) -> &Meta;

    /// Names all that its controller may have to look after.
    fn each_key(tables: &Tables, each: &mut dyn FnMut(&Arc<ObjectKey>));

    /// Wakes the objects for which the change of a node makes a difference.
    fn node_changed(
        _: &Tables,
        _name: &str,
        _old: Option<&NodeRow>,
        _new: Option<&NodeRow>,
        _: &mut Vec<Wake>,
    ) {
    }

    /// Adds the sizes of its rows.
    fn size(tables: &Tables, sizes: &mut Sizes);

    /// Sets the gauges that are counted when somebody looks.
    fn measure(_: &Store, _: &Metrics, _now: Timestamp) {}

    /// Adds what `/debug/store` shows.
    fn debug(_: &Store, _page: &mut Value) {}
}
