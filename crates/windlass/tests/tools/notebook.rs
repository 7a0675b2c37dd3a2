//! `NotebookEdit`: only the named cell changes, and no byte of the others.

use serde_json::{Value, json};

use super::Desk;

/// Formatted by Jupyter, with details that a parser would not preserve: an odd number, an escape, key order, an unknown
/// member.
const BOOK: &str = r##"{
 "cells": [
  {
   "cell_type": "markdown",
   "id": "aa",
   "metadata": {},
   "source": [
    "# Caf\u00e9\n",
    "text"
   ]
  },
  {
   "cell_type": "code",
   "execution_count": 7,
   "id": "bb",
   "metadata": {"z": 1.50, "a": 1e3},
   "outputs": [
    {
     "name": "stdout",
     "output_type": "stream",
     "text": [
      "1\n"
     ]
    }
   ],
   "source": [
    "print(1)"
   ]
  }
 ],
 "metadata": {
  "odd": 1.0e2
 },
 "nbformat": 4,
 "nbformat_minor": 5
}
"##;

/// The difference between the notebook before and after an edit: removed and added lines.
#[track_caller]
fn changes(before: &str, arguments: Value, answer: &str) -> String {
    let desk = Desk::new();
    desk.put("a.ipynb", before);
    let mut with_path = arguments;
    with_path["notebook_path"] = json!("a.ipynb");
    let preview = desk.preview("NotebookEdit", with_path.clone());
    assert_eq!(desk.text("a.ipynb"), before, "a preview changes nothing");
    assert_eq!(desk.show("NotebookEdit", with_path), answer);
    let after = desk.text("a.ipynb");
    if answer.starts_with("ok") {
        assert!(serde_json::from_str::<Value>(&after).is_ok());
        let shown = preview.unwrap();
        let changed = shown.lines().skip(2).filter(|line| line.starts_with(['-', '+']));
        return changed.map(|line| format!("{line}\n")).collect();
    }
    assert_eq!(after, before);
    String::new()
}

// rows: LM-T15
#[test]
fn a_cell_is_replaced_and_its_outputs_are_cleared() {
    let edit = json!({"cell_id": "bb", "new_source": "import os\nprint(2)"});
    let wanted = r#"-   "execution_count": 7,
+   "execution_count": null,
-   "outputs": [
-    {
-     "name": "stdout",
-     "output_type": "stream",
-     "text": [
-      "1\n"
-     ]
-    }
-   ],
+   "outputs": [],
-    "print(1)"
+    "import os\n",
+    "print(2)"
"#;
    assert_eq!(changes(BOOK, edit, "ok: Edited `a.ipynb`: cell 1 replaced"), wanted);
    let edit = json!({"cell_number": 0, "new_source": "# Tea"});
    let wanted = "-    \"# Caf\\u00e9\\n\",\n-    \"text\"\n+    \"# Tea\"\n";
    assert_eq!(changes(BOOK, edit, "ok: Edited `a.ipynb`: cell 0 replaced"), wanted);
}

// rows: LM-T15
#[test]
fn a_cell_is_inserted_where_it_is_wanted() {
    let at = |place: Value| {
        let mut edit = json!({"edit_mode": "insert", "cell_type": "code", "new_source": "x = 1"});
        edit.as_object_mut().unwrap().extend(place.as_object().unwrap().clone());
        edit
    };
    let cell = "+   \"cell_type\": \"code\",\n+   \"execution_count\": null,\n+   \"id\": \"<id>\",\n+   \"metadata\": {},\n\
                +   \"outputs\": [],\n+   \"source\": [\n+    \"x = 1\"\n+   ]\n";
    let with_id = |shown: String| {
        let id: String = shown.split("\"id\": \"").nth(1).unwrap().chars().take(8).collect();
        assert!(id.bytes().all(|byte| byte.is_ascii_hexdigit()));
        shown.replace(&id, "<id>")
    };
    let inserted = |place: Value, as_nth: usize| {
        let answer = format!("ok: Edited `a.ipynb`: code cell inserted at {as_nth}");
        with_id(changes(BOOK, at(place), &answer))
    };
    let last = format!("+  }},\n+  {{\n{cell}");
    assert_eq!(inserted(json!({"cell_id": "bb"}), 2), last);
    assert_eq!(inserted(json!({"cell_number": 2}), 2), last);
    let first = inserted(json!({"cell_number": 0}), 0);
    assert!(first.starts_with("+   \"cell_type\": \"code\",\n") && !first.contains('-'), "{first}");
    assert_eq!(inserted(json!({"cell_id": "aa"}), 1), inserted(json!({"cell_number": 1}), 1));
    let far = "error: a cell cannot be inserted at 3; number of cells: 2";
    changes(BOOK, at(json!({"cell_number": 3})), far);
}

// rows: LM-T15
#[test]
fn a_cell_is_deleted_with_what_held_it() {
    for (at, rest) in [(0, "bb"), (1, "aa")] {
        let desk = Desk::new();
        desk.put("a.ipynb", BOOK);
        let edit = json!({"notebook_path": "a.ipynb", "cell_number": at, "edit_mode": "delete"});
        assert_eq!(desk.show("NotebookEdit", edit), format!("ok: Edited `a.ipynb`: cell {at} deleted"));
        let text = desk.text("a.ipynb");
        let book: Value = serde_json::from_str(&text).unwrap();
        assert_eq!((book["cells"].as_array().unwrap().len(), &book["cells"][0]["id"]), (1, &json!(rest)));
        assert!(text.contains("\n  {\n") && text.contains("\n  }\n ],\n \"metadata\": {\n  \"odd\": 1.0e2"));
        let edit = json!({"notebook_path": "a.ipynb", "cell_number": 0, "edit_mode": "delete"});
        desk.show("NotebookEdit", edit);
        assert!(desk.text("a.ipynb").contains("\"cells\": [],"));
        // And from nothing to something again.
        let edit = json!({
            "notebook_path": "a.ipynb", "cell_number": 0, "edit_mode": "insert", "cell_type": "markdown",
            "new_source": "hi",
        });
        desk.show("NotebookEdit", edit);
        assert!(desk.text("a.ipynb").contains("\"cells\": [\n  {\n   \"cell_type\": \"markdown\","));
    }
}

#[test]
fn a_cell_of_another_kind_loses_and_gains_what_belongs_to_it() {
    let desk = Desk::new();
    desk.put("a.ipynb", BOOK);
    let turn = |id: &str, kind: &str| {
        let edit = json!({
            "notebook_path": "a.ipynb", "cell_id": id, "cell_type": kind, "new_source": "x",
        });
        desk.show("NotebookEdit", edit);
        let book: Value = serde_json::from_str(&desk.text("a.ipynb")).unwrap();
        let cells = book["cells"].as_array().unwrap();
        cells.iter().find(|cell| cell["id"] == json!(id)).unwrap().clone()
    };
    let bare =
        json!({"cell_type": "markdown", "id": "bb", "metadata": {"z": 1.5, "a": 1e3}, "source": ["x"]});
    assert_eq!(turn("bb", "markdown"), bare);
    let code = json!({
        "cell_type": "code", "id": "aa", "metadata": {}, "source": ["x"], "outputs": [],
        "execution_count": null,
    });
    assert_eq!(turn("aa", "code"), code);
}

#[test]
fn the_way_in_which_a_notebook_is_written_stays() {
    let compact =
        r#"{"cells":[{"cell_type":"raw","metadata":{},"source":"a"}],"nbformat":4,"nbformat_minor":2}"#;
    let wide = "{\r\n    \"nbformat\": 4,\r\n    \"cells\": [\r\n        {\r\n            \"cell_type\": \"raw\",\r\n            \
                \"source\": []\r\n        }\r\n    ]\r\n}";
    let check = |before: &str, edit: Value, wanted: &str| {
        let desk = Desk::new();
        desk.put("a.ipynb", before);
        let mut edit = edit;
        edit["notebook_path"] = json!("a.ipynb");
        assert!(desk.show("NotebookEdit", edit).starts_with("ok: "));
        assert_eq!(desk.text("a.ipynb"), wanted);
    };
    // A source that was one text stays one; old notebooks have no ids.
    check(compact, json!({"cell_number": 0, "new_source": "b\nc"}), &compact.replace(r#""a""#, r#""b\nc""#));
    let insert = json!({"cell_number": 1, "edit_mode": "insert", "cell_type": "raw", "new_source": "b"});
    let more = r#"},{"cell_type":"raw","metadata":{},"source":["b"]}],"#;
    check(compact, insert, &compact.replace("}],", more));
    let lined = "[\r\n                \"a\\n\",\r\n                \"b\"\r\n            ]";
    check(wide, json!({"cell_number": 0, "new_source": "a\nb"}), &wide.replace("[]", lined));
}

#[test]
fn what_is_no_notebook_or_no_cell_is_refused() {
    let refused = |name: &str, text: &str, edit: Value, wanted: &str| {
        let desk = Desk::new();
        desk.put(name, text);
        let mut edit = edit;
        edit["notebook_path"] = json!(name);
        let said = desk.show("NotebookEdit", edit);
        assert!(said.starts_with(&format!("error: {wanted}")), "{said}");
        assert_eq!(desk.text(name), text);
    };
    let edit = || json!({"cell_number": 0, "new_source": "x"});
    refused("a.txt", BOOK, edit(), "`a.txt` is not an `.ipynb` file");
    refused("a.ipynb", "{}", edit(), "`a.ipynb` is not a notebook: missing field `nbformat`");
    refused("a.ipynb", "no", edit(), "`a.ipynb` is not a notebook: ");
    let old = r#"{"nbformat":3,"cells":[]}"#;
    refused("a.ipynb", old, edit(), "`a.ipynb` has nbformat 3; only 4 is supported");
    refused("a.ipynb", r#"{"nbformat":4,"cells":[1]}"#, edit(), "`a.ipynb` has an invalid cell 0");
    refused(
        "a.ipynb",
        BOOK,
        json!({"cell_number": 2, "new_source": "x"}),
        "cell 2 does not exist; number of cells: 2",
    );
    refused("a.ipynb", BOOK, json!({"cell_id": "zz", "new_source": "x"}), "no cell has the id `zz`");
    refused(
        "a.ipynb",
        BOOK,
        json!({"new_source": "x"}),
        "select the cell with either `cell_id` or `cell_number`",
    );
    refused("a.ipynb", BOOK, json!({"cell_number": 0}), "`new_source` is missing");
    refused(
        "a.ipynb",
        BOOK,
        json!({"cell_number": 0, "edit_mode": "insert"}),
        "a new cell requires `cell_type`",
    );
}
