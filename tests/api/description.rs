//! `docs/openapi.json`: what it says of operations and forms, and whether it says it of
//! every route there is.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::LazyLock;

use serde_json::{Map, Value, json};

use super::support::gateway::Answer;

pub(crate) static DESCRIPTION: LazyLock<Value> =
    LazyLock::new(|| serde_json::from_str(include_str!("../../docs/openapi.json")).unwrap());

/// One described operation.
pub(crate) struct Operation {
    pub(crate) method: &'static str,
    pub(crate) path: &'static str,
    pub(crate) is_for_owner: bool,
    said: &'static Value,
}

fn object(value: &Value) -> &Map<String, Value> {
    value.as_object().unwrap()
}

/// Every described operation.
pub(crate) fn operations() -> Vec<Operation> {
    let paths = object(&DESCRIPTION["paths"]).iter();
    let operations = paths.flat_map(|(path, methods)| {
        object(methods).iter().map(move |(method, said)| Operation {
            method,
            path,
            is_for_owner: said["x-door"] == "control",
            said,
        })
    });
    operations.collect()
}

/// The operation of that name.
pub(crate) fn operation(id: &str) -> Operation {
    operations().into_iter().find(|one| one.said["operationId"] == id).unwrap()
}

/// What keeps `value` from having the described form; nothing if it has it.
pub(crate) fn faults(schema: &Value, value: &Value) -> Vec<String> {
    let mut whole = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "components": DESCRIPTION["components"],
    });
    object(schema).iter().for_each(|(key, rule)| whole[key] = rule.clone());
    let validator =
        jsonschema::options().should_validate_formats(true).build(&whole).expect("a schema");
    let faults = validator.iter_errors(value);
    faults.map(|fault| format!("{}: {fault}", fault.instance_path())).collect()
}

impl Operation {
    pub(crate) fn id(&self) -> &'static str {
        self.said["operationId"].as_str().unwrap()
    }

    /// The form of the data of an event of a stream.
    pub(crate) fn event(&self, name: &str) -> Option<&'static Value> {
        self.said["x-events"].get(name)
    }

    /// The described answer of a status.
    fn response(&self, status: u16) -> Option<&'static Value> {
        let response = self.said["responses"].get(status.to_string())?;
        match response.get("$ref") {
            Some(place) => DESCRIPTION.pointer(place.as_str().unwrap().strip_prefix('#').unwrap()),
            None => Some(response),
        }
    }

    /// Asserts that an answer is one of those that are described.
    pub(crate) fn describes(&self, answer: &Answer) {
        let what = format!("{} {}: {answer:?}", self.method, self.path);
        let response = self.response(answer.status);
        let response = response.unwrap_or_else(|| panic!("no such status is described: {what}"));
        for header in response.get("headers").map(object).into_iter().flat_map(Map::keys) {
            assert!(answer.header(header).is_some(), "{header} is missing: {what}");
        }
        let Some(content) = response.get("content") else { return };
        let written = answer.header("content-type").unwrap_or_default();
        let kind = written.split(';').next().unwrap();
        let form = content.get(kind).unwrap_or_else(|| panic!("no such content type: {what}"));
        let body = match kind {
            "application/json" => answer.json(),
            _ => Value::String(answer.body.clone()),
        };
        assert_eq!(faults(&form["schema"], &body), Vec::<String>::new(), "{what}");
    }
}

/// Every route of the program, by its text: `(method, path)`. Files of the page have
/// a list of their own, and one description.
fn routes() -> BTreeSet<(String, String)> {
    let mut found = BTreeSet::from([("get".to_owned(), "/page/{file}".to_owned())]);
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut folders = ["src/http", "src/shell"].map(|folder| root.join(folder)).to_vec();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.to_string_lossy().ends_with(".rs")
                && !path.to_string_lossy().ends_with("_tests.rs")
            {
                let text: String =
                    std::fs::read_to_string(&path).unwrap().split_whitespace().collect();
                for route in text.split(".route(").skip(1) {
                    let Some((path, rest)) =
                        route.strip_prefix('"').and_then(|route| route.split_once("\","))
                    else {
                        assert!(route.starts_with("asset.path,get("), "{route:.60}");
                        continue;
                    };
                    let method = rest.split_once('(').unwrap().0;
                    found.insert((method.to_owned(), path.to_owned()));
                }
            }
        }
    }
    found.insert(("get".to_owned(), "/".to_owned()));
    found
}

#[test]
fn every_route_is_described_and_every_description_has_a_route() {
    let routes = routes();
    let described: BTreeSet<_> = operations()
        .iter()
        .map(|operation| (operation.method.to_owned(), operation.path.to_owned()))
        .collect();
    assert_eq!(described, routes);
}

#[test]
fn forms_are_whole_and_strict() {
    for (name, form) in object(&DESCRIPTION["components"]["schemas"]) {
        assert_eq!(form["additionalProperties"], false, "{name}");
        assert!(form["description"].is_string(), "{name}");
        for (key, property) in object(&form["properties"]) {
            let says = property.get("description").or(property.get("$ref"));
            assert!(says.is_some_and(|text| text != ""), "{name}.{key} says nothing");
        }
    }
    let form = json!({ "$ref": "#/components/schemas/Lagged" });
    assert_eq!(faults(&form, &json!({ "missed": 1 })).len(), 0);
    for wrong in [json!({}), json!({ "missed": -1 }), json!({ "missed": 1, "new": 1 })] {
        assert_eq!(faults(&form, &wrong).len(), 1, "{wrong}");
    }
}

#[test]
fn references_lead_somewhere() {
    fn check(value: &Value) {
        match value {
            Value::Object(fields) => {
                if let Some(Value::String(place)) = fields.get("$ref") {
                    let place = place.strip_prefix('#').unwrap();
                    assert!(DESCRIPTION.pointer(place).is_some(), "{place}");
                }
                fields.values().for_each(check);
            }
            Value::Array(items) => items.iter().for_each(check),
            _ => {}
        }
    }
    check(&DESCRIPTION);
}
