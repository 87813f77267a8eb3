//! Directives and tags.

use super::{Scanner, Token};
use crate::yaml::Error;
use crate::yaml::cursor::{Mark, is_blank, is_blankz, is_breakz, is_word};

impl Scanner<'_> {
    pub(super) fn fetch_directive(&mut self) -> Result<(), Error> {
        self.between_documents()?;
        let mark = self.cursor.mark();
        self.cursor.skip(1);
        let name = self.cursor.take_word();
        if name.is_empty() {
            return Err(self.error(mark, "could not find expected directive name"));
        }
        if !is_blankz(self.cursor.peek(0)) {
            return Err(self.error(mark, "found unexpected non-alphabetical character"));
        }
        self.cursor.skip_while(is_blank);
        let token = match name.as_str() {
            "YAML" => self.scan_version(mark)?,
            "TAG" => self.scan_tag_directive(mark)?,
            _ => return Err(self.error(mark, "found unknown directive name")),
        };
        self.cursor.skip_while(is_blank);
        if self.cursor.peek(0) == '#' {
            self.cursor.skip_while(|c| !is_breakz(c));
        }
        if !is_breakz(self.cursor.peek(0)) {
            return Err(self.error(mark, "did not find expected comment or line break"));
        }
        self.cursor.skip_line();
        self.push(token, mark);
        Ok(())
    }

    fn scan_version(&mut self, mark: Mark) -> Result<Token, Error> {
        let major = self.scan_version_number(mark)?;
        if self.cursor.peek(0) != '.' {
            return Err(self.error(mark, "did not find expected digit or '.' character"));
        }
        self.cursor.skip(1);
        let minor = self.scan_version_number(mark)?;
        Ok(Token::Version { major, minor })
    }

    fn scan_version_number(&mut self, mark: Mark) -> Result<u8, Error> {
        let (mut number, mut length) = (0, 0);
        while let Some(digit) = self.cursor.peek(0).to_digit(10) {
            length += 1;
            if length > 2 {
                return Err(self.error(mark, "found extremely long version number"));
            }
            number = number * 10 + digit as u8;
            self.cursor.skip(1);
        }
        if length == 0 {
            return Err(self.error(mark, "did not find expected version number"));
        }
        Ok(number)
    }

    fn scan_tag_directive(&mut self, mark: Mark) -> Result<Token, Error> {
        let handle = self.scan_tag_handle(true, mark)?;
        if !is_blank(self.cursor.peek(0)) {
            return Err(self.error(mark, "did not find expected whitespace"));
        }
        self.cursor.skip_while(is_blank);
        let prefix = self.scan_tag_uri("", mark)?;
        if !is_blankz(self.cursor.peek(0)) {
            return Err(self.error(mark, "did not find expected whitespace or line break"));
        }
        Ok(Token::TagDirective { handle, prefix })
    }

    pub(super) fn scan_tag(&mut self) -> Result<(), Error> {
        let mark = self.cursor.mark();
        let mut handle = String::new();
        let mut suffix;
        if self.cursor.peek(1) == '<' {
            self.cursor.skip(2);
            suffix = self.scan_tag_uri("", mark)?;
            if self.cursor.peek(0) != '>' {
                return Err(self.error(mark, "did not find the expected '>'"));
            }
            self.cursor.skip(1);
        } else {
            let head = self.scan_tag_handle(false, mark)?;
            if head.len() > 1 && head.ends_with('!') {
                suffix = self.scan_tag_uri("", mark)?;
                handle = head;
            } else {
                suffix = self.scan_tag_uri(&head, mark)?;
                // A lone `!` is a tag of its own, not a handle.
                match suffix.is_empty() {
                    true => suffix.push('!'),
                    false => handle.push('!'),
                }
            }
        }
        if !is_blankz(self.cursor.peek(0)) {
            return Err(self.error(mark, "did not find expected whitespace or line break"));
        }
        self.push(Token::Tag { handle, suffix }, mark);
        Ok(())
    }

    fn scan_tag_handle(&mut self, directive: bool, mark: Mark) -> Result<String, Error> {
        if self.cursor.peek(0) != '!' {
            return Err(self.error(mark, "did not find expected '!'"));
        }
        let mut handle = String::new();
        self.cursor.read(&mut handle);
        handle.push_str(self.cursor.skip_while(is_word));
        if self.cursor.peek(0) == '!' {
            self.cursor.read(&mut handle);
        } else if directive && handle != "!" {
            return Err(self.error(mark, "did not find expected '!'"));
        }
        Ok(handle)
    }

    fn scan_tag_uri(&mut self, head: &str, mark: Mark) -> Result<String, Error> {
        let mut uri = head.get(1..).unwrap_or("").as_bytes().to_vec();
        let mut found = !head.is_empty();
        loop {
            match self.cursor.peek(0) {
                '%' => self.scan_uri_escapes(&mut uri, mark)?,
                c if is_word(c) || ";/?:@&=+$,.!~*'()[]".contains(c) => {
                    uri.push(c as u8);
                    self.cursor.skip(1);
                }
                _ => break,
            }
            found = true;
        }
        if !found {
            return Err(self.error(mark, "did not find expected tag URI"));
        }
        Ok(String::from_utf8_lossy(&uri).into_owned())
    }

    /// The escaped octets of one character.
    fn scan_uri_escapes(&mut self, uri: &mut Vec<u8>, mark: Mark) -> Result<(), Error> {
        let mut wanted = None;
        loop {
            let digits = (self.cursor.peek(1).to_digit(16), self.cursor.peek(2).to_digit(16));
            let ('%', (Some(high), Some(low))) = (self.cursor.peek(0), digits) else {
                return Err(self.error(mark, "did not find URI escaped octet"));
            };
            let octet = (high << 4 | low) as u8;
            let left = match wanted {
                None => match octet {
                    0..=0x7f => 1,
                    0xc0..=0xdf => 2,
                    0xe0..=0xef => 3,
                    0xf0..=0xf7 => 4,
                    _ => return Err(self.error(mark, "found an incorrect leading UTF-8 octet")),
                },
                Some(left) if octet & 0xc0 == 0x80 => left,
                Some(_) => return Err(self.error(mark, "found an incorrect trailing UTF-8 octet")),
            };
            uri.push(octet);
            self.cursor.skip(3);
            if left == 1 {
                return Ok(());
            }
            wanted = Some(left - 1);
        }
    }
}
