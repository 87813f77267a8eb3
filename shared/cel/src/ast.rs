//! The tree of an expression: what the parser makes, macros rewrite and the checker types.
//!
//! Contract: every node has an id of its own; where it stands in the text is kept beside the tree by id.

use std::sync::Arc;

/// A node.
#[derive(Clone, Debug, Default)]
pub struct Expr {
    /// Its own, below [`Ast::size`].
    pub id: usize,
    /// What it is.
    pub kind: ExprKind,
}

/// A constant written in the text.
#[derive(Clone, Debug, PartialEq)]
pub enum Literal {
    /// `null`
    Null,
    /// `true`, `false`
    Bool(bool),
    /// An integer.
    Int(i64),
    /// An unsigned integer.
    Uint(u64),
    /// A number.
    Double(f64),
    /// A text.
    String(Arc<str>),
    /// Bytes.
    Bytes(Arc<[u8]>),
}

/// What a node is.
#[derive(Clone, Debug, Default)]
pub enum ExprKind {
    /// What could not be parsed.
    #[default]
    Unspecified,
    /// A constant.
    Literal(Literal),
    /// A name.
    Ident(Arc<str>),
    /// A member; with `test` whether there is one.
    Select {
        /// Of this.
        operand: Box<Expr>,
        /// The member's name.
        field: Arc<str>,
        /// Only whether it is there.
        test: bool,
    },
    /// A function or operator.
    Call {
        /// Its name.
        function: Arc<str>,
        /// What it is a member of.
        target: Option<Box<Expr>>,
        /// Its arguments.
        args: Vec<Expr>,
    },
    /// `[a, ?b]`
    List {
        /// What it holds.
        items: Vec<Expr>,
        /// Which items are optional.
        optional: Vec<bool>,
    },
    /// `{k: v, ?k: v}`
    Map(Vec<Entry>),
    /// `Name{f: v, ?f: v}`
    Struct {
        /// Of this type.
        name: Arc<str>,
        /// Its fields.
        fields: Vec<FieldInit>,
    },
    /// What macros make.
    Comprehension(Box<Comprehension>),
}

/// A member of a map.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Its own.
    pub id: usize,
    /// The key.
    pub key: Expr,
    /// The value.
    pub value: Expr,
    /// Present only if the value is.
    pub optional: bool,
}

/// A field of a struct.
#[derive(Clone, Debug)]
pub struct FieldInit {
    /// Its own.
    pub id: usize,
    /// Its name.
    pub name: Arc<str>,
    /// Its value.
    pub value: Expr,
    /// Set only if the value is.
    pub optional: bool,
}

/// A fold over a list or map.
#[derive(Clone, Debug)]
pub struct Comprehension {
    /// What is gone through.
    pub range: Expr,
    /// The item, or the key or index when there are two variables.
    pub variable: Arc<str>,
    /// The value, when there are two variables.
    pub second: Option<Arc<str>>,
    /// The name of the accumulator.
    pub accumulator: Arc<str>,
    /// What it begins with.
    pub init: Expr,
    /// Whether to go on.
    pub condition: Expr,
    /// The accumulator's next value.
    pub step: Expr,
    /// What becomes of it.
    pub result: Expr,
}

/// A parsed expression.
#[derive(Clone, Debug)]
pub struct Ast {
    /// The tree.
    pub root: Expr,
    /// Offsets by id; `usize::MAX` where there is none.
    pub offsets: Vec<usize>,
}

impl Ast {
    /// How many ids there are.
    pub fn size(&self) -> usize {
        self.offsets.len()
    }
}

impl Expr {
    /// The dotted name this is, if it is nothing else.
    pub fn qualified_name(&self) -> Option<String> {
        match &self.kind {
            ExprKind::Ident(name) => Some(name.to_string()),
            ExprKind::Select {
                operand,
                field,
                test: false,
            } => Some(format!("{}.{field}", operand.qualified_name()?)),
            _ => None,
        }
    }

    /// The text, if this is a constant text.
    pub fn as_string(&self) -> Option<&Arc<str>> {
        match &self.kind {
            ExprKind::Literal(Literal::String(text)) => Some(text),
            _ => None,
        }
    }
}
