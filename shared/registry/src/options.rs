//! The options of a request, from its query or (deletes) its body, decoded and validated with Go's texts.
//!
//! Contract: an unknown parameter is ignored, as Go's conversion does; of a repeated one the first value counts
//! (`dryRun` keeps all). A malformed number or boolean is 400 with strconv's text; rules between options are 422.

use triptych_object::field::{Error, ErrorList, quote};
use triptych_object::request::params;
use triptych_object::selector::{FieldSelector, LabelSelector};
use triptych_object::{GroupKind, Status, StatusResult, Value};

/// A query's parameters.
pub struct Query(Vec<(String, String)>);

impl Query {
    /// Reads a raw query.
    pub fn parse(query: &str) -> Query {
        Query(params(query).take(1000).collect())
    }

    /// The first value of `name`.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(k, _)| k == name).map(|(_, v)| v.as_str())
    }

    /// All values of `name`.
    pub fn all(&self, name: &str) -> Vec<String> {
        self.0
            .iter()
            .filter(|(k, _)| k == name)
            .map(|(_, v)| v.clone())
            .collect()
    }

    fn text(&self, name: &str) -> String {
        self.get(name).unwrap_or("").to_owned()
    }

    /// A boolean as Go's query conversion reads it: everything but `false` and `0` is true.
    fn bool(&self, name: &str) -> bool {
        self.get(name).is_some_and(truth)
    }

    fn maybe_bool(&self, name: &str) -> Option<bool> {
        self.get(name).map(truth)
    }

    fn int(&self, name: &str) -> StatusResult<i64> {
        Ok(self.maybe_int(name)?.unwrap_or(0))
    }

    fn maybe_int(&self, name: &str) -> StatusResult<Option<i64>> {
        self.get(name)
            .map(|v| parse_int(v).map_err(Status::bad_request))
            .transpose()
    }
}

fn truth(value: &str) -> bool {
    !matches!(value.to_ascii_lowercase().as_str(), "false" | "0")
}

/// Go's `strconv.ParseInt(s, 10, 64)` with its error text.
pub fn parse_int(s: &str) -> Result<i64, String> {
    s.parse::<i64>().map_err(|e| number_error("ParseInt", s, e.kind()))
}

/// Go's `strconv.ParseUint(s, 10, 64)` with its error text.
pub fn parse_uint(s: &str) -> Result<u64, String> {
    if s.starts_with('+') {
        return Err(format!("strconv.ParseUint: parsing {}: invalid syntax", quote(s)));
    }
    s.parse::<u64>().map_err(|e| number_error("ParseUint", s, e.kind()))
}

fn number_error(function: &str, s: &str, kind: &std::num::IntErrorKind) -> String {
    use std::num::IntErrorKind::{NegOverflow, PosOverflow};
    let what = if matches!(kind, PosOverflow | NegOverflow) {
        "value out of range"
    } else {
        "invalid syntax"
    };
    format!("strconv.{function}: parsing {}: {what}", quote(s))
}

/// `resourceVersionMatch`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Match {
    /// Not given.
    Unset,
    /// `Exact`.
    Exact,
    /// `NotOlderThan`.
    NotOlderThan,
}

/// `ListOptions`, for list, watch and deletecollection.
#[derive(Clone, Debug)]
pub struct List {
    /// Labels to match.
    pub labels: LabelSelector,
    /// Fields to match, as sent (field labels are checked against the resource).
    pub fields: FieldSelector,
    /// Stream changes instead.
    pub watch: bool,
    /// Send bookmarks.
    pub bookmarks: bool,
    /// Empty, `0`, or a version.
    pub resource_version: String,
    /// How the version is meant.
    pub version_match: Match,
    /// Seconds after which a watch ends.
    pub timeout_seconds: Option<i64>,
    /// Page size; 0 is everything.
    pub limit: i64,
    /// Where to go on.
    pub continue_token: String,
    /// Begin a watch with what exists.
    pub send_initial_events: Option<bool>,
}

impl List {
    /// Decodes and validates; `force_watch` is a `/watch/` path.
    pub fn parse(query: &Query, force_watch: bool) -> StatusResult<List> {
        let labels = LabelSelector::parse(query.get("labelSelector").unwrap_or("")).map_err(Status::bad_request)?;
        let fields = FieldSelector::parse(query.get("fieldSelector").unwrap_or("")).map_err(Status::bad_request)?;
        let mut matching = query.text("resourceVersionMatch");
        let watch = query.bool("watch");
        let mut send_initial_events = query.maybe_bool("sendInitialEvents");
        let legacy = matches!(query.get("resourceVersion").unwrap_or(""), "" | "0");
        // a watch that names no version begins with what exists, as if it had asked for that
        if watch && legacy && send_initial_events.is_none() && matching.is_empty() {
            send_initial_events = Some(true);
            matching = "NotOlderThan".into();
        }
        let mut options = List {
            labels,
            fields,
            watch,
            bookmarks: query.bool("allowWatchBookmarks"),
            resource_version: query.text("resourceVersion"),
            version_match: match matching.as_str() {
                "Exact" => Match::Exact,
                "NotOlderThan" => Match::NotOlderThan,
                _ => Match::Unset,
            },
            timeout_seconds: query.maybe_int("timeoutSeconds")?,
            limit: query.int("limit")?,
            continue_token: query.text("continue"),
            send_initial_events,
        };
        let mut errors = ErrorList::new();
        if watch {
            options.check_watch(&matching, &mut errors)
        } else {
            options.check_list(&matching, &mut errors)
        }
        invalid("ListOptions", errors)?;
        options.watch |= force_watch;
        Ok(options)
    }

    fn check_list(&self, matching: &str, errors: &mut ErrorList) {
        const FIELD: &str = "resourceVersionMatch";
        if !matching.is_empty() {
            if self.resource_version.is_empty() {
                errors.push(Error::forbidden(
                    FIELD,
                    "resourceVersionMatch is forbidden unless resourceVersion is provided",
                ));
            }
            if !self.continue_token.is_empty() {
                errors.push(Error::forbidden(
                    FIELD,
                    "resourceVersionMatch is forbidden when continue is provided",
                ));
            }
            if self.version_match == Match::Unset {
                errors.push(Error::not_supported(FIELD, matching, &["Exact", "NotOlderThan", ""]));
            }
            if self.version_match == Match::Exact && self.resource_version == "0" {
                errors.push(Error::forbidden(
                    FIELD,
                    "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"",
                ));
            }
        }
        if self.send_initial_events.is_some() {
            errors.push(Error::forbidden(
                "sendInitialEvents",
                "sendInitialEvents is forbidden for list",
            ));
        }
    }

    fn check_watch(&self, matching: &str, errors: &mut ErrorList) {
        const FIELD: &str = "resourceVersionMatch";
        let not_older = self.version_match == Match::NotOlderThan;
        if self.send_initial_events.is_some() && !not_older {
            errors.push(Error::forbidden(
                FIELD,
                "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
            ));
        }
        if !matching.is_empty() {
            if self.send_initial_events.is_none() {
                errors.push(Error::forbidden(
                    FIELD,
                    "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
                ));
            }
            if !not_older {
                errors.push(Error::not_supported(FIELD, matching, &["NotOlderThan"]));
            }
            if !self.continue_token.is_empty() {
                errors.push(Error::forbidden(
                    FIELD,
                    "resourceVersionMatch is forbidden when continue is provided",
                ));
            }
        }
    }
}

fn invalid(kind: &str, errors: ErrorList) -> StatusResult<()> {
    if errors.is_empty() {
        Ok(())
    } else {
        Err(Status::invalid(&GroupKind::new("meta.k8s.io", kind), "", &errors))
    }
}

/// What becomes of unknown and duplicate fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldValidation {
    /// Dropped in silence.
    Ignore,
    /// Dropped with a warning each.
    Warn,
    /// The request is refused.
    Strict,
}

/// `CreateOptions`, `UpdateOptions` and `PatchOptions`.
#[derive(Clone, Debug)]
pub struct Write {
    /// Nothing is stored.
    pub dry_run: bool,
    /// Name of the manager, empty if the user agent names it.
    pub field_manager: String,
    /// What becomes of unknown and duplicate fields.
    pub field_validation: FieldValidation,
    /// Apply takes over what others own.
    pub force: Option<bool>,
    /// As `AdmissionRequest.options` carries them.
    pub document: Value,
}

/// Which options a write takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteKind {
    /// `CreateOptions`.
    Create,
    /// `UpdateOptions`.
    Update,
    /// `PatchOptions` of server-side apply.
    Apply,
    /// `PatchOptions` of the other patches.
    Patch,
}

impl WriteKind {
    fn document_kind(self) -> &'static str {
        match self {
            WriteKind::Create => "CreateOptions",
            WriteKind::Update => "UpdateOptions",
            WriteKind::Apply | WriteKind::Patch => "PatchOptions",
        }
    }
}

impl Write {
    /// Decodes and validates.
    pub fn parse(query: &Query, kind: WriteKind) -> StatusResult<Write> {
        let dry_run = query.all("dryRun");
        let field_manager = query.text("fieldManager");
        let validation = query.text("fieldValidation");
        let force = matches!(kind, WriteKind::Apply | WriteKind::Patch)
            .then(|| query.maybe_bool("force"))
            .flatten();
        let mut errors = ErrorList::new();
        match kind {
            WriteKind::Apply if field_manager.is_empty() => {
                errors.push(Error::required("fieldManager", "is required for apply patch"));
            }
            WriteKind::Patch if force.is_some() => {
                errors.push(Error::forbidden("force", "may not be specified for non-apply patch"));
            }
            _ => {}
        }
        check_field_manager(&field_manager, "fieldManager", &mut errors);
        check_dry_run(&dry_run, &mut errors);
        if !matches!(validation.as_str(), "" | "Ignore" | "Warn" | "Strict") {
            errors.push(Error::not_supported(
                "fieldValidation",
                validation.as_str(),
                &["", "Ignore", "Strict", "Warn"],
            ));
        }
        invalid(kind.document_kind(), errors)?;
        let mut document = Value::from([
            ("kind", kind.document_kind().into()),
            ("apiVersion", "meta.k8s.io/v1".into()),
        ]);
        if !dry_run.is_empty() {
            document.set_at(&["dryRun"], dry_run.clone().into());
        }
        if let Some(force) = force {
            document.set_at(&["force"], force.into());
        }
        for (name, value) in [("fieldManager", &field_manager), ("fieldValidation", &validation)] {
            if !value.is_empty() {
                document.set_at(&[name], value.as_str().into());
            }
        }
        Ok(Write {
            dry_run: !dry_run.is_empty(),
            field_manager,
            field_validation: match validation.as_str() {
                "Ignore" => FieldValidation::Ignore,
                "Strict" => FieldValidation::Strict,
                _ => FieldValidation::Warn,
            },
            force,
            document,
        })
    }
}

fn check_dry_run(values: &[String], errors: &mut ErrorList) {
    if values.iter().any(|v| v != "All") {
        errors.push(Error::not_supported("dryRun", values.to_vec(), &["All"]));
    }
}

/// `fieldManager` and a managedFields entry's `manager`: at most 128 bytes, all printable.
pub fn check_field_manager(manager: &str, field: &str, errors: &mut ErrorList) {
    if manager.len() > 128 {
        errors.push(Error::too_long(field, 128));
    }
    for (at, c) in manager.char_indices().filter(|(_, c)| !printable(*c)) {
        let shown = if c.is_control() {
            String::new()
        } else {
            format!(" '{c}'")
        };
        let detail = format!("invalid character U+{:04X}{shown} (at position {at})", u32::from(c));
        errors.push(Error::invalid(field, manager, detail));
    }
}

/// Go's `unicode.IsPrint`, near enough: no controls, no space but U+0020, no private use.
pub fn printable(c: char) -> bool {
    c == ' '
        || !(c.is_control()
            || c.is_whitespace()
            || matches!(u32::from(c), 0xad | 0x200b..=0x200f | 0x2028..=0x202e | 0x2060..=0x206f | 0xe000..=0xf8ff | 0xfeff))
}

/// What a client that names no manager is called: its user agent before the first `/`, printable, at most 128 bytes.
pub fn manager_of_agent(user_agent: &str) -> String {
    let mut name = String::new();
    for c in user_agent
        .split('/')
        .next()
        .unwrap_or("")
        .chars()
        .filter(|c| printable(*c))
    {
        if name.len() + c.len_utf8() > 128 {
            break;
        }
        name.push(c);
    }
    name
}

/// What becomes of the dependents of a deleted object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Propagation {
    /// They lose their owner reference.
    Orphan,
    /// The collector deletes them afterwards.
    Background,
    /// The object waits for them.
    Foreground,
}

/// `DeleteOptions`.
#[derive(Clone, Debug, Default)]
pub struct Delete {
    /// Nothing is deleted.
    pub dry_run: bool,
    /// Seconds; below zero means one.
    pub grace_period_seconds: Option<i64>,
    /// Precondition on the uid.
    pub uid: Option<String>,
    /// Precondition on the resource version.
    pub resource_version: Option<String>,
    /// Deprecated form of `propagation`.
    pub orphan_dependents: Option<bool>,
    /// What becomes of dependents.
    pub propagation: Option<Propagation>,
    /// As `AdmissionRequest.options` carries them.
    pub document: Value,
}

impl Delete {
    /// From a query without body.
    pub fn from_query(query: &Query) -> StatusResult<Delete> {
        let mut document = Value::object();
        let dry_run = query.all("dryRun");
        if !dry_run.is_empty() {
            document.set_at(&["dryRun"], dry_run.into());
        }
        if let Some(seconds) = query.maybe_int("gracePeriodSeconds")? {
            document.set_at(&["gracePeriodSeconds"], Value::Int(seconds));
        }
        if let Some(orphan) = query.maybe_bool("orphanDependents") {
            document.set_at(&["orphanDependents"], orphan.into());
        }
        if let Some(policy) = query.get("propagationPolicy") {
            document.set_at(&["propagationPolicy"], policy.into());
        }
        Self::from_document(document)
    }

    /// From a decoded body; the codec has checked its types.
    pub fn from_document(mut document: Value) -> StatusResult<Delete> {
        let policy = document.get("propagationPolicy").and_then(Value::as_str);
        let orphan_dependents = document.get("orphanDependents").and_then(Value::as_bool);
        let dry_run: Vec<String> = document
            .array_at(&["dryRun"])
            .iter()
            .filter_map(|v| v.as_str().map(str::to_owned))
            .collect();
        let mut errors = ErrorList::new();
        if let (Some(policy), Some(_)) = (policy, orphan_dependents) {
            let detail = "orphanDependents and deletionPropagation cannot be both set";
            errors.push(Error::invalid("propagationPolicy", policy, detail));
        }
        let propagation = match policy {
            None => None,
            Some("Orphan") => Some(Propagation::Orphan),
            Some("Background") => Some(Propagation::Background),
            Some("Foreground") => Some(Propagation::Foreground),
            Some(other) => {
                let supported = ["Foreground", "Background", "Orphan", "nil"];
                errors.push(Error::not_supported("propagationPolicy", other, &supported));
                None
            }
        };
        check_dry_run(&dry_run, &mut errors);
        invalid("DeleteOptions", errors)?;
        let text = |name| {
            document
                .at(&["preconditions", name])
                .and_then(Value::as_str)
                .map(str::to_owned)
        };
        let options = Delete {
            dry_run: !dry_run.is_empty(),
            grace_period_seconds: document.get("gracePeriodSeconds").and_then(Value::as_i64),
            uid: text("uid"),
            resource_version: text("resourceVersion"),
            orphan_dependents,
            propagation,
            document: Value::Null,
        };
        document.set_at(&["kind"], "DeleteOptions".into());
        document.set_at(&["apiVersion"], "meta.k8s.io/v1".into());
        Ok(Delete { document, ..options })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn malformed_numbers_have_gos_texts() {
        let e = List::parse(&Query::parse("limit=x"), false).unwrap_err();
        assert_eq!(
            (e.code, e.message.as_str()),
            (400, "strconv.ParseInt: parsing \"x\": invalid syntax")
        );
        assert_eq!(
            parse_uint("99999999999999999999").unwrap_err(),
            "strconv.ParseUint: parsing \"99999999999999999999\": value out of range"
        );
    }

    #[test]
    fn rules_between_options_are_causes() {
        let e = List::parse(&Query::parse("resourceVersionMatch=Exact"), false).unwrap_err();
        assert_eq!(e.code, 422);
        assert!(
            e.message
                .contains("resourceVersionMatch is forbidden unless resourceVersion is provided")
        );
        let e = Write::parse(&Query::parse(""), WriteKind::Apply).unwrap_err();
        assert!(
            e.message
                .ends_with("fieldManager: Required value: is required for apply patch"),
            "{e}"
        );
        let e = Delete::from_query(&Query::parse("propagationPolicy=x")).unwrap_err();
        assert!(
            e.message
                .contains("supported values: \"Foreground\", \"Background\", \"Orphan\", \"nil\"")
        );
    }

    #[test]
    fn a_manager_is_named_after_the_agent() {
        assert_eq!(manager_of_agent("kubectl/v1.36 (linux)"), "kubectl");
        assert_eq!(manager_of_agent(""), "");
    }
}
