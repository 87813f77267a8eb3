//! Managed fields seen through the `scale` subresource: who owns `replicas` of the object owns `.spec.replicas` of its
//! Scale, and the other way round.

use std::borrow::Cow;
use std::collections::HashMap;

use triptych_object::Value;

use super::element::PathElement;
use super::entries::{Entry, Managed};
use super::set::FieldSet;

const SCALE_VERSION: &str = "autoscaling/v1";
const SCALE_REPLICAS: &[&str] = &["spec", "replicas"];

/// How the versions of a resource name the field that `scale` writes.
pub struct ScaleFields<'s> {
    /// `apiVersion` and the member names that lead to the field; none for a version without `scale`.
    pub paths: &'s [(&'s str, Option<&'s [&'s str]>)],
    /// The version of the object at hand.
    pub api_version: &'s str,
}

impl ScaleFields<'_> {
    fn path(&self, api_version: &str) -> Option<Option<Vec<PathElement<'_>>>> {
        let (_, path) = self.paths.iter().find(|(version, _)| *version == api_version)?;
        Some(path.map(|names| names.iter().map(|name| PathElement::field(name)).collect()))
    }

    /// The `managedFields` of the Scale, from those of the object.
    pub fn to_scale(&self, parent: &[Value]) -> Result<Option<Value>, String> {
        let mut out = Managed::default();
        for entry in Managed::decode(parent)?.entries {
            let Some(Some(path)) = self.path(&entry.api_version) else {
                continue;
            };
            if entry.set.has(&path) {
                let set = FieldSet::of_fields(&[SCALE_REPLICAS]);
                out.entries.push(Entry {
                    set,
                    api_version: Cow::Borrowed(SCALE_VERSION),
                    ..entry
                });
            }
        }
        Ok(out.encode())
    }

    /// The `managedFields` of the object, from its own before the write and those of the Scale after it.
    pub fn to_parent(&self, parent: &[Value], scale: &[Value]) -> Result<Option<Value>, String> {
        let parent = Managed::decode(parent)?;
        let mut scale: HashMap<_, _> = Managed::decode(scale)?
            .entries
            .into_iter()
            .map(|entry| (entry.manager.clone(), entry))
            .collect();
        let mut out = Managed::default();
        for entry in &parent.entries {
            let Some(path) = self.path(&entry.api_version) else {
                continue;
            };
            match path.filter(|path| entry.set.has(path)) {
                None => out.entries.push(entry.clone()),
                Some(path) => {
                    if scale.remove(&entry.manager).is_some() {
                        out.entries.push(entry.clone());
                        continue;
                    }
                    // The field was taken over.
                    let mut stolen = FieldSet::new();
                    stolen.insert(&path);
                    let set = entry.set.clone().difference(&stolen);
                    if !set.is_empty() {
                        out.entries.push(Entry { set, ..entry.clone() });
                    }
                }
            }
        }
        let Some(Some(path)) = self.path(self.api_version) else {
            return Ok(out.encode());
        };
        for entry in scale.into_values() {
            let replicas: Vec<_> = SCALE_REPLICAS.iter().map(|name| PathElement::field(name)).collect();
            if !entry.set.has(&replicas) {
                continue;
            }
            let mut set = FieldSet::new();
            set.insert(&path);
            // Kubernetes looks the time up among the object's entries before the write.
            let time = parent.get(&entry.manager).and_then(|known| known.time.clone());
            out.entries.push(Entry {
                set,
                api_version: Cow::Borrowed(self.api_version),
                time,
                manager: entry.manager,
            });
        }
        Ok(out.encode())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use triptych_object::json;

    const FIELDS: ScaleFields<'static> = ScaleFields {
        paths: &[("apps/v1", Some(&["spec", "replicas"])), ("old/v1", None)],
        api_version: "apps/v1",
    };

    fn entry(manager: &str, operation: &str, version: &str, subresource: &str, fields: &str) -> String {
        let subresource = match subresource {
            "" => String::new(),
            sub => format!(r#","subresource":"{sub}""#),
        };
        format!(
            r#"{{"manager":"{manager}","operation":"{operation}","apiVersion":"{version}","time":"2026-01-01T00:00:00Z","fieldsType":"FieldsV1","fieldsV1":{fields}{subresource}}}"#
        )
    }

    fn list(entries: &[String]) -> Vec<Value> {
        let text = format!("[{}]", entries.join(","));
        json::from_slice(text.as_bytes()).unwrap().as_array().unwrap().to_vec()
    }

    fn text(list: Option<Value>) -> String {
        json::to_string(&list.unwrap_or_default())
    }

    #[test]
    fn owners_of_replicas_own_the_replicas_of_the_scale() {
        let parent = list(&[
            entry(
                "one",
                "Apply",
                "apps/v1",
                "",
                r#"{"f:spec":{"f:paused":{},"f:replicas":{}}}"#,
            ),
            entry("two", "Update", "apps/v1", "", r#"{"f:spec":{"f:paused":{}}}"#),
            entry("gone", "Update", "apps/v0", "", r#"{"f:spec":{"f:replicas":{}}}"#),
        ]);
        let want = entry("one", "Apply", "autoscaling/v1", "", r#"{"f:spec":{"f:replicas":{}}}"#);
        assert_eq!(text(FIELDS.to_scale(&parent).unwrap()), format!("[{want}]"));
    }

    #[test]
    fn who_takes_the_scales_replicas_takes_those_of_the_object() {
        let parent = list(&[
            entry(
                "one",
                "Apply",
                "apps/v1",
                "",
                r#"{"f:spec":{"f:paused":{},"f:replicas":{}}}"#,
            ),
            entry("old", "Update", "old/v1", "", r#"{"f:spec":{"f:x":{}}}"#),
        ]);
        let scale = list(&[entry(
            "hpa",
            "Update",
            "autoscaling/v1",
            "scale",
            r#"{"f:spec":{"f:replicas":{}}}"#,
        )]);
        let hpa = entry("hpa", "Update", "apps/v1", "scale", r#"{"f:spec":{"f:replicas":{}}}"#);
        let want = [
            entry("one", "Apply", "apps/v1", "", r#"{"f:spec":{"f:paused":{}}}"#),
            hpa.replace(r#""time":"2026-01-01T00:00:00Z","#, ""),
            entry("old", "Update", "old/v1", "", r#"{"f:spec":{"f:x":{}}}"#),
        ];
        assert_eq!(
            text(FIELDS.to_parent(&parent, &scale).unwrap()),
            format!("[{}]", want.join(","))
        );
        let kept = list(&[entry(
            "one",
            "Apply",
            "autoscaling/v1",
            "",
            r#"{"f:spec":{"f:replicas":{}}}"#,
        )]);
        let unchanged = FIELDS.to_parent(&parent, &kept).unwrap();
        assert_eq!(unchanged.unwrap().as_array().unwrap().to_vec(), parent);
    }
}
