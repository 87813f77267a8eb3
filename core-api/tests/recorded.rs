//! Strategies against recorded creates, without a server: each recorded POST of a kind with code is decoded, defaulted,
//! prepared and validated, and what is found is compared with the recorded causes.
//!
//! Runs when `../shared/replay` is there. `RECORDED=services,nodes` confines it to some resources, `RECORDED_VERBOSE=1`
//! prints every difference.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // what a helper of a test cannot do fails the test

mod support;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use triptych_core_api::access::Access;
use triptych_core_api::{kinds, schema};
use triptych_object::field::ErrorList;
use triptych_object::{UserInfo, Value, json, meta};
use triptych_registry::object_meta::{self, Naming};
use triptych_registry::strategy::Context;

fn stories() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/replay/stories");
    folder.is_dir().then_some(folder)
}

struct Target {
    group: String,
    version: String,
    resource: String,
    namespace: String,
}

fn target(path: &str) -> Option<Target> {
    let path = path.split('?').next()?;
    let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
    let (group, version, rest) = match parts.as_slice() {
        ["api", version, rest @ ..] => ("", *version, rest),
        ["apis", group, version, rest @ ..] => (*group, *version, rest),
        _ => return None,
    };
    let (namespace, resource) = match rest {
        ["namespaces", namespace, resource] => (*namespace, *resource),
        [resource] => ("", *resource),
        _ => return None,
    };
    Some(Target {
        group: group.into(),
        version: version.into(),
        resource: resource.into(),
        namespace: namespace.into(),
    })
}

/// Gates that are off by default and that a recorded body touches.
fn gate(name: &str) -> bool {
    !matches!(name, "CoordinatedLeaderElection" | "CrossNamespaceVolumeDataSource")
}

fn causes(errors: &ErrorList) -> Vec<(String, String)> {
    errors.iter().map(|e| (e.field.clone(), e.body())).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn recorded_creates_find_the_same_errors() {
    let Some(stories) = stories() else { return };
    let only: Option<Vec<String>> = std::env::var("RECORDED")
        .ok()
        .map(|r| r.split(',').map(str::to_owned).collect());
    let verbose = std::env::var("RECORDED_VERBOSE").is_ok();
    let world = support::World::open().await;
    let table = schema::load().unwrap();
    let all = kinds::all(&Access::default(), &world.context, &Arc::default());
    let mut counts: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    let mut files: Vec<PathBuf> = Vec::new();
    for folder in std::fs::read_dir(&stories).unwrap() {
        files.extend(
            std::fs::read_dir(folder.unwrap().path())
                .unwrap()
                .map(|f| f.unwrap().path()),
        );
    }
    files.sort();
    for file in files {
        if file.to_string_lossy().contains("/admission/") {
            continue; // plugins are not asked here
        }
        let story = json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
        for step in story.array_at(&["steps"]) {
            let status = step.at(&["expect", "status"]).and_then(Value::as_i64);
            if step.str_at(&["do"]) != "POST" || !matches!(status, Some(201 | 422)) {
                continue;
            }
            let Some(target) = target(step.str_at(&["path"])) else {
                continue;
            };
            if only.as_ref().is_some_and(|o| !o.contains(&target.resource)) {
                continue;
            }
            let Some(resource) = table.resource(&target.group, &target.version, &target.resource) else {
                continue;
            };
            let Some(body) = step.get("body").filter(|b| b.get("kind").is_some()) else {
                continue;
            };
            // times and the story's own names are filled in as the replayer does
            let text = json::to_string(body).replace("${ns}", "ns-1").replace("${id}", "id1");
            let mut object = json::from_slice(text.as_bytes()).unwrap();
            let Some(ty) = schema::kind_type(&resource.api_version(), &resource.kind) else {
                continue;
            };
            if object.str_at(&["kind"]) != &*resource.kind {
                continue;
            }
            object.set_at(&["apiVersion"], resource.api_version().into());
            let strategy = all.find(&target.group, &target.version, &target.resource, "");
            if triptych_schema::decode::normalise(&table.schema, ty, &mut object).is_err() {
                continue;
            }
            triptych_schema::default::apply(&table.schema, ty, &mut object, &gate);
            strategy.default(&mut object);
            let cx = Context {
                now: jiff::Timestamp::now(),
                user: Arc::new(UserInfo::new("admin", ["system:masters"])),
                namespace: if target.namespace.is_empty() {
                    String::new()
                } else {
                    "ns-1".into()
                },
                version: target.version.clone(),
                subresource: String::new(),
                dry_run: step.str_at(&["path"]).contains("dryRun=All"),
            };
            let prefix = meta::text(&object, "generateName").to_owned();
            if !prefix.is_empty() && meta::name(&object).is_empty() {
                meta::set_text(&mut object, "name", format!("{prefix}bcdfg"));
            }
            if !cx.namespace.is_empty() {
                meta::set_text(&mut object, "namespace", "ns-1");
            }
            meta::set_text(&mut object, "uid", "uid-1");
            let begun = strategy.begin(&cx, &mut object, None).await;
            let begun = match begun {
                Ok(granted) => {
                    if let Some(granted) = granted {
                        granted.release().await;
                    }
                    None
                }
                Err(status) => Some(status),
            };
            for path in &resource.clear_on_create {
                let parts: Vec<&str> = path.split('.').collect();
                object.remove_at(&parts);
            }
            strategy.prepare_create(&cx, &mut object);
            let mut errors = ErrorList::new();
            let refused = begun.as_ref().and_then(|status| status.details.as_ref());
            let naming = Naming::Kind(resource.name_rule, resource.name_limit);
            if strategy.meta_checks_on_create() {
                object_meta::validate(&object, resource.namespaced, naming, &mut errors);
            }
            if strategy.standard_finalizers() {
                object_meta::validate_standard_finalizers(&object, &mut errors);
            }
            strategy.validate_create(&cx, &object, &mut errors);
            if errors.is_empty() {
                object_meta::validate(&object, resource.namespaced, Naming::PathSegment, &mut errors);
            }
            let found = match refused {
                Some(details) => details
                    .causes
                    .iter()
                    .map(|c| (c.field.clone(), c.message.clone()))
                    .collect(),
                None => causes(&errors),
            };
            let wanted: Vec<(String, String)> = step
                .at(&["expect", "body"])
                .map(|b| b.array_at(&["details", "causes"]))
                .unwrap_or(&[])
                .iter()
                .map(|c| (c.str_at(&["field"]).to_owned(), c.str_at(&["message"]).to_owned()))
                .collect();
            let name = |text: &str| {
                text.replace("ns-1", "NS")
                    .replace("uid-1", "<uid>")
                    .replace("id1", "ID")
            };
            let found: Vec<(String, String)> = found.iter().map(|(f, m)| (name(f), name(m))).collect();
            let count = counts.entry(target.resource.clone()).or_default();
            count.0 += 1;
            let mut sorted = (found.clone(), wanted.clone());
            sorted.0.sort();
            sorted.1.sort();
            if sorted.0 != sorted.1 {
                count.1 += 1;
                if verbose {
                    let story = file.strip_prefix(&stories).unwrap().display();
                    println!("{story} {}", json::to_string(body));
                    println!("  wanted {wanted:?}\n  found  {found:?}");
                }
            }
        }
    }
    for (resource, (steps, different)) in &counts {
        println!("{resource}: {different} of {steps} differ");
    }
}
