//! Fields and their values, whatever they mean.

use super::malformed::Malformed;

/// The fields of a message that were not read yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fields<'a>(&'a [u8]);

/// The value of a field.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Value<'a> {
    /// An integer or a bool.
    Number(u64),
    /// Text, a message or an entry of a map.
    Bytes(&'a [u8]),
    /// Of a fixed size; nothing we read is.
    Fixed,
}

impl<'a> Fields<'a> {
    pub(super) fn of(message: &'a [u8]) -> Self {
        Self(message)
    }

    /// The next field: its number and its value.
    pub(super) fn next(&mut self) -> Result<Option<(u32, Value<'a>)>, Malformed> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let tag = self.varint()?;
        let value = match tag & 7 {
            0 => Value::Number(self.varint()?),
            1 => self.take(8).map(|_| Value::Fixed)?,
            2 => {
                let length = self.varint()?;
                Value::Bytes(self.take(length)?)
            }
            5 => self.take(4).map(|_| Value::Fixed)?,
            _ => return Err(Malformed::WireType),
        };
        let number = u32::try_from(tag >> 3).map_err(|_| Malformed::WireType)?;
        Ok(Some((number, value)))
    }

    fn take(&mut self, length: u64) -> Result<&'a [u8], Malformed> {
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        let (taken, rest) = self.0.split_at_checked(length).ok_or(Malformed::Short)?;
        self.0 = rest;
        Ok(taken)
    }

    fn varint(&mut self) -> Result<u64, Malformed> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let (byte, rest) = self.0.split_first().ok_or(Malformed::Short)?;
            self.0 = rest;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(Malformed::WireType)
    }
}

/// A field that is text or a message; empty when it is not there.
pub(super) fn bytes(message: &[u8], number: u32) -> Result<&[u8], Malformed> {
    let mut fields = Fields::of(message);
    while let Some((found, value)) = fields.next()? {
        if let (true, Value::Bytes(bytes)) = (found == number, value) {
            return Ok(bytes);
        }
    }
    Ok(&[])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_all_sizes_are_told_apart() {
        let message = [
            0x08, 0xac, 0x02, 0x12, 2, b'o', b'k', 0x1d, 1, 2, 3, 4, 0x21, 1, 2, 3, 4, 5, 6, 7, 8,
        ];
        let mut fields = Fields::of(&message);
        assert_eq!(fields.next(), Ok(Some((1, Value::Number(300)))));
        assert_eq!(fields.next(), Ok(Some((2, Value::Bytes(b"ok")))));
        assert_eq!(fields.next(), Ok(Some((3, Value::Fixed))));
        assert_eq!(fields.next(), Ok(Some((4, Value::Fixed))));
        assert_eq!(fields.next(), Ok(None));
    }

    #[test]
    fn what_is_cut_off_is_no_message() {
        for message in [&[0x08][..], &[0x12, 5, 1], &[0x1d, 0], &[0x80]] {
            assert_eq!(Fields::of(message).next(), Err(Malformed::Short));
        }
        let endless = [0xff; 11];
        assert_eq!(Fields::of(&endless).next(), Err(Malformed::WireType));
    }
}
