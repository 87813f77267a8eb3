//! Descriptions are found again as they were put in, and a damaged blob is told.

use std::io::Write;

use super::*;

#[test]
fn types_and_fields_are_described() {
    let d = load().unwrap();
    assert!(d.of_type("io.k8s.api.core.v1.PodOS").starts_with("PodOS defines"));
    assert!(
        d.field("io.k8s.api.core.v1.PodSpec", "containers")
            .starts_with("List of containers")
    );
    assert!(
        !d.field("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta", "labels")
            .is_empty()
    );
    assert!(
        !d.of_type("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition")
            .is_empty()
    );
    assert!(
        !d.of_type("io.k8s.kube-aggregator.pkg.apis.apiregistration.v1.APIService")
            .is_empty()
    );
    assert!(!d.field("io.k8s.api.core.v1.PodList", "kind").is_empty());
    assert_eq!(d.of_type("io.example.Nothing"), "");
    assert_eq!(d.field("io.k8s.api.core.v1.PodSpec", "nothing"), "");
}

#[test]
fn the_blob_is_small() {
    assert!(BLOB.len() < 300_000, "{}", BLOB.len());
}

#[test]
fn a_damaged_blob_is_an_error() {
    let mut encoder = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(&[9, 0, 0, 0, b'x']).unwrap();
    let blob = encoder.finish().unwrap();
    assert!(matches!(
        Descriptions::unpack(&blob),
        Err(DescriptionsError::Damaged(4))
    ));
    assert!(matches!(
        Descriptions::unpack(b"\xff"),
        Err(DescriptionsError::Unpack(_))
    ));
}

/// A recorded document, or none when the fact tables are not beside the repository.
fn document(path: &std::path::Path) -> serde_json::Value {
    let mut json = Vec::new();
    flate2::read::GzDecoder::new(std::fs::File::open(path).unwrap())
        .read_to_end(&mut json)
        .unwrap();
    serde_json::from_slice(&json).unwrap()
}

/// A schema's description without the explanation of enum values, which `k8s-openapi` does not have.
fn described(schema: &serde_json::Value) -> &str {
    let text = schema["description"].as_str().unwrap_or_default();
    text.split("Possible enum values:")
        .next()
        .unwrap_or_default()
        .trim_end()
}

#[test]
fn descriptions_agree_with_those_that_kube_apiserver_publishes() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/facts/openapi");
    if !folder.is_dir() {
        eprintln!("skipped: {} is not there", folder.display());
        return;
    }
    let (d, mut same, mut missing, mut other) = (load().unwrap(), 0, Vec::new(), Vec::new());
    let mut compare = |what: String, ours: &str, theirs: &str| match (ours, theirs) {
        (ours, theirs) if ours == theirs => same += 1,
        ("", _) => missing.push(what),
        (ours, theirs) => other.push(format!("{what}\n  {ours}\n  {theirs}")),
    };
    for entry in std::fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy();
        if !name.starts_with("v3__") || !name.ends_with(".gz") {
            continue;
        }
        let document = document(&path);
        let schemas = document["components"]["schemas"].as_object().into_iter().flatten();
        for (name, schema) in schemas.filter(|(name, _)| !name.ends_with("List")) {
            compare(name.clone(), d.of_type(name), described(schema));
            for (field, schema) in schema["properties"].as_object().into_iter().flatten() {
                compare(format!("{name}.{field}"), d.field(name, field), described(schema));
            }
        }
    }
    for list in [&mut missing, &mut other] {
        list.sort();
        list.dedup();
    }
    println!(
        "{same} same, {} missing {missing:#?}, {} other {}",
        missing.len(),
        other.len(),
        other.join("\n")
    );
    assert!(same > 6_000 && missing.len() + other.len() < 10);
}
