//! The unified diff that some errors show between an object's old and new form, line by line as Python's `difflib`
//! (and the Go port that kube-apiserver uses) computes it: three lines of context, no file header.

use std::collections::HashMap;
use std::ops::Range;

use triptych_object::{Value, json};

/// The diff between two values in Go's indented JSON; empty if they show alike.
pub fn of_values(old: &Value, new: &Value) -> String {
    let (old, new) = (indented(old), indented(new));
    let (old, new): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
    let mut out = String::new();
    for group in grouped(&opcodes(&old, &new), 3) {
        let (Some(first), Some(last)) = (group.first(), group.last()) else {
            continue;
        };
        out.push_str(&format!(
            "@@ -{} +{} @@\n",
            range_text(first.old.start..last.old.end),
            range_text(first.new.start..last.new.end)
        ));
        for op in &group {
            if op.equal {
                old[op.old.clone()]
                    .iter()
                    .for_each(|line| out.push_str(&format!(" {line}\n")));
                continue;
            }
            old[op.old.clone()]
                .iter()
                .for_each(|line| out.push_str(&format!("-{line}\n")));
            new[op.new.clone()]
                .iter()
                .for_each(|line| out.push_str(&format!("+{line}\n")));
        }
    }
    out
}

/// `json.MarshalIndent(v, "", " ")`.
fn indented(value: &Value) -> String {
    let mut out = String::new();
    indent(value, 0, &mut out);
    out
}

fn indent(value: &Value, depth: usize, out: &mut String) {
    let line = |out: &mut String, depth: usize| {
        out.push('\n');
        (0..depth).for_each(|_| out.push(' '));
    };
    match value {
        Value::Object(map) if !map.is_empty() => {
            out.push('{');
            for (i, (key, member)) in map.iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                line(out, depth + 1);
                out.push_str(&json::to_string(&Value::String(key.to_owned())));
                out.push_str(": ");
                indent(member, depth + 1, out);
            }
            line(out, depth);
            out.push('}');
        }
        Value::Array(items) if !items.is_empty() => {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                line(out, depth + 1);
                indent(item, depth + 1, out);
            }
            line(out, depth);
            out.push(']');
        }
        other => out.push_str(&json::to_string(other)),
    }
}

fn range_text(range: Range<usize>) -> String {
    match range.len() {
        1 => (range.start + 1).to_string(),
        0 => format!("{},0", range.start),
        n => format!("{},{n}", range.start + 1),
    }
}

/// A stretch of lines that are equal, or that replace each other.
#[derive(Clone, Debug, PartialEq)]
struct Op {
    equal: bool,
    old: Range<usize>,
    new: Range<usize>,
}

/// Where each line of the new text stands; lines that stand too often in a long text are left out, as difflib does.
fn positions<'a>(new: &[&'a str]) -> HashMap<&'a str, Vec<usize>> {
    let mut positions: HashMap<&str, Vec<usize>> = HashMap::new();
    for (i, line) in new.iter().enumerate() {
        positions.entry(line).or_default().push(i);
    }
    if new.len() >= 200 {
        let often = new.len() / 100 + 1;
        positions.retain(|_, at| at.len() <= often);
    }
    positions
}

fn opcodes(old: &[&str], new: &[&str]) -> Vec<Op> {
    let positions = positions(new);
    let mut blocks: Vec<(usize, usize, usize)> = Vec::new();
    let mut queue = vec![(0..old.len(), 0..new.len())];
    while let Some((o, n)) = queue.pop() {
        let (i, j, size) = longest_match(old, new, &positions, o.clone(), n.clone());
        if size == 0 {
            continue;
        }
        blocks.push((i, j, size));
        queue.push((o.start..i, n.start..j));
        queue.push((i + size..o.end, j + size..n.end));
    }
    blocks.sort_unstable();
    blocks.push((old.len(), new.len(), 0));
    let mut ops: Vec<Op> = Vec::new();
    let (mut i, mut j) = (0, 0);
    for (bi, bj, size) in blocks {
        if i < bi || j < bj {
            ops.push(Op {
                equal: false,
                old: i..bi,
                new: j..bj,
            });
        }
        if size > 0 {
            match ops.last_mut() {
                Some(last) if last.equal => {
                    last.old.end = bi + size;
                    last.new.end = bj + size;
                }
                _ => ops.push(Op {
                    equal: true,
                    old: bi..bi + size,
                    new: bj..bj + size,
                }),
            }
        }
        (i, j) = (bi + size, bj + size);
    }
    ops
}

/// The longest common stretch, the first of equals.
fn longest_match(
    old: &[&str],
    new: &[&str],
    positions: &HashMap<&str, Vec<usize>>,
    o: Range<usize>,
    n: Range<usize>,
) -> (usize, usize, usize) {
    let (mut bi, mut bj, mut size) = (o.start, n.start, 0);
    let mut lengths: HashMap<usize, usize> = HashMap::new();
    for i in o.clone() {
        let mut next = HashMap::new();
        for &j in positions.get(old[i]).into_iter().flatten() {
            if j < n.start {
                continue;
            }
            if j >= n.end {
                break;
            }
            let length = j.checked_sub(1).and_then(|j| lengths.get(&j)).copied().unwrap_or(0) + 1;
            next.insert(j, length);
            if length > size {
                (bi, bj, size) = (i + 1 - length, j + 1 - length, length);
            }
        }
        lengths = next;
    }
    while bi > o.start && bj > n.start && old[bi - 1] == new[bj - 1] {
        (bi, bj, size) = (bi - 1, bj - 1, size + 1);
    }
    while bi + size < o.end && bj + size < n.end && old[bi + size] == new[bj + size] {
        size += 1;
    }
    (bi, bj, size)
}

/// Changes with at most `context` lines around them; far ones in groups of their own.
fn grouped(ops: &[Op], context: usize) -> Vec<Vec<Op>> {
    let mut ops = ops.to_vec();
    if let Some(first) = ops.first_mut().filter(|op| op.equal) {
        first.old.start = first.old.start.max(first.old.end.saturating_sub(context));
        first.new.start = first.new.start.max(first.new.end.saturating_sub(context));
    }
    if let Some(last) = ops.last_mut().filter(|op| op.equal) {
        last.old.end = last.old.end.min(last.old.start + context);
        last.new.end = last.new.end.min(last.new.start + context);
    }
    let mut groups = Vec::new();
    let mut group: Vec<Op> = Vec::new();
    for op in ops {
        if op.equal && op.old.len() > 2 * context {
            group.push(Op {
                equal: true,
                old: op.old.start..op.old.start + context,
                new: op.new.start..op.new.start + context,
            });
            groups.push(std::mem::take(&mut group));
            group.push(Op {
                equal: true,
                old: op.old.end - context..op.old.end,
                new: op.new.end - context..op.new.end,
            });
            continue;
        }
        group.push(op);
    }
    groups.push(group);
    groups.retain(|g| g.iter().any(|op| !op.equal));
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_diff_shows_three_lines_around_a_change() {
        let members = |b: i64| {
            let names = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"];
            let pairs = names
                .iter()
                .map(|n| ((*n).to_owned(), Value::Int(if *n == "f" { b } else { 1 })));
            Value::Object(pairs.collect())
        };
        assert_eq!(
            of_values(&members(1), &members(2)),
            "@@ -4,7 +4,7 @@\n  \"c\": 1,\n  \"d\": 1,\n  \"e\": 1,\n- \"f\": 1,\n+ \"f\": 2,\n  \"g\": 1,\n  \"h\": 1,\n  \"i\": 1,\n"
        );
        assert_eq!(of_values(&members(1), &members(1)), "");
    }
}
