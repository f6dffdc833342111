//! Durations as kubectl shows them: two units at most.

use carillon_plan::view::broadcast_job::estimate::Estimate;
use jiff::Timestamp;

/// Time since, or `-` when there is none.
pub(crate) fn age(since: Option<Timestamp>, now: Timestamp) -> String {
    since.map_or_else(dash, |since| duration(now.duration_since(since).as_secs()))
}

/// Seconds, or `-` when there are none.
pub(crate) fn seconds(seconds: Option<i64>) -> String {
    seconds.map_or_else(dash, duration)
}

/// When something may be done, or `-` when nobody knows; with `band` also how sure that is.
pub(crate) fn eta(eta: Option<Estimate>, band: bool) -> String {
    let Some(eta) = eta else {
        return dash();
    };
    let likely = duration(eta.eta_seconds);
    let (earliest, latest) = (eta.eta_earliest_seconds, eta.eta_latest_seconds);
    if band && earliest != latest {
        format!("{likely} ({} to {})", duration(earliest), duration(latest))
    } else {
        likely
    }
}

fn dash() -> String {
    "-".to_owned()
}

/// Source: apimachinery `duration.HumanDuration`.
pub(crate) fn duration(seconds: i64) -> String {
    let seconds = seconds.max(0);
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    let two = |big: i64, unit: &str, small: i64, small_unit: &str| match small {
        0 => format!("{big}{unit}"),
        small => format!("{big}{unit}{small}{small_unit}"),
    };
    match seconds {
        0..120 => format!("{seconds}s"),
        120..600 => two(minutes, "m", seconds % 60, "s"),
        600..10_800 => format!("{minutes}m"),
        10_800..28_800 => two(hours, "h", minutes % 60, "m"),
        28_800..172_800 => format!("{hours}h"),
        172_800..691_200 => two(days, "d", hours % 24, "h"),
        691_200..63_072_000 => format!("{days}d"),
        _ => two(days / 365, "y", days % 365, "d"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_estimate_says_how_sure_it_is_where_there_is_room() {
        let sure = Estimate {
            eta_seconds: 130,
            eta_earliest_seconds: 100,
            eta_latest_seconds: 185,
        };
        assert_eq!(eta(Some(sure), true), "2m10s (100s to 3m5s)");
        assert_eq!(eta(Some(sure), false), "2m10s");
        assert_eq!(eta(None, true), "-");
    }

    #[test]
    fn durations_are_written_as_kubectl_does() {
        for (seconds, text) in [
            (-5, "0s"),
            (119, "119s"),
            (120, "2m"),
            (185, "3m5s"),
            (3000, "50m"),
            (10_860, "3h1m"),
            (90_000, "25h"),
            (180_000, "2d2h"),
            (1_000_000, "11d"),
            (70_000_000, "2y80d"),
        ] {
            assert_eq!(duration(seconds), text, "{seconds}");
        }
    }
}
