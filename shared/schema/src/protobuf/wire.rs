//! The wire format: a reader, and a writer that works backwards, so that a message's length is known when it is due.

use super::Error;

/// How a field's value is laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wire {
    Varint = 0,
    Fixed64 = 1,
    Bytes = 2,
    StartGroup = 3,
    EndGroup = 4,
    Fixed32 = 5,
    Unused6 = 6,
    Unused7 = 7,
}

impl Wire {
    fn of(bits: u64) -> Wire {
        match bits & 7 {
            0 => Wire::Varint,
            1 => Wire::Fixed64,
            2 => Wire::Bytes,
            3 => Wire::StartGroup,
            4 => Wire::EndGroup,
            5 => Wire::Fixed32,
            6 => Wire::Unused6,
            _ => Wire::Unused7,
        }
    }
}

/// Reads the fields of one message.
pub(super) struct Reader<'a, 'n> {
    rest: &'a [u8],
    /// Go name of the message, for errors.
    name: &'n str,
}

impl<'a, 'n> Reader<'a, 'n> {
    pub fn new(bytes: &'a [u8], name: &'n str) -> Reader<'a, 'n> {
        Reader { rest: bytes, name }
    }

    pub fn varint(&mut self) -> Result<u64, Error> {
        let mut value = 0u64;
        for shift in (0..).step_by(7) {
            if shift >= 64 {
                return Err(Error::new("proto: integer overflow"));
            }
            let (&byte, rest) = self.rest.split_first().ok_or_else(Error::eof)?;
            self.rest = rest;
            // The tenth byte's upper bits fall off, as in Go.
            value |= u64::from(byte & 0x7f).wrapping_shl(shift);
            if byte < 0x80 {
                break;
            }
        }
        Ok(value)
    }

    /// The next field's number and layout; none at the end.
    pub fn key(&mut self) -> Result<Option<(i32, Wire)>, Error> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let key = self.varint()?;
        let (tag, wire) = ((key >> 3) as i32, Wire::of(key));
        if wire == Wire::EndGroup {
            return Err(Error::new(format!(
                "proto: {}: wiretype end group for non-group",
                self.name
            )));
        }
        if tag <= 0 {
            return Err(Error::new(format!(
                "proto: {}: illegal tag {tag} (wire type {key})",
                self.name
            )));
        }
        Ok(Some((tag, wire)))
    }

    fn take(&mut self, length: u64) -> Result<&'a [u8], Error> {
        let length =
            i64::try_from(length).map_err(|_| Error::new("proto: negative length found during unmarshaling"))?;
        let (taken, rest) = usize::try_from(length)
            .ok()
            .and_then(|l| self.rest.split_at_checked(l))
            .ok_or_else(Error::eof)?;
        self.rest = rest;
        Ok(taken)
    }

    /// Refuses another layout than the field's.
    pub fn expect(wire: Wire, wanted: Wire, field: &str) -> Result<(), Error> {
        if wire == wanted {
            return Ok(());
        }
        Err(Error::new(format!(
            "proto: wrong wireType = {} for field {field}",
            wire as u8
        )))
    }

    /// A length and as many bytes.
    pub fn bytes(&mut self, wire: Wire, field: &str) -> Result<&'a [u8], Error> {
        Self::expect(wire, Wire::Bytes, field)?;
        let length = self.varint()?;
        self.take(length)
    }

    /// Text; what is no UTF-8 is replaced, as Go does when it writes JSON.
    pub fn text(&mut self, wire: Wire, field: &str) -> Result<String, Error> {
        self.bytes(wire, field).map(|b| String::from_utf8_lossy(b).into_owned())
    }

    pub fn fixed64(&mut self) -> Result<u64, Error> {
        let (bytes, rest) = self.rest.split_first_chunk::<8>().ok_or_else(Error::eof)?;
        self.rest = rest;
        Ok(u64::from_le_bytes(*bytes))
    }

    pub fn fixed32(&mut self) -> Result<u32, Error> {
        let (bytes, rest) = self.rest.split_first_chunk::<4>().ok_or_else(Error::eof)?;
        self.rest = rest;
        Ok(u32::from_le_bytes(*bytes))
    }

    /// Skips a field that means nothing here.
    pub fn skip(&mut self, wire: Wire) -> Result<(), Error> {
        let mut depth = 0usize;
        let mut wire = wire;
        loop {
            match wire {
                Wire::Varint => drop(self.varint()?),
                Wire::Fixed64 => drop(self.take(8)?),
                Wire::Fixed32 => drop(self.take(4)?),
                Wire::Bytes => {
                    let length = self.varint()?;
                    self.take(length)?;
                }
                Wire::StartGroup => depth += 1,
                Wire::EndGroup if depth == 0 => {
                    return Err(Error::new("proto: unexpected end of group"));
                }
                Wire::EndGroup => depth -= 1,
                Wire::Unused6 | Wire::Unused7 => {
                    return Err(Error::new(format!("proto: illegal wireType {}", wire as u8)));
                }
            }
            if depth == 0 {
                return Ok(());
            }
            wire = Wire::of(self.varint()?);
        }
    }
}

/// Writes a message from its end to its beginning.
#[derive(Default)]
pub(super) struct Back {
    buffer: Vec<u8>,
    /// What is written stands from here on.
    start: usize,
}

impl Back {
    pub fn with_capacity(capacity: usize) -> Back {
        Back {
            buffer: vec![0; capacity],
            start: capacity,
        }
    }

    /// Bytes written.
    pub fn len(&self) -> usize {
        self.buffer.len() - self.start
    }

    pub fn into_vec(mut self) -> Vec<u8> {
        self.buffer.drain(..self.start);
        self.buffer
    }

    fn reserve(&mut self, more: usize) {
        if self.start >= more {
            return;
        }
        let written = self.len();
        let size = (self.buffer.len() * 2).max(written + more).max(256);
        let mut grown = vec![0; size];
        grown[size - written..].copy_from_slice(&self.buffer[self.start..]);
        self.start = size - written;
        self.buffer = grown;
    }

    pub fn prepend(&mut self, bytes: &[u8]) {
        self.reserve(bytes.len());
        let start = self.start - bytes.len();
        self.buffer[start..self.start].copy_from_slice(bytes);
        self.start = start;
    }

    pub fn varint(&mut self, mut value: u64) {
        let mut bytes = [0u8; 10];
        let mut length = 0;
        loop {
            bytes[length] = (value as u8 & 0x7f) | if value >= 0x80 { 0x80 } else { 0 };
            length += 1;
            value >>= 7;
            if value == 0 {
                break;
            }
        }
        self.prepend(&bytes[..length]);
    }

    pub fn key(&mut self, tag: u16, wire: Wire) {
        self.varint(u64::from(tag) << 3 | wire as u64);
    }

    pub fn varint_field(&mut self, tag: u16, value: u64) {
        self.varint(value);
        self.key(tag, Wire::Varint);
    }

    pub fn bytes_field(&mut self, tag: u16, bytes: &[u8]) {
        self.prepend(bytes);
        self.varint(bytes.len() as u64);
        self.key(tag, Wire::Bytes);
    }

    /// Makes what was written since `end` (a former [`len`](Self::len)) the field's message.
    pub fn close(&mut self, tag: u16, end: usize) {
        let length = self.len() - end;
        self.varint(length as u64);
        self.key(tag, Wire::Bytes);
    }
}
