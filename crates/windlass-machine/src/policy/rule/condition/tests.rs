//! Tests of each predicate with values of each kind.
//!
//! No path is resolved here: each case contains the resolved path.

use serde_json::json;

use super::*;

fn check(is: Predicate, cases: &[(Value, &str)]) {
    for (value, wanted) in cases {
        let condition = Condition { argument: "/a".into(), is: is.clone() };
        let said = match condition.holds(Some(&json!({ "a": value }))) {
            Ok(true) => "yes".to_owned(),
            Ok(false) => "no".to_owned(),
            Err(unclear) => unclear.to_string(),
        };
        assert_eq!(said, *wanted, "{is:?} {value}");
    }
    let holds =
        |arguments: Option<&Value>| Condition { argument: "/a".into(), is: is.clone() }.holds(arguments);
    assert_eq!(holds(None), Err(Unclear::Unreadable), "{is:?}");
    let absent = match is {
        Predicate::Absent => Ok(true),
        Predicate::NotOneOf(_) => Err(Unclear::Absent { argument: "/a".into() }),
        _ => Ok(false),
    };
    assert_eq!(holds(Some(&json!({}))), absent, "{is:?}");
    assert_eq!(holds(Some(&json!({ "a": null }))), absent, "null counts as absent: {is:?}");
    let text = Unclear::Kind { argument: "/a".into(), found: "a text", wanted: "an object" };
    assert_eq!(holds(Some(&json!("text"))), Err(text), "{is:?}");
}

#[test]
fn equals() {
    let cases = [
        (json!("x"), "yes"),
        (json!("X"), "no"),
        (json!(1), "`/a` is a number, and not a text"),
        (json!(["x"]), "`/a` is a list, and not a text"),
    ];
    check(Predicate::Equals(json!("x")), &cases);
    let cases = [(json!(1.0), "yes"), (json!(1), "yes"), (json!(1.5), "no"), (json!(-1), "no")];
    check(Predicate::Equals(json!(1)), &cases);
    check(Predicate::Equals(json!(0)), &[(json!(-0.0), "yes")]);
    let cases = [(json!(true), "yes"), (json!("true"), "`/a` is a text, and not a boolean")];
    check(Predicate::Equals(json!(true)), &cases);
    let deep = json!({ "x": [1, { "y": 2 }], "z": 0 });
    let cases = [
        (json!({ "z": 0.0, "x": [1.0, { "y": 2 }] }), "yes"),
        (json!({ "x": [1, { "y": 2 }] }), "no"),
        (json!({ "x": [1], "z": 0 }), "no"),
    ];
    check(Predicate::Equals(deep), &cases);
}

#[test]
fn one_of_and_not_one_of() {
    let values = vec![json!("eu"), json!("us"), json!(7)];
    let cases = [(json!("us"), "yes"), (json!("cn"), "no"), (json!(7.0), "yes"), (json!(8), "no")];
    check(Predicate::OneOf(values.clone()), &cases);
    check(Predicate::OneOf(values.clone()), &[(json!(true), "`/a` is a boolean, and not a text")]);
    let cases = [(json!("us"), "no"), (json!("cn"), "yes"), (json!(8), "yes")];
    check(Predicate::NotOneOf(values.clone()), &cases);
    check(Predicate::NotOneOf(values), &[(json!({}), "`/a` is an object, and not a text")]);
    check(Predicate::OneOf(vec![]), &[(json!("x"), "no")]);
}

#[test]
fn expressions() {
    let cases = [
        (json!("rm -rf /"), "yes"),
        (json!("ls; rm -r x"), "yes"),
        (json!("ls"), "no"),
        (json!(4), "`/a` is a number, and not a text"),
        (json!("x".repeat(TEXT_MAX_BYTES + 1)), "`/a` is longer than 1048576 bytes"),
    ];
    check(Predicate::Matches(Pattern::new(r"\brm\b")), &cases);
    // An absent value is false: an invalid expression only matters if there is a text.
    let faulty = [(json!("x"), "`/a`: the expression cannot be used: unclosed group")];
    check(Predicate::Matches(Pattern::new("(")), &faulty);
}

#[test]
fn ranges() {
    let number = |number: Value| serde_json::from_value::<Number>(number).unwrap();
    let between = |min: Option<Value>, max: Option<Value>| Predicate::Between {
        min: min.map(number),
        max: max.map(number),
    };
    let cases = [
        (json!(1), "yes"),
        (json!(10), "yes"),
        (json!(10.0), "yes"),
        (json!(0), "no"),
        (json!(10.001), "no"),
        (json!("5"), "`/a` is a text, and not a number"),
    ];
    check(between(Some(json!(1)), Some(json!(10))), &cases);
    check(between(Some(json!(0.5)), None), &[(json!(u64::MAX), "yes"), (json!(0.4), "no")]);
    // Above 2^53, floating point cannot distinguish neighbouring integers.
    let large = json!(9_007_199_254_740_993_u64);
    check(between(None, Some(json!(9_007_199_254_740_992_u64))), &[(large, "no")]);
    check(between(None, Some(json!(-1))), &[(json!(i64::MIN), "yes"), (json!(-0.5), "no")]);
}

#[test]
fn paths() {
    let cases = [
        (json!("src/a.rs"), "yes"),
        (json!("source/a.rs"), "no"),
        (json!("src/../b"), "no"),
        (json!("../src/b"), "`/a`: the path leaves the folder that it is relative to"),
        (json!(1), "`/a` is a number, and not a path"),
    ];
    check(Predicate::Under("src".into()), &cases);
}

#[test]
fn a_path_is_judged_by_its_spelling_and_by_the_file() {
    let target = |lexical: &str, resolved: &str| PathTarget {
        folders: vec!["/desk".into()],
        lexical: lexical.into(),
        resolved: resolved.into(),
    };
    let said = |is: &Predicate, text: &str, target: Option<PathTarget>, direction| {
        let condition = Condition { argument: "/a".into(), is: is.clone() };
        let paths = [PathArgument { argument: "/a".into(), target }];
        match condition.holds_with_paths(Some(&json!({ "a": text })), &paths, direction) {
            Ok(true) => "yes",
            Ok(false) => "no",
            Err(_) => "unclear",
        }
    };
    let under = Predicate::Under("docs".into());
    let absolute = Predicate::Under("/desk/docs".into());
    let matches = Predicate::Matches(Pattern::new("^docs/"));
    let full = Predicate::Matches(Pattern::new("^/desk/docs/"));
    let equals = Predicate::Equals(json!("docs/a"));
    let equals_full = Predicate::Equals(json!("/desk/docs/a"));
    let one_of = Predicate::OneOf(vec![json!("/desk"), json!("/desk/docs/a")]);
    let other = Predicate::NotOneOf(vec![json!("docs/a")]);
    let other_full = Predicate::NotOneOf(vec![json!("/desk/docs/a")]);
    let other_dotted = Predicate::NotOneOf(vec![json!("./docs//x/../a")]);
    // Predicate, spelling, lexical form, file, and the answers for an allowing and a restricting rule.
    let cases = [
        (&under, "docs/a", "docs/a", "docs/a", "yes", "yes"),
        (&under, "docs/a", "docs/a", "src/a", "unclear", "yes"),
        (&under, "src/a", "src/a", "docs/a", "unclear", "yes"),
        (&under, "src/a", "src/a", "src/a", "no", "no"),
        (&under, "/desk/docs/a", "docs/a", "docs/a", "yes", "yes"),
        (&under, "/desk/src/a", "src/a", "src/a", "no", "no"),
        (&under, "~x/../docs/a", "docs/a", "docs/a", "yes", "yes"),
        (&under, "docs/l/../a", "docs/a", "b/a", "unclear", "yes"),
        (&absolute, "docs/a", "docs/a", "docs/a", "yes", "yes"),
        (&absolute, "docs/a", "docs/a", "src/a", "unclear", "yes"),
        (&absolute, "src/a", "src/a", "src/a", "no", "no"),
        (&matches, "docs/a", "docs/a", "docs/a", "yes", "yes"),
        (&matches, "./docs/a", "docs/a", "docs/a", "unclear", "yes"),
        (&matches, "x/a", "x/a", "docs/a", "unclear", "yes"),
        (&matches, "/desk/docs/a", "docs/a", "docs/a", "no", "yes"),
        (&full, "/desk/docs/a", "docs/a", "docs/a", "yes", "yes"),
        (&full, "/desk/docs/a", "docs/a", "src/a", "unclear", "yes"),
        (&equals, "x", "x", "docs/a", "unclear", "yes"),
        (&equals, "/desk/docs/a", "docs/a", "docs/a", "no", "yes"),
        (&full, "docs/a", "docs/a", "docs/a", "no", "yes"),
        (&full, "src/a", "src/a", "docs/a", "no", "yes"),
        (&full, "docs/a", "docs/a", "src/a", "no", "yes"),
        (&full, "src/a", "src/a", "src/a", "no", "no"),
        (&equals_full, "docs/a", "docs/a", "docs/a", "no", "yes"),
        (&one_of, "./docs/a", "docs/a", "docs/a", "no", "yes"),
        (&one_of, "/desk", "", "", "yes", "yes"),
        (&one_of, ".", "", "", "no", "yes"),
        (&one_of, "docs", "docs", "docs", "no", "no"),
        (&other, "docs/a", "docs/a", "docs/a", "no", "no"),
        (&other, "./docs/a", "docs/a", "docs/a", "no", "no"),
        (&other, "/desk/docs/a", "docs/a", "docs/a", "no", "no"),
        (&other, "x", "x", "docs/a", "unclear", "yes"),
        (&other, "docs/a", "docs/a", "src/a", "unclear", "yes"),
        (&other, "src/a", "src/a", "src/a", "yes", "yes"),
        (&other_full, "docs/a", "docs/a", "docs/a", "no", "no"),
        (&other_full, "x", "x", "docs/a", "unclear", "yes"),
        (&other_full, "/desk/docs/a", "docs/a", "docs/a", "no", "no"),
        (&other_full, "src/a", "src/a", "src/a", "yes", "yes"),
        (&other_dotted, "docs/a", "docs/a", "docs/a", "no", "no"),
    ];
    for (is, text, lexical, resolved, permits, restricts) in cases {
        let found = |direction| said(is, text, Some(target(lexical, resolved)), direction);
        let answers = (found(Direction::Permits), found(Direction::Restricts));
        assert_eq!(answers, (permits, restricts), "{is:?} {text} {resolved}");
    }
    // A path that the folder refuses is judged by its text.
    assert_eq!(said(&under, "docs/a", None, Direction::Permits), "yes");
    assert_eq!(said(&under, "/etc/x", None, Direction::Restricts), "unclear");
}

#[test]
fn presence() {
    check(Predicate::Present, &[(json!(false), "yes"), (json!(""), "yes")]);
    check(Predicate::Absent, &[(json!(false), "no"), (json!([]), "no")]);
}

#[test]
fn pointers() {
    let arguments = json!({ "a/b": { "~": [10, { "c": 20 }] }, "": 30 });
    let holds = |argument: &str, value: Value| {
        Condition { argument: argument.into(), is: Predicate::Equals(value) }.holds(Some(&arguments))
    };
    assert_eq!(holds("/a~1b/~0/0", json!(10)), Ok(true));
    assert_eq!(holds("/a~1b/~0/1/c", json!(20)), Ok(true));
    assert_eq!(holds("/a~1b/~0/2", json!(10)), Ok(false));
    assert_eq!(holds("/", json!(30)), Ok(true));
    assert_eq!(holds("", arguments.clone()), Ok(true));
    assert!(holds("/a~1b/~0/c", json!(20)).is_err(), "a list has no names");
    assert!(holds("/a~1b/~0/0/x", json!(20)).is_err(), "a number has no parts");
    assert_eq!(holds("/none/at/all", json!(20)), Ok(false));
}
