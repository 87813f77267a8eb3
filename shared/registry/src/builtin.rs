//! The model of built-in kinds: documents are decoded, normalised and defaulted by the schema table of the tier.
//!
//! Contract: error texts are those of kube-apiserver's typed decoding, scheme names included. What a kind defaults
//! depending on other fields is its strategy's; converting between versions of one kind is a [`Conversion`].

use std::collections::HashMap;
use std::sync::Arc;

use triptych_object::{Empties, Gvk, Value, json, meta, yaml};
use triptych_schema::decode::{self, Reader, Source, StrictError};
use triptych_schema::types::{Schema, TypeId};
use triptych_schema::{default, gated, protobuf};

use crate::model::{DecodeError, Decoded, Model, Stored};
use crate::negotiate::{self, Format, Offer};
use crate::strategy::Strategy;

/// All kinds a tier's schema table knows, under the name that error texts give it.
pub struct Scheme {
    /// The types.
    pub schema: Arc<Schema>,
    /// Whether a feature gate is on.
    pub gate: fn(&str) -> bool,
    /// How Go calls this scheme (`pkg/api/legacyscheme/scheme.go:30`).
    pub name: &'static str,
    kinds: HashMap<Gvk, TypeId>,
}

/// Versions that Kubernetes still decodes but serves no more: documents of them are refused for their version, not as
/// unknown.
const UNSERVED: &[(&str, &str)] = &[
    ("admissionregistration.k8s.io", "v1beta1"),
    ("apps", "v1beta1"),
    ("apps", "v1beta2"),
    ("authentication.k8s.io", "v1alpha1"),
    ("authentication.k8s.io", "v1beta1"),
    ("authorization.k8s.io", "v1beta1"),
    ("batch", "v1beta1"),
    ("certificates.k8s.io", "v1beta1"),
    ("coordination.k8s.io", "v1beta1"),
    ("discovery.k8s.io", "v1beta1"),
    ("events.k8s.io", "v1beta1"),
    ("extensions", "v1beta1"),
    ("flowcontrol.apiserver.k8s.io", "v1beta1"),
    ("flowcontrol.apiserver.k8s.io", "v1beta2"),
    ("flowcontrol.apiserver.k8s.io", "v1beta3"),
    ("networking.k8s.io", "v1beta1"),
    ("node.k8s.io", "v1alpha1"),
    ("node.k8s.io", "v1beta1"),
    ("policy", "v1beta1"),
    ("rbac.authorization.k8s.io", "v1alpha1"),
    ("rbac.authorization.k8s.io", "v1beta1"),
    ("scheduling.k8s.io", "v1alpha1"),
    ("scheduling.k8s.io", "v1beta1"),
    ("storage.k8s.io", "v1alpha1"),
    ("storage.k8s.io", "v1beta1"),
];

impl Scheme {
    /// The kinds of a schema.
    pub fn new(schema: Arc<Schema>, name: &'static str, gate: fn(&str) -> bool) -> Scheme {
        let mut kinds = HashMap::new();
        for (_, id) in schema.all_named() {
            for kind in schema.get(id).message.iter().flat_map(|m| &m.kinds) {
                kinds.insert(Gvk::new(&*kind.group, &*kind.version, &*kind.kind), id);
            }
        }
        Scheme {
            schema,
            gate,
            name,
            kinds,
        }
    }

    /// The type of a kind.
    pub fn find(&self, gvk: &Gvk) -> Option<TypeId> {
        self.kinds.get(gvk).copied()
    }

    /// `PartialObjectMetadata`, or a list of it, as protobuf; `None` for a Table, which has no message.
    pub fn encode_partial(&self, document: &Value) -> Option<Vec<u8>> {
        let kind = document.str_at(&["kind"]);
        let ty = self
            .schema
            .named(&format!("io.k8s.apimachinery.pkg.apis.meta.v1.{kind}"))?;
        if kind == "Table" {
            None
        } else {
            protobuf::encode_object(&self.schema, ty, document).ok()
        }
    }

    /// A list document whose items are of type `ty`.
    fn encode_list(&self, ty: TypeId, document: &Value) -> Result<Vec<u8>, protobuf::Error> {
        let list_meta = self
            .schema
            .named("io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta")
            .ok_or_else(|| protobuf::Error("ListMeta is in no schema text".into()))?;
        let items = document.array_at(&["items"]);
        let items = items
            .iter()
            .map(|item| protobuf::encode(&self.schema, ty, item))
            .collect::<Result<Vec<_>, _>>()?;
        let metadata = document.get("metadata").unwrap_or(&Value::Null);
        let (api_version, kind) = (document.str_at(&["apiVersion"]), document.str_at(&["kind"]));
        protobuf::encode_list(&self.schema, list_meta, api_version, kind, metadata, &items)
    }

    /// Go's text of a kind that is not in the scheme.
    pub fn not_registered(&self, gvk: &Gvk) -> String {
        format!(
            "no kind \"{}\" is registered for version \"{}\" in scheme \"{}\"",
            gvk.kind,
            gvk.group_version(),
            self.name
        )
    }

    /// Why a document of `have` is no `want`; `None` if only its version is wrong, which is told later.
    fn mismatch(&self, have: &Gvk, want: &Gvk) -> Option<String> {
        let group_of_same = have.group == want.group
            || matches!(
                (have.group.as_str(), want.group.as_str()),
                ("" | "events.k8s.io", "" | "events.k8s.io")
            )
            || have.kind == "Scale" && matches!(have.group.as_str(), "apps" | "autoscaling" | "extensions")
            || have.group == "extensions" && matches!(want.group.as_str(), "apps" | "networking.k8s.io");
        let unserved = UNSERVED.contains(&(have.group.as_str(), have.version.as_str()));
        let known = self.find(have).is_some() || unserved && have.kind == want.kind && group_of_same;
        if !known {
            return Some(self.not_registered(have));
        }
        if have.kind == want.kind && group_of_same {
            return None;
        }
        Some(format!(
            "converting ({}.{}) to ({}.{}): unknown conversion",
            have.version,
            have.kind,
            internal_package(&want.group),
            want.kind
        ))
    }
}

/// This release of Kubernetes: minor version of 1.
const MINOR: u32 = 36;

/// The warning of a kind that is deprecated in this release.
fn deprecation(scheme: &Scheme, ty: TypeId, gvk: &Gvk) -> Option<String> {
    let message = scheme.schema.get(ty).message.as_ref()?;
    let life = message.lifecycle.as_ref()?;
    let deprecated = life.deprecated.as_deref()?;
    let minor: u32 = deprecated.strip_prefix("1.")?.parse().ok()?;
    if minor > MINOR {
        return None;
    }
    let mut text = format!("{} {} is deprecated in v{deprecated}+", gvk.group_version(), gvk.kind);
    if let Some(removed) = life.removed.as_deref() {
        text.push_str(&format!(", unavailable in v{removed}+"));
    }
    if let Some(other) = &life.replacement {
        let other = Gvk::new(&*other.group, &*other.version, &*other.kind);
        text.push_str(&format!("; use {} {}", other.group_version(), other.kind));
    }
    Some(text)
}

/// Go's package of a group's internal types.
pub(crate) fn internal_package(group: &str) -> &str {
    match group {
        "" => "core",
        group => group.split('.').next().unwrap_or(group),
    }
}

/// Between a version and the stored one.
pub trait Conversion: Send + Sync + 'static {
    /// From the stored version.
    #[allow(clippy::wrong_self_convention)] // a conversion of documents
    fn from_stored(&self, document: Value) -> Value;
    /// To the stored version.
    fn to_stored(&self, document: Value) -> Value;
}

/// A built-in kind in one version.
pub struct BuiltIn {
    /// The kinds it is one of.
    pub scheme: Arc<Scheme>,
    /// Group, version, kind.
    pub gvk: Gvk,
    /// Its type.
    pub ty: TypeId,
    /// Conditional defaults.
    pub strategy: Arc<dyn Strategy>,
    /// If the stored version is another.
    pub conversion: Option<Arc<dyn Conversion>>,
    /// What every answer about a deprecated kind warns of.
    pub deprecation: Option<String>,
    /// All versions of the kind, by `apiVersion`; the stored one has no conversion.
    pub versions: Vec<(String, Option<Arc<dyn Conversion>>)>,
    /// Other `apiVersion`s of the same shape that may be posted.
    pub also_accepts: &'static [&'static str],
    /// What can be answered.
    pub offer: Offer,
    /// New objects are stored as protobuf (`--storage-media-type`).
    pub store_protobuf: bool,
    /// The document in which nothing is set: what Go always writes.
    empty: Value,
}

impl BuiltIn {
    /// A kind that is stored in its own version.
    pub fn new(scheme: &Arc<Scheme>, gvk: Gvk, strategy: Arc<dyn Strategy>) -> Option<BuiltIn> {
        let ty = scheme.find(&gvk)?;
        BuiltIn::of_type(scheme, gvk, ty, strategy)
    }

    /// The options of a connection: a kind that is in no document of its own.
    pub fn options(scheme: &Arc<Scheme>, gvk: Gvk) -> Option<BuiltIn> {
        let package = internal_package(&gvk.group);
        let name = format!("io.k8s.api.{package}.{}.{}", gvk.version, gvk.kind);
        let ty = scheme.schema.named(&name)?;
        BuiltIn::of_type(scheme, gvk, ty, Arc::new(crate::strategy::Plain))
    }

    fn of_type(scheme: &Arc<Scheme>, gvk: Gvk, ty: TypeId, strategy: Arc<dyn Strategy>) -> Option<BuiltIn> {
        let mut empty = Value::object();
        decode::normalise(&scheme.schema, ty, &mut empty).ok()?;
        Some(BuiltIn {
            deprecation: deprecation(scheme, ty, &gvk),
            scheme: scheme.clone(),
            gvk,
            ty,
            strategy,
            conversion: None,
            versions: Vec::new(),
            also_accepts: &[],
            offer: negotiate::BUILT_IN,
            store_protobuf: false,
            empty,
        })
    }

    fn reject(&self, gvk: Option<Gvk>, message: impl Into<String>) -> DecodeError {
        DecodeError {
            gvk,
            message: message.into(),
        }
    }

    /// Refuses a body of which something was left out that should have been kept: what still reaches as deep as that.
    fn whole(&self, decoded: Decoded, cut: bool) -> Result<Decoded, DecodeError> {
        if cut && json::depth(&decoded.document) >= json::MAX_DEPTH {
            return Err(self.reject(Some(decoded.gvk), "json: exceeded max depth"));
        }
        Ok(decoded)
    }

    fn finish(
        &self,
        mut document: Value,
        source: Source<'_>,
        mut strict: Vec<StrictError>,
    ) -> Result<Decoded, DecodeError> {
        let gvk = completed(type_meta(&document).map_err(|m| self.reject(None, m))?, &self.gvk);
        if let Some(message) = self.scheme.mismatch(&gvk, &self.gvk) {
            return Err(self.reject(Some(gvk), message));
        }
        // a document of another version is read as that, and refused for its version afterwards
        let ty = self.scheme.find(&gvk).unwrap_or(self.ty);
        let found = decode::decode(&self.scheme.schema, ty, &mut document, source, "")
            .map_err(|e| self.reject(Some(gvk.clone()), e.0))?;
        strict.extend(found);
        put_kind(&mut document, &self.gvk);
        let alike = gvk.kind == self.gvk.kind && self.also_accepts.contains(&&*gvk.group_version().to_string());
        Ok(Decoded {
            document,
            gvk: if alike { self.gvk.clone() } else { gvk },
            strict: strict.iter().map(ToString::to_string).collect(),
        })
    }
}

/// `kind` and `apiVersion` at the front.
pub fn put_kind(document: &mut Value, gvk: &Gvk) {
    let Some(map) = document.as_object_mut() else { return };
    map.insert("kind", gvk.kind.as_str().into());
    map.insert("apiVersion", gvk.group_version().to_string().into());
}

/// What a document says it is; Go's text if it says it in the wrong types.
pub fn type_meta(document: &Value) -> Result<Gvk, String> {
    const STRUCT: &str =
        r#"struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }"#;
    let wrap = |e: String| format!("couldn't get version/kind; json parse error: {e}");
    let map = match document {
        Value::Null => return Ok(Gvk::default()),
        Value::Object(map) => map,
        other => {
            let kind = other.type_name();
            return Err(wrap(format!(
                "json: cannot unmarshal {kind} into Go value of type {STRUCT}"
            )));
        }
    };
    for (key, value) in map.iter() {
        if matches!(key, "apiVersion" | "kind") && !matches!(value, Value::String(_) | Value::Null) {
            let kind = value.type_name();
            return Err(wrap(format!(
                "json: cannot unmarshal {kind} into Go struct field .{key} of type string"
            )));
        }
    }
    let api_version = document.str_at(&["apiVersion"]);
    api_version
        .parse::<triptych_object::GroupVersion>()
        .map(|gv| gv.kind(document.str_at(&["kind"])))
}

/// What a document leaves unsaid is the endpoint's.
pub fn completed(have: Gvk, want: &Gvk) -> Gvk {
    let kind = if have.kind.is_empty() {
        want.kind.clone()
    } else {
        have.kind
    };
    if have.version.is_empty() {
        return Gvk {
            group: want.group.clone(),
            version: want.version.clone(),
            kind,
        };
    }
    Gvk { kind, ..have }
}

impl Model for BuiltIn {
    fn gvk(&self) -> &Gvk {
        &self.gvk
    }

    fn schema(&self) -> (&Schema, TypeId) {
        (&self.scheme.schema, self.ty)
    }

    fn schema_of(&self, api_version: &str) -> Option<(&Schema, TypeId)> {
        let version: triptych_object::GroupVersion = api_version.parse().ok()?;
        // kube-apiserver manages fields by the types of what it installs together: the core group, or all others
        if version.group.is_empty() != self.gvk.group.is_empty() {
            return None;
        }
        let ty = self.scheme.find(&version.kind(self.gvk.kind.as_str()))?;
        Some((&self.scheme.schema, ty))
    }

    fn deprecation(&self) -> Option<String> {
        self.deprecation.clone()
    }

    fn versions(&self) -> Vec<String> {
        let known: Vec<String> = self.versions.iter().map(|(version, _)| version.clone()).collect();
        match known.is_empty() {
            true => vec![self.gvk.group_version().to_string()],
            false => known,
        }
    }

    fn convert(&self, document: &Value, api_version: &str) -> Result<Value, String> {
        let from = document.str_at(&["apiVersion"]);
        if from == api_version {
            return Ok(document.clone());
        }
        let version = |wanted: &str| {
            let found = self.versions.iter().find(|(version, _)| version == wanted);
            found
                .map(|(_, conversion)| conversion)
                .ok_or_else(|| format!("no conversion from {from} to {api_version}"))
        };
        let (from, to) = (version(from)?, version(api_version)?);
        let stored = match from {
            Some(conversion) => conversion.to_stored(document.clone()),
            None => document.clone(),
        };
        Ok(match to {
            Some(conversion) => conversion.from_stored(stored),
            None => stored,
        })
    }

    fn offer(&self) -> Offer {
        self.offer
    }

    fn bare_items(&self) -> bool {
        true
    }

    fn merges_strategically(&self) -> bool {
        true
    }

    fn decode_body(&self, format: Format, body: &[u8]) -> Result<Decoded, DecodeError> {
        match format {
            Format::Json => {
                let parsed = json::parse_typed(body)
                    .map_err(|e| self.reject(None, format!("couldn't get version/kind; json parse error: {e}")))?;
                let source = Source {
                    duplicates: &parsed.duplicates,
                    numbers: &parsed.numbers,
                };
                let decoded = self.finish(parsed.value, source, Vec::new())?;
                self.whole(decoded, parsed.cut)
            }
            Format::Yaml => {
                let parsed = yaml::parse_typed(body).map_err(|e| self.reject(None, e.to_string()))?;
                let strict = parsed.strict.map(StrictError::Other).into_iter().collect();
                let decoded = self.finish(parsed.value, Source::default(), strict)?;
                self.whole(decoded, parsed.cut)
            }
            Format::Protobuf => self.decode_protobuf(body),
        }
    }

    fn cleared(&self, path: &[&str]) -> Option<Value> {
        self.empty.at(path).cloned()
    }

    fn decode(&self, document: &mut Value, reader: Reader<'_>) -> Result<Vec<String>, String> {
        let gvk = completed(type_meta(document)?, &self.gvk);
        if gvk != self.gvk {
            return Err(match self.scheme.mismatch(&gvk, &self.gvk) {
                Some(message) => message,
                None => self.scheme.not_registered(&gvk),
            });
        }
        let found = decode::decode_tree(&self.scheme.schema, self.ty, document, reader).map_err(|e| e.0)?;
        put_kind(document, &self.gvk);
        Ok(found.iter().map(ToString::to_string).collect())
    }

    fn decode_applied(&self, document: &mut Value) -> Result<(), String> {
        self.decode(document, Reader::Converter)
            .map(drop)
            .map_err(|text| format!("unable to convert unstructured object to {}: {text}", self.gvk))
    }

    fn default(&self, document: &mut Value) {
        default::apply(&self.scheme.schema, self.ty, document, &self.scheme.gate);
        self.strategy.default(document);
    }

    fn settle(&self, document: &mut Value) -> Empties {
        decode::settle(&self.scheme.schema, self.ty, document)
    }

    fn through_store(&self, document: &mut Value) {
        if let Err(e) = decode::normalise(&self.scheme.schema, self.ty, document) {
            tracing::error!(
                kind = &*self.gvk.kind,
                error = e.0,
                "a document was made that cannot be decoded"
            );
        }
    }

    fn finish(&self, new: &mut Value, old: Option<&Value>) {
        gated::drop_unused(&self.scheme.schema, self.ty, new, old, &self.scheme.gate);
        self.through_store(new);
    }

    fn internal_annotations(&self) -> &'static [&'static str] {
        self.strategy.internal_annotations()
    }

    fn stored(&self) -> Stored {
        if self.conversion.is_some() {
            Stored::Converted
        } else {
            Stored::AsIs
        }
    }

    fn from_stored(&self, document: Value) -> Value {
        match &self.conversion {
            Some(conversion) => conversion.from_stored(document),
            None => document,
        }
    }

    fn to_stored(&self, document: Value) -> Value {
        match &self.conversion {
            Some(conversion) => conversion.to_stored(document),
            None => document,
        }
    }

    fn encode_stored(&self, document: &Value) -> bytes::Bytes {
        if self.store_protobuf
            && let Some(ty) = self.scheme.find(&meta::gvk(document))
            && let Ok(bytes) = protobuf::encode_object(&self.scheme.schema, ty, document)
        {
            return bytes.into();
        }
        json::to_vec(document).into()
    }

    fn stores_another_form(&self) -> bool {
        self.store_protobuf
    }

    fn encode(&self, document: &Value, format: Format) -> Option<Vec<u8>> {
        match format {
            Format::Json => Some(json::to_vec(document)),
            Format::Yaml => Some(yaml::to_string(document).into_bytes()),
            Format::Protobuf => {
                let encoded = if document.str_at(&["kind"]) == self.list_kind() {
                    self.scheme.encode_list(self.ty, document)
                } else {
                    protobuf::encode_object(&self.scheme.schema, self.ty, document)
                };
                encoded
                    .inspect_err(|error| tracing::error!(kind = %self.gvk, %error, "cannot be protobuf"))
                    .ok()
            }
        }
    }
}

impl BuiltIn {
    fn decode_protobuf(&self, body: &[u8]) -> Result<Decoded, DecodeError> {
        let envelope = protobuf::open(body).map_err(|e| self.reject(None, e.to_string()))?;
        let have: triptych_object::GroupVersion =
            envelope.api_version.parse().map_err(|e: String| self.reject(None, e))?;
        let gvk = completed(have.kind(envelope.kind), &self.gvk);
        if let Some(message) = self.scheme.mismatch(&gvk, &self.gvk) {
            return Err(self.reject(Some(gvk), message));
        }
        let mut document = protobuf::decode(&self.scheme.schema, self.ty, envelope.raw)
            .map_err(|e| self.reject(Some(gvk.clone()), e.to_string()))?;
        put_kind(&mut document, &self.gvk);
        Ok(Decoded {
            document,
            gvk,
            strict: Vec::new(),
        })
    }
}

/// The scheme that decodes options and other documents of meta.k8s.io.
const META_SCHEME: &str = "k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme/register.go:27";

/// The body of a delete as a document of `DeleteOptions`.
pub fn delete_options(scheme: &Scheme, format: Format, body: &[u8]) -> Result<Value, String> {
    let want = Gvk::new("", "v1", "DeleteOptions");
    let ty = scheme
        .schema
        .named("io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions")
        .ok_or("DeleteOptions is in no schema text")?;
    let check = |gvk: Gvk| {
        let gvk = completed(gvk, &want);
        if gvk.kind == want.kind {
            return Ok(());
        }
        Err(format!(
            "no kind \"{}\" is registered for version \"{}\" in scheme \"{META_SCHEME}\"",
            gvk.kind,
            gvk.group_version()
        ))
    };
    let mut document = match format {
        Format::Json => {
            json::from_slice(body).map_err(|e| format!("couldn't get version/kind; json parse error: {e}"))?
        }
        Format::Yaml => yaml::from_slice(body).map_err(|e| e.to_string())?,
        Format::Protobuf => {
            let envelope = protobuf::open(body).map_err(|e| e.to_string())?;
            let have: triptych_object::GroupVersion = envelope.api_version.parse()?;
            check(have.kind(envelope.kind))?;
            return protobuf::decode(&scheme.schema, ty, envelope.raw).map_err(|e| e.to_string());
        }
    };
    check(type_meta(&document)?)?;
    decode::decode(&scheme.schema, ty, &mut document, Source::default(), "").map_err(|e| e.0)?;
    Ok(document)
}
