//! What a kind needs to be cached.

use std::collections::HashSet;

use carillon_plan::Uid;

use super::key::Wake;
use super::tables::Tables;
use crate::gate::Kind;
use crate::transport::Pace;
use crate::watch::{Held, Listed, Watched};

/// A kind that is cached.
pub trait Row: Watched {
    /// Its kind.
    const KIND: Kind;
    /// How soon its changes are read.
    const PACE: Pace = Pace::Gathered;
    /// The label of those that are watched, where some are enough; empty: all are.
    const LABEL: &'static str = "";
    /// Enters it.
    fn enter(self, tables: &mut Tables, wakes: &mut Vec<Wake>);
    /// Removes it.
    fn leave(self, tables: &mut Tables, wakes: &mut Vec<Wake>);
    /// Removes every row of `namespace` (all when `None`) that is not in `listed`.
    fn sweep(
        tables: &mut Tables,
        namespace: Option<&str>,
        listed: &HashSet<Uid>,
        wakes: &mut Vec<Wake>,
    );
    /// What is held of an object.
    fn held(tables: &Tables, object: &Listed) -> Held;
    /// Names every row of `namespace` (all when `None`), with its uid and resourceVersion.
    fn each_held(tables: &Tables, namespace: Option<&str>, each: &mut dyn FnMut(&str, Uid, u64));
}

/// Says of rows where their resourceVersion and uid are: in `metadata`.
macro_rules! watched {
    ($slim:ty $(where $generic:ident: $bound:path)? $(as $message:path)?) => {
        impl$(<$generic: $bound>)? $crate::watch::Watched for $slim {
            $(const PROTOBUF: Option<&'static $crate::protobuf::Message> = Some(&$message);)?

            fn resource_version(&self) -> Option<u64> {
                Some(self.metadata.rv()).filter(|rv| *rv > 0)
            }

            fn uid(&self) -> Option<carillon_plan::Uid> {
                self.metadata.uid()
            }
        }
    };
}
pub(crate) use watched;
