//! Sets of completion indexes as text: `1,3-5,7`.

use triptych_object::field::quote;

fn number(text: &str, completions: i64) -> Result<i64, String> {
    let index: i64 = text
        .parse()
        .map_err(|_| format!("cannot convert string to integer for index: {}", quote(text)))?;
    if index >= completions {
        return Err(format!("too large index: {}", quote(text)));
    }
    Ok(index)
}

fn interval(text: &str, completions: i64) -> Result<(i64, i64), String> {
    let parts: Vec<&str> = text.split('-').collect();
    match parts.as_slice() {
        [one] => number(one, completions).map(|x| (x, x)),
        [low, high] => {
            let (x, y) = (number(low, completions)?, number(high, completions)?);
            if x >= y {
                return Err(format!("non-increasing order, previous: {x}, current: {y}"));
            }
            Ok((x, y))
        }
        _ => Err(format!(
            "the fragment {} violates the requirement that an index interval can have at most two parts separated by '-'",
            quote(text)
        )),
    }
}

/// How many indexes a text holds; what is wrong with it otherwise.
pub fn count(text: &str, completions: i64) -> Result<i64, String> {
    let mut total = 0;
    let mut last: Option<i64> = None;
    for part in text.split(',').filter(|_| !text.is_empty()) {
        let (x, y) = interval(part, completions)?;
        if let Some(last) = last.filter(|last| *last >= x) {
            return Err(format!("non-increasing order, previous: {last}, current: {x}"));
        }
        total += y - x + 1;
        last = Some(y);
    }
    Ok(total)
}

/// The first index that stands in both texts; what cannot be read is passed over.
pub fn overlap(completed: &str, failed: &str, completions: i64) -> Option<i64> {
    let read = |text: &str| -> Vec<(i64, i64)> {
        text.split(',')
            .filter_map(|part| interval(part, completions).ok())
            .collect()
    };
    let (completed, failed) = (read(completed), read(failed));
    let (mut c, mut f) = (completed.iter().peekable(), failed.iter().peekable());
    while let (Some((cx, cy)), Some((fx, fy))) = (c.peek(), f.peek()) {
        if cx <= fy && fx <= cy {
            return Some(*cx.max(fx));
        }
        if cx <= fx {
            c.next();
        } else {
            f.next();
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indexes_are_counted_and_compared() {
        assert_eq!(count("", 5), Ok(0));
        assert_eq!(count("0,2-4", 5), Ok(4));
        assert_eq!(count("5", 5), Err("too large index: \"5\"".into()));
        assert_eq!(
            count("2,1", 5),
            Err("non-increasing order, previous: 2, current: 1".into())
        );
        assert_eq!(overlap("0-2", "2,4", 5), Some(2));
        assert_eq!(overlap("0-1", "2,4", 5), None);
    }
}
