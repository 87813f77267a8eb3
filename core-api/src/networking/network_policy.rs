//! NetworkPolicy: peers, ports and address blocks.

use jiff::Timestamp;
use triptych_object::field::ErrorList;
use triptych_object::{Value, meta, names};
use triptych_registry::age::age;
use triptych_registry::object_meta::RepeatedMetaChecks;
use triptych_registry::strategy::{Context, Strategy};

use crate::printing;
use crate::validation::addresses::legacy_cidr;
use crate::validation::label_selector::{Lenience, label_selector};
use crate::validation::{Cursor, check, port_numbers};

const DIRECTIONS: [(&str, &str); 2] = [("ingress", "from"), ("egress", "to")];

/// The strategy of `networkpolicies`.
pub struct NetworkPolicies;

impl Strategy for NetworkPolicies {
    fn default(&self, policy: &mut Value) {
        if !policy.array_at(&["spec", "policyTypes"]).is_empty() {
            return;
        }
        let mut types = vec!["Ingress"];
        if !policy.array_at(&["spec", "egress"]).is_empty() {
            types.push("Egress");
        }
        policy.set_at(&["spec", "policyTypes"], types.into());
    }

    fn validate_create(&self, _cx: &Context, new: &Value, errors: &mut ErrorList) {
        check(new, errors, |policy| spec(policy.field("spec"), &Before::default()));
    }

    fn validate_update(&self, _cx: &Context, new: &Value, old: &Value, errors: &mut ErrorList) {
        let mut found = ErrorList::new();
        check(old, &mut found, |policy| {
            label_selector(policy.field("spec").field("podSelector"), Lenience::default());
        });
        let before = Before {
            selectors: Lenience {
                invalid_values: !found.is_empty(),
            },
            cidrs: blocks(old).flat_map(|(_, cidrs)| cidrs).map(|(_, cidr)| cidr).collect(),
        };
        check(new, errors, |policy| spec(policy.field("spec"), &before));
    }

    fn repeated_meta_checks(&self) -> RepeatedMetaChecks {
        RepeatedMetaChecks::Update
    }

    fn warnings(&self, _cx: &Context, new: &Value, _old: Option<&Value>) -> Vec<String> {
        let all = blocks(new).flat_map(|(path, cidrs)| {
            cidrs
                .into_iter()
                .flat_map(move |(member, cidr)| names::cidr_warnings(&format!("{path}.{member}"), cidr))
        });
        all.collect()
    }

    fn cells(&self, object: &Value, now: Timestamp) -> Option<Vec<Value>> {
        Some(vec![
            meta::name(object).into(),
            printing::label_selector(object.at(&["spec", "podSelector"])).into(),
            age(object, now).into(),
        ])
    }
}

/// Ranges of a block with the members they stand in.
type Ranges<'a> = Vec<(String, &'a str)>;

/// The address blocks of a policy with their paths.
fn blocks(policy: &Value) -> impl Iterator<Item = (String, Ranges<'_>)> {
    DIRECTIONS.into_iter().flat_map(move |(rules, peers)| {
        let list = policy.array_at(&["spec", rules]).iter().enumerate();
        list.flat_map(move |(i, rule)| {
            rule.array_at(&[peers]).iter().enumerate().filter_map(move |(j, peer)| {
                let block = peer.get("ipBlock")?;
                let mut cidrs = vec![("cidr".to_owned(), block.str_at(&["cidr"]))];
                for (k, except) in block.array_at(&["except"]).iter().enumerate() {
                    cidrs.push((format!("except[{k}]"), except.as_str().unwrap_or("")));
                }
                Some((format!("spec.{rules}[{i}].{peers}[{j}].ipBlock"), cidrs))
            })
        })
    })
}

/// What the stored policy has that a new one may not.
#[derive(Default)]
struct Before<'a> {
    selectors: Lenience,
    cidrs: Vec<&'a str>,
}

fn spec(spec: Cursor<'_>, before: &Before<'_>) {
    label_selector(spec.field("podSelector"), before.selectors);
    for (rules, peers) in DIRECTIONS {
        for rule in spec.field(rules).items() {
            rule.field("ports").items().for_each(port);
            rule.field(peers).items().for_each(|p| peer(p, before));
        }
    }
    let types = spec.field("policyTypes");
    if types.len() > 2 {
        types.invalid(types.shown(), "may not specify more than two policyTypes");
        return;
    }
    for kind in types.items() {
        if !matches!(kind.str(), "Ingress" | "Egress") {
            kind.not_supported(&["Ingress", "Egress"]);
        }
    }
}

fn port(port: Cursor<'_>) {
    if let Some(protocol) = port.given("protocol")
        && !matches!(protocol.str(), "TCP" | "UDP" | "SCTP")
    {
        protocol.not_supported(&["TCP", "UDP", "SCTP"]);
    }
    let end = port.given("endPort");
    let Some(first) = port.given("port") else {
        if let Some(end) = end {
            end.invalid(end.int(), "may not be specified when `port` is not specified");
        }
        return;
    };
    if let Some(Value::String(name)) = first.value() {
        if let Some(end) = end {
            end.invalid(end.int(), "may not be specified when `port` is non-numeric");
        }
        first.invalid_text(names::port_name(name));
        return;
    }
    port_numbers::number(first);
    if let Some(end) = end {
        if end.int() < first.int() {
            end.invalid(first.int(), "must be greater than or equal to `port`");
        }
        port_numbers::number(end);
    }
}

fn peer(peer: Cursor<'_>, before: &Before<'_>) {
    let (pods, namespaces, block) = (
        peer.given("podSelector"),
        peer.given("namespaceSelector"),
        peer.given("ipBlock"),
    );
    for selector in [pods, namespaces].into_iter().flatten() {
        label_selector(selector, before.selectors);
    }
    if let Some(block) = block {
        ip_block(block, &before.cidrs);
    }
    let selectors = pods.is_some() || namespaces.is_some();
    match (selectors, block.is_some()) {
        (false, false) => peer.required("must specify a peer"),
        (true, true) => peer.forbidden("may not specify both ipBlock and another peer"),
        _ => {}
    }
}

fn ip_block(block: Cursor<'_>, old: &[&str]) {
    let cidr = block.field("cidr");
    if cidr.is_empty() {
        cidr.required("");
        return;
    }
    legacy_cidr(cidr, cidr.str(), old);
    let Some((network, length)) = names::parse_cidr(cidr.str()) else {
        return;
    };
    for except in block.field("except").items() {
        legacy_cidr(except, except.str(), old);
        let Some((inner, inner_length)) = names::parse_cidr(except.str()) else {
            continue;
        };
        let within = inner.is_ipv6() == network.is_ipv6()
            && names::parse_cidr(&format!("{inner}/{length}")).is_some_and(|(outer, _)| outer == network);
        if !within || length >= inner_length {
            except.invalid(except.str(), "must be a strict subset of `cidr`");
        }
    }
}
