//! What calls may cost and how large what they return may be, function by function.

use super::super::{AUTHORIZATION, LIST_CREATE, REGEX_LENGTH, Range, STRING_TRAVERSAL};
use super::{Call, Coster, Entries, Node, extended, only, selector_cost};
use crate::ast::{Expr, ExprKind, Literal};
use crate::types::Type;

impl<'a> Coster<'a> {
    /// What calling one overload costs, its arguments included.
    pub(super) fn function(
        &mut self,
        expr: &Expr,
        function: &str,
        overload: &str,
        target: Option<&Node<'a>>,
        args: &[Node<'a>],
        costs: &[Range],
    ) -> Call {
        let sum = costs.iter().fold(Range::default(), |sum, cost| sum + *cost);
        let own = self
            .list_function(overload, target, args)
            .or_else(|| self.library_function(function, overload, target, args));
        if let Some(call) = own {
            return Call {
                cost: call.cost + sum,
                size: call.size,
            };
        }
        self.standard_function(expr, overload, target, args, costs, sum)
            .unwrap_or(Call {
                cost: Range::fixed(1) + sum,
                size: None,
            })
    }

    fn standard_function(
        &mut self,
        expr: &Expr,
        overload: &str,
        target: Option<&Node<'a>>,
        args: &[Node<'a>],
        costs: &[Range],
        sum: Range,
    ) -> Option<Call> {
        let size = |node: &Node<'_>| node.size.unwrap_or(Range::UNKNOWN);
        let text = |range: Range| range.times(STRING_TRAVERSAL);
        let sized = |cost: Range, size: Range| {
            Some(Call {
                cost: cost + sum,
                size: Some(size),
            })
        };
        match (overload, args) {
            ("string_format", _) => only(text(size(target?)) + sum),
            ("string_to_bytes", [arg]) => {
                let s = size(arg);
                let max = s.max.wrapping_mul(4);
                sized(text(s), Range { min: s.min, max })
            }
            ("bytes_to_string", [arg]) => {
                let s = size(arg);
                let (min, max) = (s.min / 4, s.max);
                sized(text(s), Range { min, max })
            }
            ("strings_quote", [arg]) => {
                let s = size(arg);
                let (min, max) = (s.min.wrapping_add(2), s.max.wrapping_mul(2).wrapping_add(2));
                sized(text(s), Range { min, max })
            }
            ("starts_with_string" | "ends_with_string", [arg]) => only(text(size(arg)) + sum),
            ("in_list", [_, list]) => only(size(list) + sum),
            ("matches_string", [pattern]) => {
                let string = text(size(target?) + Range::fixed(1));
                only(string * size(pattern).times(REGEX_LENGTH) + sum)
            }
            ("contains_string", [part]) => only(text(size(target?)) * text(size(part)) + sum),
            ("logical_or" | "logical_and", [_, _]) => only(Range {
                min: costs[0].min,
                max: (costs[0] + costs[1]).max,
            }),
            ("conditional", [_, yes, no]) => {
                let result = size(yes).union(size(no));
                let entries = Entries::union(
                    yes.expr.and_then(|e| self.entries_of(e)),
                    no.expr.and_then(|e| self.entries_of(e)),
                );
                if let Some(entries) = entries {
                    self.entries.insert(expr.id, entries);
                }
                Some(Call {
                    cost: costs[0] + costs[1].union(costs[2]),
                    size: Some(result),
                })
            }
            ("add_string" | "add_bytes" | "add_list", [a, b]) => {
                let result = size(a) + size(b);
                let entries = Entries::union(
                    a.expr.and_then(|e| self.entries_of(e)),
                    b.expr.and_then(|e| self.entries_of(e)),
                );
                if let Some(entries) = entries {
                    self.entries.insert(expr.id, entries);
                }
                let cost = if overload == "add_list" {
                    Range::fixed(1)
                } else {
                    text(result)
                };
                sized(cost, result)
            }
            (
                "less_string"
                | "greater_string"
                | "less_equals_string"
                | "greater_equals_string"
                | "less_bytes"
                | "greater_bytes"
                | "less_equals_bytes"
                | "greater_equals_bytes"
                | "equals"
                | "not_equals",
                [a, b],
            ) => {
                let max = size(a).max.min(size(b).max);
                let min = u64::from(max > 0);
                only(text(Range { min, max }) + sum)
            }
            _ => None,
        }
    }

    /// The size of an argument, asked for if it is not known yet.
    fn sized(&self, node: &Node<'_>) -> Range {
        node.size
            .or_else(|| self.estimated(&node.path))
            .unwrap_or(Range::UNKNOWN)
    }

    /// The items of a list, as an argument.
    fn item(&self, list: &Node<'_>) -> Option<Node<'a>> {
        let ty = list.ty.parameters().first().map(|t| (*t).clone())?;
        let path = if list.path.is_empty() {
            list.path.clone()
        } else {
            extended(&list.path, "@items")
        };
        Some(Node {
            expr: None,
            path,
            ty,
            size: None,
        })
    }

    /// Functions of cel-go's libraries for lists and sets.
    fn list_function(&self, overload: &str, target: Option<&Node<'a>>, args: &[Node<'a>]) -> Option<Call> {
        let allocating = |factor: f64, size: Range| {
            Some(Call {
                cost: size.times(factor) + Range::fixed(1 + LIST_CREATE),
                size: Some(size),
            })
        };
        let integer = |node: &Node<'_>, otherwise: u64| match node.expr.map(|e| &e.kind) {
            Some(ExprKind::Literal(Literal::Int(i))) => (*i).max(0) as u64,
            _ => otherwise,
        };
        let compared = |node: &Node<'_>| {
            let size = self.sized(node);
            let texts = overload.starts_with("list_string_") || overload.starts_with("list_bytes_");
            let factor = if texts { 2.0 + STRING_TRAVERSAL } else { 2.0 };
            allocating(factor, size * size)
        };
        match (overload, target, args) {
            ("list_slice", Some(list), [start, end]) => {
                let size = self.sized(list);
                let length = integer(end, size.max).wrapping_sub(integer(start, 0));
                allocating(1.0, Range::fixed(length))
            }
            ("lists_range", None, [n]) => allocating(1.0, Range::fixed(integer(n, u64::MAX))),
            ("list_reverse", Some(list), []) => allocating(1.0, self.sized(list)),
            ("list_flatten", Some(list), []) => allocating(1.0, self.sized(list)),
            ("list_flatten_int", Some(list), [depth]) => allocating(integer(depth, u64::MAX) as f64, self.sized(list)),
            ("list_distinct", Some(list), []) => {
                let size = self.sized(list);
                allocating(2.0, size * size)
            }
            (_, Some(_), [keys]) if overload.ends_with("_sortByAssociatedKeys") => compared(keys),
            (_, Some(list), []) if overload.starts_with("list_") && overload.ends_with("_sort") => compared(list),
            ("list_sets_contains_list" | "list_sets_intersects_list" | "list_sets_equivalent_list", _, [a, b]) => {
                let factor = if overload == "list_sets_equivalent_list" {
                    2.0
                } else {
                    1.0
                };
                only((self.sized(a) * self.sized(b)).times(factor) + Range::fixed(1))
            }
            _ => None,
        }
    }

    /// Functions of Kubernetes' libraries, and those whose cost Kubernetes sets.
    fn library_function(
        &self,
        function: &str,
        overload: &str,
        target: Option<&Node<'a>>,
        args: &[Node<'a>],
    ) -> Option<Call> {
        let text = |range: Range| range.times(STRING_TRAVERSAL);
        let same_size = |node: &Node<'_>| {
            let size = self.sized(node);
            Some(Call {
                cost: text(size),
                size: Some(size),
            })
        };
        let address = Range { min: 4, max: 16 };
        match (function, target, args) {
            ("check", ..) => only(Range::fixed(AUTHORIZATION)),
            (
                "serviceAccount"
                | "path"
                | "group"
                | "resource"
                | "subresource"
                | "namespace"
                | "name"
                | "allowed"
                | "reason"
                | "error"
                | "errored"
                | "masked"
                | "prefixLength"
                | "family"
                | "isUnspecified"
                | "isLoopback"
                | "isLinkLocalMulticast"
                | "isLinkLocalUnicast"
                | "isGlobalUnicast"
                | "format.named"
                | "sign"
                | "asInteger"
                | "isInteger"
                | "asApproximateFloat"
                | "isGreaterThan"
                | "isLessThan"
                | "compareTo"
                | "add"
                | "sub"
                | "major"
                | "minor"
                | "patch"
                | "getScheme"
                | "getHostname"
                | "getHost"
                | "getPort"
                | "getEscapedPath"
                | "getQuery",
                ..,
            ) => only(Range::fixed(1)),
            ("fieldSelector" | "labelSelector", _, [selector]) => only(selector_cost(self.sized(selector))),
            ("isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf", Some(target), _) => {
                let Some(item) = self.item(target) else {
                    return only(text(self.sized(target)));
                };
                let mut each = Range::fixed(1);
                if matches!(item.ty, Type::String | Type::Bytes) {
                    each = each + text(self.sized(&item));
                }
                only(self.sized(target) * each)
            }
            ("url" | "jsonpatch.escapeKey", _, [arg]) => same_size(arg),
            ("lowerAscii" | "upperAscii" | "substring" | "trim", Some(target), _) => same_size(target),
            ("replace", Some(target), [old, new, ..]) => {
                let (size, old, new) = (self.sized(target), self.sized(old), self.sized(new));
                Some(Call {
                    cost: size.times(2.0 * STRING_TRAVERSAL),
                    size: Some(replaced(size, old, new)),
                })
            }
            ("split", Some(target), _) => {
                let size = self.sized(target);
                let limit = args.get(1).and_then(|n| n.expr).map(|e| &e.kind);
                let max = match limit {
                    Some(ExprKind::Literal(Literal::Int(i))) => *i as u64,
                    _ => size.max,
                };
                Some(Call {
                    cost: size.times(2.0 * STRING_TRAVERSAL),
                    size: Some(Range { min: 0, max }),
                })
            }
            ("join", Some(target), _) => {
                let list = self.sized(target);
                let mut size = match self.item(target) {
                    Some(item) => list * self.sized(&item),
                    None => Range::default(),
                };
                if let Some(separator) = args.first() {
                    let between = Range {
                        min: list.min.saturating_sub(1),
                        max: list.max.saturating_sub(1),
                    };
                    size = size + self.sized(separator) * between;
                }
                Some(Call {
                    cost: text(size),
                    size: Some(size),
                })
            }
            ("find" | "findAll", Some(target), [pattern, ..]) => {
                let size = self.sized(target);
                let cost = text(size + Range::fixed(1)) * self.sized(pattern).times(REGEX_LENGTH);
                Some(Call {
                    cost,
                    size: Some(Range { min: 0, max: size.max }),
                })
            }
            ("ip", ..) if overload == "cidr_ip" => only(Range::fixed(1)),
            ("cidr" | "isIP" | "isCIDR" | "ip" | "quantity" | "isQuantity" | "semver" | "isSemver", _, [arg, ..]) => {
                only(text(self.sized(arg)))
            }
            ("ip.isCanonical", _, [arg, ..]) => only(self.sized(arg).times(2.0 * STRING_TRAVERSAL)),
            ("containsIP", _, [arg, ..]) => {
                let mut cost = text(address + address);
                if overload == "cidr_contains_ip_string" {
                    cost = cost + text(self.sized(arg));
                }
                only(cost)
            }
            ("containsCIDR", _, [arg, ..]) => {
                let mut cost = text(address + address) + text(address) + Range::fixed(1);
                if overload == "cidr_contains_cidr_string" {
                    cost = cost + text(self.sized(arg));
                }
                only(cost)
            }
            ("validate", _, [arg, ..]) => only(text(self.sized(arg)).times(128.0 * REGEX_LENGTH)),
            ("_==_", _, [a, b]) if a.ty == b.ty => match &a.ty {
                Type::Opaque(name, _) if matches!(&**name, "net.IP" | "net.CIDR") => only(Range::fixed(1)),
                Type::Object(object) => match &*object.name {
                    "kubernetes.NamedFormat" => only(text(Range { min: 1, max: 64 })),
                    "kubernetes.URL" => {
                        let max = b.size.map_or(1, |s| s.max);
                        only(text(Range { min: 1, max }))
                    }
                    name if crate::environment::builtin(name).is_some() => only(Range::fixed(1)),
                    _ => None,
                },
                _ => None,
            },
            _ => None,
        }
    }
}

/// The size of a text in which parts are replaced.
fn replaced(size: Range, old: Range, new: Range) -> Range {
    let (mut count, mut kept) = (Range::default(), Range::default());
    if old.min == 0 {
        count.max = size.max.saturating_add(1);
        kept.max = size.max;
    } else if new.max <= old.min {
        kept.max = size.max;
    } else {
        count.max = (size.max as f64 / old.min as f64).ceil() as u64;
    }
    if old.max == 0 {
        count.min = size.min.saturating_add(1);
        kept.min = size.min;
    } else if old.max <= new.min {
        kept.min = size.min;
    } else {
        count.min = (size.min as f64 / old.max as f64).ceil() as u64;
    }
    count * new + kept
}
