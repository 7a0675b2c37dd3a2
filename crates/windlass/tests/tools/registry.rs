//! The registry: what it rejects, disabled names, the catalogue, arguments.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use serde_json::{Value, json};
use windlass::port::schema::{CompiledSchema, SchemaCompiler};
use windlass::port::tool::{CallContext, Tool, ToolOutcome, ToolTraits};
use windlass::tool::{Adjustment, JsonSchemas, Registry, builtin};
use windlass_machine::{Annotations, EffectClass, ToolSpec};

struct Shape(ToolSpec);

/// An untrusted tool.
struct Strange(ToolSpec);

#[async_trait]
impl Tool for Strange {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }
    fn traits(&self) -> ToolTraits<'_> {
        ToolTraits { is_untrusted: true, ..ToolTraits::default() }
    }
    async fn call(&self, _context: CallContext, _arguments: Value) -> ToolOutcome {
        ToolOutcome::text("done")
    }
}

#[async_trait]
impl Tool for Shape {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }
    async fn call(&self, _context: CallContext, _arguments: Value) -> ToolOutcome {
        ToolOutcome::text("done")
    }
}

fn tool(name: &str, input_schema: Value) -> Arc<dyn Tool> {
    Arc::new(Shape(spec(name, input_schema)))
}

fn spec(name: &str, input_schema: Value) -> ToolSpec {
    let (description, annotations) = ("A tool".to_owned(), Annotations::default());
    ToolSpec { name: name.into(), description, input_schema, annotations, withheld: Vec::new() }
}

fn plain(name: &str) -> Arc<dyn Tool> {
    tool(name, json!({"type": "object"}))
}

#[track_caller]
fn refuses(tool: Arc<dyn Tool>, expected: &str) {
    let registry = windlass::registry().add(plain("taken")).unwrap();
    assert_eq!(registry.add(tool).unwrap_err().to_string(), expected);
}

#[test]
fn bad_names_are_refused() {
    refuses(plain("taken"), "there is already a tool named `taken`");
    let rule = "is not a tool name: 1 to 64 of A-Z, a-z, 0-9, `_` and `-`";
    refuses(plain(""), &format!("`` {rule}"));
    refuses(plain("a.b"), &format!("`a.b` {rule}"));
    refuses(plain("né"), &format!("`né` {rule}"));
    refuses(plain(&"a".repeat(65)), &format!("`{}` {rule}", "a".repeat(65)));
    assert!(windlass::registry().add(plain(&"a".repeat(64))).is_ok());
}

#[test]
fn bad_schemas_are_refused() {
    let bad = |schema: Value, problem: &str| {
        refuses(tool("t", schema), &format!("the input schema of the tool `t` is invalid: {problem}"));
    };
    bad(json!(true), "`true` is not an object");
    bad(json!({}), "`type` must be \"object\", not nothing");
    bad(json!({"type": "string"}), "`type` must be \"object\", not \"string\"");
    bad(
        json!({"type": "object", "properties": {"a": {"$ref": "https://example.com/a.json"}}}),
        "`$ref` to `https://example.com/a.json` leaves the schema; only `#…` is allowed",
    );
    bad(
        json!({"type": "object", "allOf": [{"$ref": "file:///etc/passwd"}]}),
        "`$ref` to `file:///etc/passwd` leaves the schema; only `#…` is allowed",
    );
    let deep = (0..100).fold(json!({}), |inner, _| json!({"items": inner}));
    bad(json!({"type": "object", "not": deep}), "it is nested more than 64 levels deep");
    let error = windlass::registry().add(tool("t", json!({"type": "object", "required": 3}))).unwrap_err();
    assert!(error.to_string().contains('3'), "{error}");
}

/// Counts its compilations.
#[derive(Clone, Default)]
struct Counting(Arc<AtomicUsize>);

impl SchemaCompiler for Counting {
    fn compile(&self, schema: &Value) -> Result<Arc<dyn CompiledSchema>, String> {
        self.0.fetch_add(1, Ordering::Relaxed);
        JsonSchemas.compile(schema)
    }
}

#[test]
fn a_schema_of_the_program_is_compiled_once_with_the_first_call_and_others_when_they_are_added() {
    let count = Counting::default();
    let compiled = || count.0.load(Ordering::Relaxed);
    let schema = json!({"type": "object", "required": ["a"]});
    let registry = Registry::new(Arc::new(count.clone()));
    let registry = registry.add_built_in([tool("own", schema.clone()), plain("other")]).unwrap();
    assert_eq!(compiled(), 0);
    for _ in 0..2 {
        assert!(registry.check_arguments("own", &json!({})).is_err());
        assert!(registry.check_arguments("own", &json!({"a": 1})).is_ok());
        assert_eq!(compiled(), 1);
    }
    registry.compile_all().unwrap();
    assert_eq!(compiled(), 2);
    registry.add(tool("foreign", schema)).unwrap();
    assert_eq!(compiled(), 3);
}

#[test]
fn a_schema_of_the_program_has_the_same_bounds_and_never_lets_a_call_through_unchecked() {
    let added = |schema| windlass::registry().add_built_in([tool("t", schema)]);
    for schema in [
        json!({"type": "string"}),
        json!({"type": "object", "$ref": "https://example.com/a.json"}),
        json!({"type": "object", "description": "a".repeat(257 * 1024)}),
    ] {
        assert!(added(schema).is_err());
    }
    let registry = added(json!({"type": "object", "required": 3})).unwrap();
    assert!(registry.compile_all().unwrap_err().to_string().contains('3'));
    let refused = registry.check_arguments("t", &json!({})).unwrap_err();
    assert!(
        refused.starts_with("the tool `t` cannot be called, because its schema cannot be used"),
        "{refused}"
    );
    let mut arguments = json!({"a": null});
    assert!(!registry.leave_out_nulls("t", &mut arguments));
}

// rows: LM-T19
#[test]
fn disabled_wins_over_everything() {
    let before = windlass::registry().disable("b").add(plain("b")).unwrap().add(plain("a")).unwrap();
    let after = windlass::registry().add_all([plain("a"), plain("b")]).unwrap().disable("b");
    for registry in [before, after] {
        assert!(registry.get("a").is_some());
        assert!(registry.get("b").is_none());
        assert_eq!(registry.catalogue().iter().map(|spec| spec.name.as_str()).collect::<Vec<_>>(), ["a"]);
        let problem = registry.check_arguments("b", &json!({})).unwrap_err();
        assert_eq!(problem, "there is no tool named `b`");
    }
}

#[test]
fn the_catalogue_does_not_depend_on_the_order_of_adding() {
    let one = windlass::registry().add_all([plain("a"), plain("c"), plain("b")]).unwrap();
    let other = windlass::registry().add_all([plain("c"), plain("b"), plain("a")]).unwrap();
    assert_eq!(one.catalogue(), other.catalogue());
}

// rows: WT-L7
#[test]
fn faults_in_arguments_name_path_and_value() {
    let registry = windlass::registry().add_all(builtin::file_tools(&super::reader())).unwrap();
    let check = |arguments: Value, expected: &str| {
        assert_eq!(registry.check_arguments("Read", &arguments).unwrap_err(), expected);
    };
    assert_eq!(registry.check_arguments("Read", &json!({"file_path": "a", "limit": null})), Ok(()));
    check(json!({}), "`arguments`: \"file_path\" is a required property");
    check(json!({"file_path": "a", "offset": 0}), "`/offset`: 0 is less than the minimum of 1");
    check(
        json!({"file_path": ["a"], "lines": 3}),
        "`/file_path`: [\"a\"] is not of type \"string\"; \
         `arguments`: Additional properties are not allowed ('lines' was unexpected)",
    );
    let long = registry.check_arguments("Read", &json!({"file_path": vec!["x"; 10_000]})).unwrap_err();
    assert!(long.len() < 300, "{long}");
}

// rows: LM-T2, LM-T3, LM-T4, LM-T5, LM-T6
#[test]
fn the_file_tools_say_what_may_be_repeated() {
    let registry = windlass::registry().add_all(builtin::file_tools(&super::reader())).unwrap();
    let classes: Vec<_> = registry
        .catalogue()
        .iter()
        .map(|spec| {
            let tool = registry.get(spec.name.as_str()).unwrap();
            (spec.name.to_string(), tool.traits().effect_class(tool.spec()))
        })
        .collect();
    let expected = [
        ("Edit", EffectClass::Once),
        ("Glob", EffectClass::Pure),
        ("Grep", EffectClass::Pure),
        ("NotebookEdit", EffectClass::Once),
        ("Read", EffectClass::Pure),
        ("Write", EffectClass::Idempotent),
    ];
    assert_eq!(classes, expected.map(|(name, class)| (name.to_owned(), class)));
}

// rows: LM-T4
#[test]
fn a_file_tool_as_the_model_sees_it() {
    let registry = windlass::registry().add_all(builtin::file_tools(&super::reader())).unwrap();
    let expected = json!({
        "type": "object",
        "properties": {
            "file_path": {
                "type": "string",
                "description": "Path relative to the working folder, or absolute inside it.",
            },
            "old_string": {"type": "string", "description": "The text to replace, without Read's line \
                                                             numbers."},
            "new_string": {"type": "string", "description": "The replacement; must differ from `old_string`."},
            "replace_all": {"type": "boolean"},
        },
        "required": ["file_path", "old_string", "new_string"],
        "additionalProperties": false,
    });
    assert_eq!(registry.get("Edit").unwrap().spec().input_schema, expected);
}

#[test]
fn nulls_of_what_is_optional_are_left_out() {
    let schema = json!({
        "type": "object",
        "properties": {
            "to": { "type": "string" },
            "loud": { "type": "boolean" },
            "note": { "type": ["string", "null"] },
            "any": {},
            "a/b": { "type": "object", "properties": { "deep": { "type": "number" } } },
        },
        "required": ["to"],
        "additionalProperties": false,
    });
    let registry = windlass::registry().add(tool("say", schema)).unwrap();
    // The arguments, the adjusted arguments, and the errors in those.
    let cases = [
        (json!({ "to": "a", "loud": true }), json!({ "to": "a", "loud": true }), ""),
        (json!({ "to": "a", "loud": null }), json!({ "to": "a" }), ""),
        (
            json!({ "to": "a", "note": null, "any": null }),
            json!({ "to": "a", "note": null, "any": null }),
            "",
        ),
        (json!({ "to": "a", "a/b": { "deep": null }, "loud": null }), json!({ "to": "a", "a/b": {} }), ""),
        (
            json!({ "loud": null, "to": null, "any": null, "a/b": { "deep": null } }),
            json!({ "to": null, "any": null, "a/b": {} }),
            "`/to`: null is not of type \"string\"",
        ),
        (json!({ "to": null }), json!({ "to": null }), "`/to`: null is not of type \"string\""),
        (
            json!({ "to": "a", "loud": 1 }),
            json!({ "to": "a", "loud": 1 }),
            "`/loud`: 1 is not of type \"boolean\"",
        ),
    ];
    for (mut arguments, left, wrong) in cases {
        let is_changed = arguments != left;
        assert_eq!(registry.leave_out_nulls("say", &mut arguments), is_changed, "{arguments}");
        assert_eq!(arguments.to_string(), left.to_string());
        assert_eq!(registry.check_arguments("say", &arguments).err().unwrap_or_default(), wrong);
    }
}

#[test]
fn an_argument_named_like_a_key_is_filled_in_for_trusted_and_configured_tools_alone() {
    let schema = json!({
        "type": "object", "required": ["client_request_id"],
        "properties": {"client_request_id": {"type": "string"}},
    });
    let shows = |registry: &Registry| registry.catalogue()[0].input_schema == schema;
    let strange = || windlass::registry().add(Arc::new(Strange(spec("get", schema.clone())))).unwrap();
    assert!(shows(&strange()) && !shows(&windlass::registry().add(tool("get", schema.clone())).unwrap()));
    assert!(strange().check_arguments("get", &json!({"client_request_id": "7"})).is_ok());
    assert!(strange().check_arguments("get", &json!({})).is_err(), "it is required of the model");
    let adjusted = |trusted, effect_class| Adjustment { trusted, effect_class, ..Adjustment::default() };
    let cases = [
        (adjusted(Some(true), None), false),
        (adjusted(Some(false), None), true),
        (adjusted(None, Some(EffectClass::Keyed)), false),
        (adjusted(Some(true), Some(EffectClass::Once)), true),
    ];
    for (adjustment, is_shown) in cases {
        let after = strange().adjust("get", adjustment.clone());
        let before = windlass::registry().adjust("get", adjustment.clone());
        let before = before.add(Arc::new(Strange(spec("get", schema.clone())))).unwrap();
        assert_eq!((shows(&after), shows(&before)), (is_shown, is_shown), "{adjustment:?}");
        let checks = |registry: &Registry| registry.check_arguments("get", &json!({})).is_err();
        assert_eq!((checks(&after), checks(&before)), (is_shown, is_shown), "{adjustment:?}");
        // A removed adjustment makes the argument visible and validated again.
        let again = after.adjust("get", adjusted(Some(false), None));
        assert!(shows(&again) && checks(&again));
    }
}
