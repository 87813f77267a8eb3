//! Managed fields seen through the `scale` subresource: who owns `replicas` of the object owns `.spec.replicas` of its
//! Scale, and the other way round.

use std::borrow::Cow;

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
                out.put(Entry {
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
        let mut scale = Managed::decode(scale)?;
        let mut out = Managed::default();
        for entry in &parent.entries {
            let Some(path) = self.path(&entry.api_version) else {
                continue;
            };
            match path.filter(|path| entry.set.has(path)) {
                None => out.put(entry.clone()),
                Some(path) => {
                    if scale.take(&entry.manager).is_some() {
                        out.put(entry.clone());
                        continue;
                    }
                    // The field was taken over.
                    let mut stolen = FieldSet::new();
                    stolen.insert(&path);
                    let set = entry.set.clone().difference(&stolen);
                    if !set.is_empty() {
                        out.put(Entry { set, ..entry.clone() });
                    }
                }
            }
        }
        let Some(Some(path)) = self.path(self.api_version) else {
            return Ok(out.encode());
        };
        for entry in scale.entries {
            let replicas: Vec<_> = SCALE_REPLICAS.iter().map(|name| PathElement::field(name)).collect();
            if !entry.set.has(&replicas) {
                continue;
            }
            let mut set = FieldSet::new();
            set.insert(&path);
            // Kubernetes looks the time up among the object's entries before the write.
            let time = parent.get(&entry.manager).and_then(|known| known.time.clone());
            out.put(Entry {
                set,
                api_version: Cow::Borrowed(self.api_version),
                time,
                manager: entry.manager,
            });
        }
        Ok(out.encode())
    }
}
