//! `status.observedGeneration` of an object that nobody has looked at.

use serde::{Deserialize, Deserializer};

/// What the CRDs write into a status that is absent. kstatus compares it with `metadata.generation`, and so calls an
/// object in progress that no operator has looked at yet.
pub const NOT_OBSERVED: i64 = -1;

/// Reads the field: [`NOT_OBSERVED`] is none.
pub(crate) fn read<'de, D: Deserializer<'de>>(field: D) -> Result<Option<i64>, D::Error> {
    let seen: Option<i64> = Option::deserialize(field)?;
    Ok(seen.filter(|generation| *generation >= 0))
}
