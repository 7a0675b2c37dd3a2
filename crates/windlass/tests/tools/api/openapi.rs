//! Services with a description: what the model sees, and which calls are valid.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};
use windlass::clock::SystemClock;
use windlass::port::tool::Tool;
use windlass::tool::api::{Api, ApiCall};

use super::{mirror, said, service, tool};
use crate::outbound::{inside, way};

const WIDGETS: &str = r##"
openapi: 3.0.3
info: {title: Widgets, version: "1"}
servers: [{url: "https://evil.example"}]
paths:
  /widgets:
    get:
      summary: Lists widgets
      parameters:
        - {name: status, in: query, schema: {type: string, enum: [new, old]}}
        - {name: limit, in: query, required: true, schema: {type: integer, minimum: 1, maximum: 100}}
        - {name: tags, in: query, schema: {type: array, items: {type: integer}}}
        - {name: X-Trace, in: header, required: true, schema: {type: string}}
      responses: {200: {description: OK}}
    post:
      summary: Makes a widget
      requestBody: {$ref: "#/components/requestBodies/Widget"}
      responses: {"201": {description: Made}}
  /widgets/{id}:
    parameters:
      - {name: id, in: path, required: true, schema: {type: integer}}
    get: {operationId: getWidget}
    delete: {description: "Removes a widget\nfor ever"}
  /widgets/newest:
    get: {summary: The newest}
  /files/{name}.{kind}:
    put:
      requestBody: {content: {image/*: {}}}
components:
  requestBodies:
    Widget:
      required: true
      content: {application/json: {schema: {$ref: "#/components/schemas/Widget"}}}
  schemas:
    Widget:
      type: object
      required: [name]
      additionalProperties: false
      properties:
        name: {type: string, maxLength: 10}
        price: {type: number, minimum: 0, exclusiveMinimum: true}
        note: {type: string, nullable: true}
        parts: {type: array, items: {$ref: "#/components/schemas/Widget"}}
"##;

#[tokio::test]
async fn calls_have_to_fit_the_description() {
    let far = mirror().await;
    let tool = tool(vec![service(json!({"name": "w", "base_url": far.url("/v1"), "openapi": WIDGETS}))]);
    let call = |method: &str, path: &str| json!({"service": "w", "method": method, "path": path});
    let list = |query: &str| {
        let mut call = call("GET", &format!("/widgets{query}"));
        call["headers"] = json!({"x-trace": "1"});
        call
    };
    let make = |body: Value| {
        let mut call = call("POST", "/widgets");
        call["body"] = body;
        call
    };
    let mut put = call("PUT", "/files/a.png");
    put["body"] = json!("bytes");
    put["bodyEncoding"] = json!("raw");
    let mut picture = put.clone();
    picture["headers"] = json!({"content-type": "image/png"});
    let rows = [
        (list("?limit=5"), "ok: "),
        (list("?limit=5&status=new&tags=1&tags=2"), "ok: "),
        (list("?limit=5&tags=1,2"), "ok: "),
        (call("GET", "/widgets?limit=5"), "error: `GET /widgets` requires the header `x-trace`"),
        (list(""), "invalid call of `GET /widgets`: \"limit\" is a required property"),
        (list("?limit=500"), "500 is greater than the maximum of 100"),
        (list("?limit=many"), "\"many\" is not of type \"integer\""),
        (list("?limit=5&status=lost"), "\"lost\" is not one of"),
        (list("?limit=5&tags=1,x"), "\"x\" is not of type \"integer\""),
        (list("?limit=5&page=2"), "has no query parameter `page`; available: status, limit, tags"),
        (call("GET", "/widgets/42"), "ok: "),
        (call("GET", "/widgets/newest"), "ok: "),
        (call("GET", "/widgets/x"), "\"x\" is not of type \"integer\""),
        (call("DELETE", "/widgets/42"), "ok: "),
        (
            call("PATCH", "/widgets/42"),
            "error: unknown operation `PATCH /widgets/42`; methods of this path: GET, DELETE",
        ),
        (call("GET", "/widget"), "error: unknown operation `GET /widget`; the closest: `GET /widgets`"),
        (call("GET", "/completely/else/where"), "error: unknown operation `GET /completely/else/where`"),
        (make(json!({"name": "a"})), "ok: "),
        (make(json!({"name": "a", "note": null, "price": 1, "parts": [{"name": "b"}]})), "ok: "),
        (make(json!({"name": "a", "price": 0})), "0 is less than or equal to the minimum of 0"),
        (make(json!({"name": "far too long"})), "is longer than 10 characters"),
        (make(json!({"name": "a", "colour": 1})), "'colour' was unexpected"),
        (make(json!({"name": "a", "parts": [{}]})), "\"name\" is a required property"),
        (make(json!("text")), "is not of type \"object\""),
        (call("POST", "/widgets"), "error: `POST /widgets` requires a body"),
        (call("DELETE", "/widgets/1?x=1"), "available: none"),
        (put, "error: `PUT /files/{name}.{kind}` accepts image/*, not `text/plain`"),
        (picture, "ok: "),
    ];
    let fit = rows.iter().filter(|(_, expected)| *expected == "ok: ").count();
    for (arguments, expected) in &rows {
        let said = said(&tool, arguments.clone()).await;
        assert!(said.contains(expected), "{arguments}: {said}");
    }
    assert_eq!(
        far.asked().len(),
        fit,
        "what does not fit is not sent, and nothing goes where the description says"
    );
}

#[test]
fn the_description_lists_the_operations() {
    let tool = tool(vec![service(json!({
        "name": "w", "base_url": "https://a.example", "openapi": WIDGETS, "allowed_methods": ["GET", "DELETE"],
    }))]);
    let told = &tool.spec().description;
    let (_, operations) = told.split_once("Operations:\n").unwrap();
    assert_eq!(
        operations,
        "- GET /widgets (query: status?, limit, tags?) — Lists widgets\n\
         - GET /widgets/{id} — getWidget\n\
         - DELETE /widgets/{id} — Removes a widget\n\
         - GET /widgets/newest — The newest"
    );
    // However many operations there are, the list for the model is bounded.
    let paths: Value = (0..1500)
        .map(|n| (format!("/path/number/{n}"), json!({"get": {"summary": "x".repeat(500)}})))
        .collect();
    let large = json!({"openapi": "3.1.0", "paths": paths}).to_string();
    let tool =
        super::tool(vec![service(json!({"name": "w", "base_url": "https://a.example", "openapi": large}))]);
    let told = &tool.spec().description;
    assert!(told.len() < 5000, "{}", told.len());
    assert!(told.contains("more; the error for an unknown operation lists the closest ones)"));
}

#[test]
fn descriptions_that_cannot_be_followed_are_refused() {
    let deep = format!("{}1{}", "[".repeat(5000), "]".repeat(5000));
    let bomb = format!(
        "openapi: 3.0.0\na: &a [x,x,x,x,x,x,x,x,x,x]\n{}",
        ('b'..='k')
            .zip('a'..='j')
            .map(|(name, before)| {
                format!("{name}: &{name} [{}]\n", vec![format!("*{before}"); 10].join(","))
            })
            .collect::<String>()
    );
    let rows = [
        ("", "supported: 3.0 to 3.2"),
        ("swagger: '2.0'", "has version \"2.0\""),
        ("openapi: 4.0.0", "has version \"4.0.0\""),
        ("{\"openapi\": ", "cannot parse"),
        ("openapi: [", "cannot parse"),
        ("openapi: 3.1.0", "has no operations"),
        (
            "openapi: 3.1.0\npaths: {/a: {$ref: 'https://evil.example/x'}}",
            "refers to `https://evil.example/x`",
        ),
        ("openapi: 3.1.0\npaths: {/a: {$ref: 'file:///etc/passwd'}}", "refers to `file:///etc/passwd`"),
        ("openapi: 3.1.0\npaths: {/a: {$ref: '#/paths/~1a'}}", "has circular references"),
        ("openapi: 3.1.0\npaths: {/a: {$ref: '#/nowhere'}}", "refers to `#/nowhere`, which does not exist"),
        ("openapi: 3.1.0\npaths: {'/a{b': {get: {}}}", "has an unmatched brace"),
        (&deep, "cannot parse"),
        (&bomb, "cannot parse"),
    ];
    for (text, expected) in rows {
        let definition = service(json!({"name": "a", "base_url": "https://a.example", "openapi": text}));
        let outbound = way(inside(&[]), &[]);
        let made =
            ApiCall::new(Api::new(vec![definition], BTreeMap::new()), outbound, Arc::new(SystemClock::new()));
        let said = made.err().map_or("taken".to_owned(), |error| error.to_string());
        assert!(said.contains(expected), "{:.100}: {said}", text);
    }
}

/// Generator output without a plain `type`, and unsupported serializations of parameters.
const TOOLS: &str = r##"
openapi: 3.1.0
info: {title: Tools, version: "1"}
paths:
  /items/{id}:
    parameters:
      - {name: id, in: path, required: true, schema: {$ref: "#/components/schemas/Id"}}
    get:
      parameters:
        - {name: limit, in: query, schema: {anyOf: [{type: integer, maximum: 9}, {type: "null"}]}}
        - {name: full, in: query, schema: {allOf: [{$ref: "#/components/schemas/Flag"}]}}
        - {name: ids, in: query, schema: {anyOf: [{type: array, items: {$ref: "#/components/schemas/Id"}}, {type: "null"}]}}
        - {name: round, in: query, schema: {$ref: "#/components/schemas/Round"}}
        - {name: either, in: query, schema: {oneOf: [{type: integer}, {type: string, maxLength: 3}]}}
        - {name: session, in: cookie, required: true, schema: {type: string}}
  /deep:
    get:
      parameters:
        - {name: filter, in: query, required: true, style: deepObject, schema: {type: object, properties: {a: {type: integer}}}}
        - {name: pipes, in: query, style: pipeDelimited, explode: false, schema: {type: array, items: {type: integer}}}
        - {name: sorted, in: query, content: {application/json: {schema: {type: object}}}}
  /spread:
    get:
      parameters:
        - {name: all, in: query, schema: {type: object}}
components:
  schemas:
    Id: {type: integer, minimum: 1}
    Flag: {type: boolean}
    Round: {anyOf: [{$ref: "#/components/schemas/Round"}, {type: number}]}
"##;

#[tokio::test]
async fn parameters_are_read_as_whatever_their_schema_wants() {
    let far = mirror().await;
    let tool = tool(vec![service(json!({"name": "t", "base_url": far.url("/v1"), "openapi": TOOLS}))]);
    for (path, expected) in [
        ("/items/7?limit=5&full=true&ids=1,2&ids=3&either=12345", "ok: "),
        ("/items/7?either=abc", "ok: "),
        ("/items/7?limit=50", "invalid call of `GET /items/{id}`"),
        ("/items/7?limit=many", "invalid call of"),
        ("/items/7?full=maybe", "is not of type \"boolean\""),
        ("/items/7?ids=1,x", "invalid call of"),
        ("/items/7?either=abcd", "invalid call of"),
        ("/items/0", "0 is less than the minimum of 1"),
        ("/items/7?colour=1", "has no query parameter `colour`"),
        ("/deep?filter%5Ba%5D=1&filter%5Bb%5D%5Bc%5D=x&pipes=1%7C2&sorted=%7B%7D", "ok: "),
        ("/deep?filter=1", "ok: "),
        ("/deep?filters=1", "has no query parameter `filters`"),
        ("/deep?pipes=1", "`GET /deep` requires the query parameter `filter`"),
        ("/spread?x=1&y=2", "ok: "),
    ] {
        let said = said(&tool, json!({"service": "t", "method": "GET", "path": path})).await;
        assert!(said.contains(expected), "{path}: {said}");
    }
}

#[tokio::test]
async fn a_body_whose_schema_cannot_be_checked_is_sent() {
    let far = mirror().await;
    let mut deep = json!({"type": "string"});
    for _ in 0..38 {
        deep = json!({"allOf": [deep]});
    }
    let large: Vec<String> = (0..30_000).map(|n| format!("value number {n}")).collect();
    let body = |schema: Value| json!({"post": {"requestBody": {"content": {"application/json": {"schema": schema}}}}});
    let mut odd = body(json!({"type": "string", "pattern": "("}));
    odd["post"]["parameters"] = json!([{"name": "n", "in": "query", "schema": {"type": "integer"}}]);
    let document = json!({"openapi": "3.1.0", "paths": {
        "/deep": body(deep),
        "/large": body(json!({"enum": large})),
        "/lost": body(json!({"$ref": "#/components/schemas/Nowhere"})),
        "/odd": odd,
        "/fine": body(json!({"type": "integer"})),
    }});
    let definition = json!({"name": "t", "base_url": far.url(""), "openapi": document.to_string()});
    let tool = tool(vec![service(definition)]);
    for (path, expected) in [
        ("/deep", "ok: "),
        ("/large", "ok: "),
        ("/lost", "ok: "),
        ("/odd?n=1", "ok: "),
        // The rest of the operation is still validated.
        ("/odd?n=x", "\"x\" is not of type \"integer\""),
        ("/fine", "\"text\" is not of type \"integer\""),
    ] {
        // The second time like the first.
        for _ in 0..2 {
            let call = json!({"service": "t", "method": "POST", "path": path, "body": "text"});
            let said = said(&tool, call).await;
            assert!(said.contains(expected), "{path}: {said}");
        }
    }
}
