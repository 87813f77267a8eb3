//! Sizes and costs that are known to lie between two bounds; nothing overflows.

/// At least and at most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Range {
    /// At least.
    pub min: u64,
    /// At most.
    pub max: u64,
}

impl std::ops::Add for Range {
    type Output = Range;

    fn add(self, other: Range) -> Range {
        Range {
            min: self.min.saturating_add(other.min),
            max: self.max.saturating_add(other.max),
        }
    }
}

impl std::ops::Mul for Range {
    type Output = Range;

    fn mul(self, other: Range) -> Range {
        Range {
            min: self.min.saturating_mul(other.min),
            max: self.max.saturating_mul(other.max),
        }
    }
}

impl Range {
    /// Anything.
    pub const UNKNOWN: Range = Range { min: 0, max: u64::MAX };

    /// Exactly this.
    pub fn fixed(n: u64) -> Range {
        Range { min: n, max: n }
    }

    /// Multiplied by a factor, rounded up.
    pub fn times(self, factor: f64) -> Range {
        Range {
            min: scaled(self.min, factor),
            max: scaled(self.max, factor),
        }
    }

    /// What holds both.
    pub fn union(self, other: Range) -> Range {
        Range {
            min: self.min.min(other.min),
            max: self.max.max(other.max),
        }
    }
}

/// A number multiplied by a factor, rounded up.
pub(super) fn scaled(n: u64, factor: f64) -> u64 {
    // The conversion saturates.
    (n as f64 * factor).ceil() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_saturate() {
        let unknown = Range::UNKNOWN;
        assert_eq!((unknown + Range::fixed(1)).max, u64::MAX);
        assert_eq!((unknown * Range::fixed(2)).max, u64::MAX);
        assert_eq!(unknown.times(1.0).max, u64::MAX);
        assert_eq!(Range::fixed(11).times(0.1), Range::fixed(2));
    }
}
