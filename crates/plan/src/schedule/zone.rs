//! Time zones by name.
//!
//! The one place of this crate that reads files: the system's zones, which jiff keeps in memory.

use std::sync::LazyLock;

use jiff::tz::{self, TimeZone, TimeZoneDatabase};

use super::field::clip;

/// For what the system does not have: many containers come without zones, many systems without
/// the old names.
static BUNDLED: LazyLock<TimeZoneDatabase> = LazyLock::new(TimeZoneDatabase::bundled);

/// Why a time zone cannot be used.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum ZoneError {
    /// The name is empty.
    #[error("the time zone is empty; write a name such as Europe/Berlin, or leave it out")]
    Empty,
    /// `Local`, in any case: what it means depends on the machine.
    #[error(
        "the time zone {0:?} means a different one on each machine; write a name such as Europe/Berlin"
    )]
    Local(String),
    /// Not in the form of a name.
    #[error(
        "{0:?} is no name of a time zone; write one from the IANA database, such as Europe/Berlin"
    )]
    Malformed(String),
    /// There is such a zone, written differently: names are case-sensitive.
    #[error("the time zone {found:?} is written {known:?}")]
    Case {
        /// The name that was asked for.
        found: String,
        /// The name it has.
        known: String,
    },
    /// No such zone.
    #[error(
        "the time zone {0:?} is not known; write a name from the IANA database, such as Europe/Berlin"
    )]
    Unknown(String),
}

/// The zone of `spec.timeZone`: from the system if it has it, else from the data we bring along.
///
/// Source of the rules: Kubernetes `pkg/apis/batch/validation`, `validateTimeZone`.
pub fn load(name: &str) -> Result<TimeZone, ZoneError> {
    if name.is_empty() {
        return Err(ZoneError::Empty);
    }
    if !name.split('/').all(well_formed) {
        return Err(ZoneError::Malformed(clip(name)));
    }
    if name.eq_ignore_ascii_case("local") {
        return Err(ZoneError::Local(name.to_owned()));
    }
    let mut otherwise = ZoneError::Unknown(clip(name));
    #[expect(clippy::disallowed_methods, reason = "as new as the machine has them")]
    for database in [tz::db(), &*BUNDLED] {
        // `Etc/Unknown` is found, too: jiff's name for no zone at all.
        let Some(zone) = database.get(name).ok().filter(|zone| !zone.is_unknown()) else {
            continue;
        };
        match zone.iana_name() {
            Some(known) if known != name => {
                otherwise = ZoneError::Case {
                    found: name.to_owned(),
                    known: known.to_owned(),
                };
            }
            _ => return Ok(zone),
        }
    }
    Err(otherwise)
}

/// The zone of a `TZ=` prefix: the same, and some names that only upstream's parser knows.
pub(super) fn inline(name: &str) -> Result<TimeZone, ZoneError> {
    match name {
        // `Local` is upstream the zone of the process. Ours runs on UTC.
        "" | "Local" => Ok(TimeZone::UTC),
        _ => load(name),
    }
}

fn well_formed(part: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._+-".contains(&byte);
    (1..=14).contains(&part.len())
        && part.bytes().all(allowed)
        && !matches!(part, "." | "..")
        && !part.starts_with('-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_taken_as_the_database_writes_them() {
        for name in ["UTC", "Europe/Berlin", "US/Eastern", "Etc/GMT+12", "GMT-0"] {
            let zone = load(name).unwrap();
            assert_eq!(zone.iana_name(), Some(name));
        }
    }

    #[test]
    fn other_names_are_refused_with_what_to_do() {
        for (name, says) in [
            ("", "is empty"),
            ("local", "different one on each machine"),
            ("Local", "different one on each machine"),
            ("europe/berlin", "is written \"Europe/Berlin\""),
            ("utc", "is written \"UTC\""),
            ("Europe/Bonn", "is not known"),
            ("Etc/Unknown", "is not known"),
            ("/Europe/Berlin", "is no name"),
            ("Europe/../Europe/Berlin", "is no name"),
            ("-1", "is no name"),
            ("Europe/Berlin ", "is no name"),
            ("Europe/Berlin_and_more", "is no name"),
        ] {
            let error = load(name).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
    }

    #[test]
    fn a_prefix_may_be_empty_or_local() {
        assert_eq!(inline("").unwrap(), TimeZone::UTC);
        assert_eq!(inline("Local").unwrap(), TimeZone::UTC);
        assert!(inline("local").is_err());
    }
}
