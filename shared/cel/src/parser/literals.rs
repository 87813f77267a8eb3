//! What is written out in an expression: structs, lists, maps and simple values.

use super::{Parsed, Parser, Stop};
use crate::ast::{Entry, Expr, ExprKind, FieldInit, Literal};
use crate::lexer::{Kind, Token};
use crate::unescape;

impl Parser<'_> {
    /// `a.b.C{…}`, if that is what follows the first name.
    pub(super) fn structure(&mut self, dot: &str, first: Token) -> Parsed<Option<Expr>> {
        let mut length = 0;
        while self.ahead(length) == Kind::Dot && self.ahead(length + 1) == Kind::Identifier {
            length += 2;
        }
        if self.ahead(length) != Kind::LeftBrace {
            return Ok(None);
        }
        let mut name = format!("{dot}{}", self.text(first));
        for i in 0..length {
            name.push_str(&self.text(self.tokens[self.at + i]));
        }
        self.at += length;
        let open = self.next();
        let id = self.nodes.id(open.start);
        let mut fields = Vec::new();
        self.separated(Kind::RightBrace, |p| {
            let optional = p.take(Kind::Question).is_some();
            let name = p.next();
            let text = match name.kind {
                Kind::Identifier => p.text(name),
                Kind::EscapedIdentifier => {
                    p.nodes.error(open.start + 1, "unsupported syntax: '`'");
                    String::new()
                }
                _ => return Err(Stop::Syntax),
            };
            let colon = p.expect(Kind::Colon)?;
            let id = p.nodes.id(colon.start);
            let value = p.expr()?;
            fields.push(FieldInit {
                id,
                name: text.into(),
                value,
                optional,
            });
            Ok(())
        })?;
        let kind = ExprKind::Struct {
            name: name.into(),
            fields,
        };
        Ok(Some(Expr { id, kind }))
    }

    /// Items between commas, one comma after the last allowed, up to a closing token.
    pub(super) fn separated(&mut self, close: Kind, mut item: impl FnMut(&mut Self) -> Parsed<()>) -> Parsed<()> {
        if self.kind() != close && self.kind() != Kind::Comma {
            loop {
                item(self)?;
                if self.kind() != Kind::Comma || self.ahead(1) == close {
                    break;
                }
                self.next();
            }
        }
        self.take(Kind::Comma);
        self.expect(close)?;
        Ok(())
    }

    pub(super) fn list(&mut self) -> Parsed<Expr> {
        let open = self.next();
        let id = self.nodes.id(open.start);
        let (mut items, mut optional) = (Vec::new(), Vec::new());
        self.separated(Kind::RightBracket, |p| {
            optional.push(p.take(Kind::Question).is_some());
            items.push(p.expr()?);
            Ok(())
        })?;
        let kind = ExprKind::List { items, optional };
        Ok(Expr { id, kind })
    }

    pub(super) fn map(&mut self) -> Parsed<Expr> {
        let open = self.next();
        let id = self.nodes.id(open.start);
        let mut entries = Vec::new();
        self.separated(Kind::RightBrace, |p| {
            let optional = p.take(Kind::Question).is_some();
            let key = p.expr()?;
            let colon = p.expect(Kind::Colon)?;
            let id = p.nodes.id(colon.start);
            let value = p.expr()?;
            entries.push(Entry {
                id,
                key,
                value,
                optional,
            });
            Ok(())
        })?;
        let kind = ExprKind::Map(entries);
        Ok(Expr { id, kind })
    }

    pub(super) fn literal(&mut self) -> Parsed<Expr> {
        let start = self.token().start;
        let negative = self.is_negative_literal() && self.take(Kind::Minus).is_some();
        let token = self.next();
        let text = self.text(token);
        let signed = |text: &str| match negative {
            true => format!("-{text}"),
            false => text.to_owned(),
        };
        let made = match token.kind {
            Kind::Int => match text.strip_prefix("0x") {
                Some(hex) => i64::from_str_radix(&signed(hex), 16),
                None => signed(&text).parse(),
            }
            .map(Literal::Int)
            .map_err(|_| "invalid int literal".to_owned()),
            Kind::Uint => {
                let text = &text[..text.len() - 1];
                match text.strip_prefix("0x") {
                    Some(hex) => u64::from_str_radix(hex, 16),
                    None => text.parse(),
                }
                .map(Literal::Uint)
                .map_err(|_| "invalid uint literal".to_owned())
            }
            Kind::Float => match signed(&text).parse::<f64>() {
                Ok(number) if number.is_finite() => Ok(Literal::Double(number)),
                _ => Err("invalid double literal".to_owned()),
            },
            Kind::String => unescape::text(&text).map(|t| Literal::String(t.into())),
            Kind::Bytes => unescape::bytes(&text[1..]).map(|b| Literal::Bytes(b.into())),
            Kind::True => Ok(Literal::Bool(true)),
            Kind::False => Ok(Literal::Bool(false)),
            Kind::Null => Ok(Literal::Null),
            _ => return Err(Stop::Syntax),
        };
        Ok(match made {
            Ok(literal) => self.nodes.node(start, ExprKind::Literal(literal)),
            Err(message) => self.nodes.error(start, message),
        })
    }
}
