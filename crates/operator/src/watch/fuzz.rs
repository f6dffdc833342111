//! What is cut out of a stream is the same however it arrives (`cargo xtask fuzz`).

use serde_json::Value;
use serde_json::value::RawValue;

use super::frames::{End, Event, Frames, Lines, RawEvent, identify};
use super::items::Items;
use crate::protobuf::POD;
use crate::slim::SlimPod;

/// Sizes of the pieces in which it arrives.
const PIECES: [usize; 3] = [1, 7, usize::MAX];

/// The same from all of these.
fn same<T: PartialEq + std::fmt::Debug>(
    bytes: &[u8],
    cut: impl Fn(&mut dyn Iterator<Item = &[u8]>) -> T,
) -> T {
    let cut = |size: usize| cut(&mut bytes.chunks(size.min(bytes.len().max(1))));
    let [first, second, whole] = PIECES.map(cut);
    assert_eq!(first, second);
    assert_eq!(second, whole);
    whole
}

pub(crate) fn list(bytes: &[u8]) {
    let cut = same(bytes, |chunks| {
        let (mut items, mut count, mut hash) = (Items::default(), 0_usize, 0_usize);
        for chunk in chunks {
            let each = |item: &[u8]| {
                count += 1;
                hash = item.iter().fold(hash, |hash, byte| {
                    hash.wrapping_mul(31) ^ usize::from(*byte)
                });
                Ok(())
            };
            items.push(chunk, each).ok()?;
        }
        items.finish().ok().map(|_| (count, hash))
    });
    // Of two fields of a name, and of names that are escaped, the API server writes none.
    let is_plain = bytes
        .windows(7)
        .filter(|window| window == b"\"items\"")
        .count()
        < 2
        && !bytes.contains(&b'\\');
    let Ok(Value::Object(list)) = serde_json::from_slice(bytes) else {
        return;
    };
    if let (Some(Value::Array(items)), true) = (list.get("items"), is_plain) {
        assert_eq!(cut.map(|(count, _)| count), Some(items.len()));
    }
}

pub(crate) fn lines(bytes: &[u8]) {
    let each = |line: &[u8]| {
        let _ = serde_json::from_slice::<Event<SlimPod>>(line);
        if let Ok(raw) = serde_json::from_slice::<RawEvent<'_>>(line) {
            identify(raw.object);
        }
        if let Ok(raw) = serde_json::from_slice::<&RawValue>(line) {
            identify(raw);
        }
    };
    let mut all = Lines::default();
    let _ = all.push(bytes, |line| {
        each(line);
        Ok(())
    });
    same(bytes, |chunks| {
        let (mut lines, mut sizes) = (Lines::default(), Vec::new());
        for chunk in chunks {
            let pushed = lines.push(chunk, |line| {
                // One that is blank is told from others only when it comes in one piece.
                if !line.trim_ascii().is_empty() {
                    sizes.push(line.len());
                }
                Ok(())
            });
            if pushed.is_err() {
                return None;
            }
        }
        Some(sizes)
    });
}

pub(crate) fn frames(bytes: &[u8]) {
    same(bytes, |chunks| {
        let (mut frames, mut sizes) = (Frames::default(), Vec::new());
        for chunk in chunks {
            let pushed = frames.push(chunk, |frame| {
                let _ = Event::<SlimPod>::read(frame, &POD);
                sizes.push(frame.len());
                Ok(())
            });
            if let Err(End::Failed(_)) = pushed {
                return (sizes, false);
            }
        }
        (sizes, true)
    });
}
