//! The OpenAPI document of a module: its routes, and the schemas of their responses.

use std::borrow::Cow;

use schemars::generate::{SchemaGenerator, SchemaSettings};
use schemars::{JsonSchema, Schema, json_schema};
use serde_json::{Map, Value, json};

/// The content type of JSON.
const JSON: &str = "application/json";

/// Describes the operation of a route, such as
/// `|operation| operation.summary("The chains").success::<Vec<String>>()`.
pub type Describe = for<'a> fn(Operation<'a>) -> Operation<'a>;

/// An OpenAPI document of version 3.1.
///
/// A module has it as a file, which [`crate::testing::check_openapi`] compares with the
/// routes and types, and which [`crate::openapi`] puts into the module.
#[derive(Debug)]
pub struct OpenApi {
    title: &'static str,
    version: &'static str,
    paths: Map<String, Value>,
    generator: SchemaGenerator,
}

/// The description of one method of one path.
#[derive(Debug)]
pub struct Operation<'a> {
    fields: Map<String, Value>,
    parameters: Vec<Value>,
    responses: Map<String, Value>,
    generator: &'a mut SchemaGenerator,
}

impl OpenApi {
    /// Creates a document without paths, from the title and the version of the API.
    #[must_use]
    pub fn new(title: &'static str, version: &'static str) -> Self {
        let settings = SchemaSettings::draft2020_12().for_serialize().with(|settings| {
            settings.definitions_path = "/components/schemas".into();
            settings.meta_schema = None;
        });
        Self { title, version, paths: Map::new(), generator: settings.into_generator() }
    }

    /// Adds an operation: a method, such as `get`, of a path like that of a
    /// [`crate::Route`].
    #[must_use]
    pub fn operation(mut self, method: &str, path: &str, describe: Describe) -> Self {
        let operation = Operation {
            fields: Map::new(),
            parameters: names(path).map(path_parameter).collect(),
            responses: Map::new(),
            generator: &mut self.generator,
        };
        let operation = describe(operation).into_json();
        let item = self.paths.entry(template(path)).or_insert_with(|| json!({}));
        if let Some(item) = item.as_object_mut() {
            item.insert(method.to_ascii_lowercase(), operation);
        }
        self
    }

    /// Returns the document as JSON.
    #[must_use]
    pub fn into_json(mut self) -> Value {
        let mut document = json!({
            "openapi": "3.1.0",
            "info": {"title": self.title, "version": self.version},
            "paths": self.paths,
        });
        let schemas = self.generator.take_definitions(true);
        if !schemas.is_empty() {
            document["components"] = json!({"schemas": schemas});
        }
        document
    }
}

impl Operation<'_> {
    /// Sets the summary: the purpose of the operation, in a line.
    #[must_use]
    pub fn summary(mut self, summary: &str) -> Self {
        self.fields.insert("summary".to_owned(), summary.into());
        self
    }

    /// Adds a parameter of the query, which may be absent.
    #[must_use]
    pub fn query<T: JsonSchema>(mut self, name: &str, description: &str) -> Self {
        let schema = self.generator.subschema_for::<T>();
        self.parameters.push(json!({
            "name": name, "in": "query", "description": description, "schema": schema,
        }));
        self
    }

    /// Sets the parameters of the query together, as the fields of a type, if some of them
    /// exclude or require others. The name is for documentation.
    #[must_use]
    pub fn query_fields<T: JsonSchema>(mut self, name: &str, description: &str) -> Self {
        let schema = self.generator.subschema_for::<T>();
        self.parameters.push(json!({
            "name": name, "in": "query", "description": description, "required": true,
            "style": "form", "explode": true, "schema": schema,
        }));
        self
    }

    /// Adds the response of [`crate::Response::success`]: status 200, and a result in an
    /// envelope.
    #[must_use]
    pub fn success<T: JsonSchema>(self) -> Self {
        let result = self.generator.subschema_for::<T>();
        self.response(200, "The result", Some((JSON, envelope("success", &result).into())))
    }

    /// Adds a response of [`crate::Response::json`], without an envelope.
    #[must_use]
    pub fn json<T: JsonSchema>(self, status: u16, description: &str) -> Self {
        let body = self.generator.subschema_for::<T>();
        self.response(status, description, Some((JSON, body.into())))
    }

    /// Adds a response of [`crate::Response::error`].
    #[must_use]
    pub fn error(self, status: u16, description: &str) -> Self {
        let body = self.generator.subschema_for::<ErrorSchema>().into();
        self.response(status, description, Some((JSON, body)))
    }

    /// Adds the response of [`crate::Response::not_ready`].
    #[must_use]
    pub fn not_ready(self) -> Self {
        self.error(503, "The relayer's data is not known yet")
    }

    /// Adds a response of another content type, such as `text/html; charset=utf-8`.
    #[must_use]
    pub fn content(self, status: u16, content_type: &str, description: &str) -> Self {
        self.response(status, description, Some((content_type, json!({"type": "string"}))))
    }

    /// Adds a response without a body.
    #[must_use]
    pub fn empty(self, status: u16, description: &str) -> Self {
        self.response(status, description, None)
    }

    /// Adds a response. Several bodies of one status and content type are alternatives.
    fn response(mut self, status: u16, description: &str, content: Option<(&str, Value)>) -> Self {
        let response = self
            .responses
            .entry(status.to_string())
            .or_insert_with(|| json!({"description": description}));
        if let Some((content_type, schema)) = content {
            let known = &mut response["content"][content_type]["schema"];
            *known = match known.take() {
                Value::Null => schema,
                Value::Object(mut known) if known.contains_key("anyOf") => {
                    if let Some(Value::Array(schemas)) = known.get_mut("anyOf") {
                        schemas.push(schema);
                    }
                    known.into()
                }
                known => json!({"anyOf": [known, schema]}),
            };
        }
        self
    }

    fn into_json(self) -> Value {
        let Self { mut fields, parameters, responses, .. } = self;
        if !parameters.is_empty() {
            fields.insert("parameters".to_owned(), parameters.into());
        }
        fields.insert("responses".to_owned(), responses.into());
        fields.into()
    }
}

/// The body of an error, in its envelope.
struct ErrorSchema;

impl JsonSchema for ErrorSchema {
    fn schema_name() -> Cow<'static, str> {
        "Error".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let result = json_schema!({
            "type": "object",
            "properties": {
                "name": {"type": "string", "description": "For programs"},
                "msg": {"type": "string", "description": "For people"},
            },
            "required": ["name", "msg"],
            "additionalProperties": false,
        });
        envelope("error", &result)
    }
}

/// Returns the path of a route as OpenAPI writes it: `/chain/{id}` for `/chain/:id`.
fn template(path: &str) -> String {
    let segment = |segment: &str| match segment.strip_prefix(':') {
        Some(name) => format!("{{{name}}}"),
        None => segment.to_owned(),
    };
    path.split('/').map(segment).collect::<Vec<_>>().join("/")
}

fn names(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter_map(|segment| segment.strip_prefix(':'))
}

fn path_parameter(name: &str) -> Value {
    let schema = json!({"type": "string", "minLength": 1});
    json!({"name": name, "in": "path", "required": true, "schema": schema})
}

fn envelope(status: &str, result: &Schema) -> Schema {
    json_schema!({
        "type": "object",
        "properties": {"status": {"const": status}, "result": result},
        "required": ["status", "result"],
        "additionalProperties": false,
    })
}

#[cfg(test)]
mod tests {
    use super::OpenApi;
    use crate::{Response, Route, Router};
    use schemars::JsonSchema;
    use serde::Serialize;
    use serde_json::json;

    #[derive(Serialize, JsonSchema)]
    struct Item<'a> {
        name: &'a str,
        size: Option<u32>,
    }

    const ROUTES: Router<(), 2> = Router::new([
        Route::get("/items/:id/parts", |(), _, _| Ok(Response::success(())))
            .describe(|operation| operation.summary("The parts").success::<Vec<Item<'_>>>()),
        Route::get("/", |(), _, _| Ok(Response::text(""))),
    ]);

    #[test]
    fn a_router_is_described_with_its_paths_and_types() {
        let document = ROUTES.openapi(OpenApi::new("Items", "1.2.3")).into_json();
        let expected = json!({
            "openapi": "3.1.0",
            "info": {"title": "Items", "version": "1.2.3"},
            "paths": {
                "/items/{id}/parts": {"get": {
                    "summary": "The parts",
                    "parameters": [{
                        "name": "id",
                        "in": "path",
                        "required": true,
                        "schema": {"type": "string", "minLength": 1},
                    }],
                    "responses": {"200": {
                        "description": "The result",
                        "content": {"application/json": {"schema": {
                            "type": "object",
                            "properties": {
                                "status": {"const": "success"},
                                "result": {
                                    "type": "array",
                                    "items": {"$ref": "#/components/schemas/Item"},
                                },
                            },
                            "required": ["status", "result"],
                            "additionalProperties": false,
                        }}},
                    }},
                }},
                "/": {"get": {"responses": {}}},
            },
            "components": {"schemas": {"Item": {
                "type": "object",
                "properties": {
                    "name": {"type": "string"},
                    "size": {"type": ["integer", "null"], "format": "uint32", "minimum": 0},
                },
                "required": ["name", "size"],
            }}},
        });
        assert_eq!(document, expected);
    }

    #[test]
    fn bodies_of_one_status_are_alternatives() {
        let document = OpenApi::new("a", "1").operation("GET", "/", |operation| {
            operation
                .success::<u64>()
                .error(200, "Unknown")
                .error(200, "Unknown, too")
                .content(200, "text/plain", "Text")
                .query::<bool>("all", "Whether all are returned")
                .empty(204, "Nothing")
        });
        let document = document.into_json();
        let operation = &document["paths"]["/"]["get"];
        let contents = &operation["responses"]["200"]["content"];
        let alternatives = contents["application/json"]["schema"]["anyOf"].as_array().unwrap();
        let error = json!({"$ref": "#/components/schemas/Error"});
        assert_eq!(alternatives[0]["properties"]["status"]["const"], "success");
        assert_eq!(alternatives[1..], [error.clone(), error]);
        assert_eq!(contents["text/plain"]["schema"], json!({"type": "string"}));
        assert_eq!(operation["parameters"][0]["schema"], json!({"type": "boolean"}));
        assert_eq!(operation["responses"]["204"], json!({"description": "Nothing"}));
    }
}
