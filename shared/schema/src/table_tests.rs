//! Compiled tables are read back whole; damaged ones are refused.

use super::*;
use triptych_schema_compiler::{Source, compile, read};

fn table_of(text: &str) -> Table {
    let source = Source {
        path: "test".into(),
        text: text.into(),
    };
    Table::load(compile(&[source]).unwrap().leak()).unwrap()
}

fn root() -> std::path::PathBuf {
    std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn bytes_of_everything() -> &'static [u8] {
    let directories = [
        "shared/schema/text",
        "core-api/schema",
        "extensions-api/schema",
        "aggregator/schema",
    ];
    let sources = read(&directories.map(|d| root().join(d))).unwrap();
    compile(&sources).unwrap_or_else(|problems| panic!("{problems}")).leak()
}

const TEXT: &str = r#"
package io.k8s.api.test.v1
group test/v1

resource widgets Widget namespaced
  names    widget w
  verbs    get list
  key      /widgets
  columns  Name "In Use":boolean* Id:integer
  name     subdomain 52
  /status  Widget get update keep(spec) reset(spec)
  /run     Widget create action(Widget)

Widget kind since(1.9) union(mode; a=A)
  _      -  inline Meta
  _      4  inline Common
  items  2  [Part]?!  map(name key) patch(merge name)
  count  3  int32     = 3 gate(Some)
  label  5  {string}  atomic = {"a": [1, -2, 1.5, null, true]}
  mode   6  Mode+

Meta
  kind  1  string

Common
  level  1  int64

Part
  name  1  string!
  key   2  string

Mode = A B
"#;

#[test]
fn what_a_text_says_is_what_the_table_holds() {
    let table = table_of(TEXT);
    let widget = table.schema.find("io.k8s.api.test.v1.Widget").unwrap();
    let fields = &widget.as_struct().unwrap().fields;
    let names: Vec<_> = fields.iter().map(|f| (&*f.name, f.tag)).collect();
    assert_eq!(
        names,
        [
            ("kind", 0),
            ("level", 0),
            ("items", 2),
            ("count", 3),
            ("label", 5),
            ("mode", 6)
        ]
    );
    let message = widget.message.as_ref().unwrap();
    assert_eq!(
        (
            message.embedded[0].tag,
            message.embedded[0].start,
            message.embedded[0].end
        ),
        (4, 1, 2)
    );
    assert_eq!(
        message.kinds[0],
        Kind {
            group: "test".into(),
            version: "v1".into(),
            kind: "Widget".into()
        }
    );
    assert_eq!(message.unions[0].members, [("a".into(), "A".into())]);

    let items = &fields[2];
    assert!(items.pointer && items.required && items.omit == Omit::Never);
    let list = table.schema.get(items.ty).as_list().unwrap();
    assert_eq!(list.kind.keys().unwrap(), ["name", "key"]);
    assert_eq!(table.schema.go_name(items.ty), "[]v1.Part");
    assert_eq!(
        items.patch(),
        &Patch {
            strategy: PatchStrategy::Merge,
            key: Some("name".into())
        }
    );

    let count = &fields[3];
    assert_eq!(
        (count.default(), &count.details().gates[..]),
        (Some(&Value::Int(3)), &["Some".into()][..])
    );
    assert!(matches!(
        table.schema.get(fields[4].ty).as_map().unwrap().topology,
        Topology::Atomic
    ));
    let values = fields[4].default().unwrap().get("a").unwrap().as_array().unwrap();
    assert_eq!(
        values,
        [
            Value::Int(1),
            Value::Int(-2),
            Value::Float(1.5),
            Value::Null,
            Value::Bool(true)
        ]
    );
    assert!(table.schema.get(fields[5].ty).constants.as_ref().unwrap().closed);
}

#[test]
fn a_resource_is_read_back() {
    let table = table_of(TEXT);
    let r = table.resource("test", "v1", "widgets").unwrap();
    assert!(r.namespaced && r.verbs.contains("list") && !r.verbs.contains("watch"));
    assert_eq!(
        (r.api_version().as_str(), &*r.key, r.name_limit),
        ("test/v1", "/widgets", Some(52))
    );
    let columns: Vec<_> = r
        .columns
        .iter()
        .map(|c| (&*c.name, &*c.kind, &*c.format, c.priority))
        .collect();
    let expected = [
        ("Name", "string", "name", 0),
        ("In Use", "boolean", "", 1),
        ("Id", "integer", "", 0),
    ];
    assert_eq!(columns, expected);
    assert_eq!(r.subresource("status").unwrap().keep, ["spec"]);
    assert!(matches!(&r.subresource("run").unwrap().form, SubresourceForm::Action(k) if k.kind == "Widget"));
}

#[test]
fn mistakes_are_told_with_file_and_line() {
    let problems = |text: &str| {
        compile(&[Source {
            path: "x.schema".into(),
            text: text.into(),
        }])
        .unwrap_err()
        .to_string()
    };
    assert_eq!(
        problems("package p\nA\n  b 1 Missing\n"),
        "x.schema:3: there is no type p.Missing\n"
    );
    assert_eq!(
        problems("package p\nA\n  b 1 string\n  b 2 string\n"),
        "x.schema:2: two fields are called b\n"
    );
    assert_eq!(
        problems("package p\nA\n  b 1 string map(x)\n"),
        "x.schema:3: `map` with these arguments says nothing about this field\n"
    );
    assert_eq!(
        problems("package p\ngroup g/v1\nresource as A\n"),
        "x.schema:3: there is no kind A\n"
    );
}

#[test]
fn a_damaged_table_is_an_error_at_every_length_and_with_any_byte_changed() {
    let source = Source {
        path: "test".into(),
        text: TEXT.into(),
    };
    let bytes: &'static [u8] = compile(&[source]).unwrap().leak();
    assert_eq!(Table::load(b"nonsense").unwrap_err(), TableError::NoTable);
    assert_eq!(Table::load(b"TTBL\x63").unwrap_err(), TableError::Version(0x63));
    for length in 0..bytes.len() {
        assert!(Table::load(&bytes[..length]).is_err());
    }
    for at in 0..bytes.len() {
        let mut changed = bytes.to_vec();
        changed[at] ^= 0xff;
        let _ = Table::load(changed.leak());
    }
}

#[test]
fn all_texts_compile_together_into_a_small_table() {
    let bytes = bytes_of_everything();
    let start = std::time::Instant::now();
    let table = Table::load(bytes).unwrap();
    println!(
        "{} bytes, {} types, {} resources, {:?}",
        bytes.len(),
        table.schema.len(),
        table.resources.len(),
        start.elapsed()
    );
    assert!(bytes.len() < 200_000);
    let pod = table
        .schema
        .find("io.k8s.api.core.v1.PodSpec")
        .unwrap()
        .as_struct()
        .unwrap();
    assert_eq!(pod.field("containers").unwrap().tag, 2);
}
