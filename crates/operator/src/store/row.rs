//! What a kind needs to be cached.

use std::collections::HashSet;

use carillon_plan::Uid;

use super::key::Wake;
use super::tables::Tables;
use crate::gate::Kind;
use crate::protobuf::{Message, POD};
use crate::slim::{
    Side, SlimBroadcastJob, SlimCronJob, SlimJob, SlimNativeJob, SlimNode, SlimPod, SlimSlice,
};
use crate::transport::Pace;
use crate::watch::{Held, Listed, Watched};

/// A kind that is cached.
pub trait Row: Watched {
    /// Its kind.
    const KIND: Kind;
    /// How soon its changes are read.
    const PACE: Pace = Pace::Gathered;
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

macro_rules! watched {
    ($($slim:ty $(where $side:ident)? $(as $message:ident)?),*) => {$(
        impl$(<$side: Side>)? Watched for $slim {
            $(const PROTOBUF: Option<&'static Message> = Some(&$message);)?

            fn resource_version(&self) -> Option<u64> {
                Some(self.metadata.rv()).filter(|rv| *rv > 0)
            }

            fn uid(&self) -> Option<Uid> {
                self.metadata.uid()
            }
        }
    )*};
}
watched!(
    SlimBroadcastJob,
    SlimNode,
    SlimPod as POD,
    SlimSlice,
    SlimNativeJob,
    SlimJob,
    SlimCronJob<S> where S
);
