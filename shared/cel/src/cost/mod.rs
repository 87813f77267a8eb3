//! What evaluating costs: estimated before, and counted while it happens.
//!
//! Contract: the numbers are those of cel-go's estimator and tracker with Kubernetes' and cel-go's library costs, because limits on them
//! are part of the API: a CRD whose rules may cost too much is refused, an evaluation that costs too much is ended.

mod estimate;
mod range;
mod track;

pub use estimate::estimate;
pub use range::Range;
pub(crate) use track::Before;

/// Costs at least and at most.
pub type Estimate = Range;

/// Reading a name or member.
pub(crate) const SELECT_AND_IDENT: u64 = 1;
/// Making a list.
pub(crate) const LIST_CREATE: u64 = 10;
/// Making a map.
pub(crate) const MAP_CREATE: u64 = 30;
/// Making a struct.
pub(crate) const STRUCT_CREATE: u64 = 40;
/// Going through a text, for each unit.
pub(crate) const STRING_TRAVERSAL: f64 = 0.1;
/// Applying a pattern, for each unit of it.
pub(crate) const REGEX_LENGTH: f64 = 0.25;
/// An access check.
pub(crate) const AUTHORIZATION: u64 = 350_000;

/// How large what an expression reads may be.
pub trait Sizes {
    /// Items, members or units of text at least and at most; `path` begins with the variable, `@items`, `@keys` and `@values`
    /// stand for any of a list's or map's.
    fn size(&self, path: &[String]) -> Option<Range>;
}

/// Nothing is known of sizes.
#[derive(Clone, Copy, Debug)]
pub struct NoSizes;

impl Sizes for NoSizes {
    fn size(&self, _path: &[String]) -> Option<Range> {
        None
    }
}

impl Sizes for crate::declared::Declared {
    /// Whatever the variable, it is of this type.
    fn size(&self, path: &[String]) -> Option<Range> {
        let (_, below) = path.split_first()?;
        Some(Range {
            min: 0,
            max: self.max_size(below)?,
        })
    }
}
