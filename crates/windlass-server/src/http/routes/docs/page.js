// The API reference: shows the OpenAPI document and sends test requests. All content comes from /api/v1/openapi.json.
// Texts are inserted as text, never as markup.

const METHODS = ["get", "post", "put", "patch", "delete"];
const DEPTH_MAX = 6;

const main = document.getElementById("main");
const key = document.getElementById("key");
const find = document.getElementById("find");

function element(name, content = [], properties = {}) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...[content].flat());
  return made;
}

let schemas = {};

function resolve(schema) {
  const name = schema?.$ref?.split("/").pop();
  return name ? { title: name, ...schemas[name] } : schema ?? {};
}

// Formats a schema as a short type.
function shape(given, depth = 0) {
  const schema = resolve(given);
  const pad = "  ".repeat(depth + 1);
  if (depth > DEPTH_MAX) return schema.title ?? "…";
  const choices = schema.oneOf ?? schema.anyOf;
  if (choices) return choices.map((choice) => shape(choice, depth)).join(" | ");
  if (schema.allOf) return schema.allOf.map((part) => shape(part, depth)).join(" & ");
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(" | ");
  const types = [schema.type ?? []].flat();
  if (types.includes("array")) return `[${shape(schema.items, depth)}]` + (types.includes("null") ? " | null" : "");
  const fields = Object.entries(schema.properties ?? {});
  if (fields.length === 0) return types.join(" | ") || "any";
  const lines = fields.map(([name, field]) => {
    const mark = schema.required?.includes(name) ? "" : "?";
    const said = resolve(field).description ?? field.description;
    const note = said ? `  // ${said.split("\n").join(" ")}` : "";
    return `${pad}${name}${mark}: ${shape(field, depth + 1)},${note}`;
  });
  return `{\n${lines.join("\n")}\n${"  ".repeat(depth)}}`;
}

// An initial value for a schema: its example, or the required fields only.
function sample(given, depth = 0) {
  const schema = resolve(given);
  if (schema.example !== undefined) return schema.example;
  if (schema.examples?.length) return schema.examples[0];
  if (schema.default !== undefined) return schema.default;
  if (schema.const !== undefined) return schema.const;
  if (schema.enum) return schema.enum[0];
  const choice = (schema.oneOf ?? schema.anyOf)?.find((one) => one.type !== "null");
  if (choice && depth < DEPTH_MAX) return sample(choice, depth);
  const type = [schema.type ?? []].flat().find((one) => one !== "null");
  if (type === "array") return depth < DEPTH_MAX ? [sample(schema.items, depth + 1)] : [];
  if (type === "integer" || type === "number") return schema.minimum ?? 0;
  if (type === "boolean") return false;
  if (type === "string") return "";
  const required = Object.entries(schema.properties ?? {}).filter(([name]) => schema.required?.includes(name));
  return Object.fromEntries(required.map(([name, field]) => [name, sample(field, depth + 1)]));
}

function parameterRow(parameter) {
  const schema = resolve(parameter.schema);
  const label = `${parameter.name} (${parameter.in}${parameter.required ? ", required" : ""})`;
  const input = element("input", [], { name: parameter.name, required: parameter.required ?? false });
  input.setAttribute("aria-label", label);
  const description = parameter.description ?? schema.description ?? "";
  const row = element("tr", [
    element("td", element("code", label)),
    element("td", input),
    element("td", `${description} ${[schema.type ?? ""].flat().filter((one) => one !== "null").join(" or ")}`),
  ]);
  return { row, input, parameter };
}

async function send(method, path, fields, body, output) {
  let url = path;
  const query = new URLSearchParams();
  const headers = {};
  for (const { input, parameter } of fields) {
    if (input.value === "") continue;
    if (parameter.in === "path") url = url.replace(`{${parameter.name}}`, encodeURIComponent(input.value));
    if (parameter.in === "query") query.set(parameter.name, input.value);
    if (parameter.in === "header") headers[parameter.name] = input.value;
  }
  if (url.includes("{")) {
    output.textContent = `${url}: fill in the parameters in braces`;
    return;
  }
  if (query.size) url += `?${query}`;
  if (key.value) headers.authorization = `Bearer ${key.value}`;
  const request = { method: method.toUpperCase(), headers };
  if (body) {
    headers["content-type"] = "application/json";
    request.body = body.value;
  }
  output.textContent = "…";
  try {
    const response = await fetch(url, request);
    const said = [`${request.method} ${url}`, `${response.status} ${response.statusText}`];
    for (const name of ["content-type", "etag", "location", "retry-after", "x-request-id"]) {
      if (response.headers.has(name)) said.push(`${name}: ${response.headers.get(name)}`);
    }
    const text = await response.text();
    let shown = text;
    if (/json/.test(response.headers.get("content-type") ?? "")) {
      try { shown = JSON.stringify(JSON.parse(text), null, 2); } catch { shown = text; }
    }
    output.textContent = `${said.join("\n")}\n\n${shown}`;
  } catch (error) {
    output.textContent = `Request failed: ${error.message}`;
  }
}

function operation(method, path, described) {
  const title = element("summary", [
    element("span", method.toUpperCase(), { className: "method" }),
    element("code", path),
    element("span", described.summary ?? "", { className: "said" }),
  ]);
  const box = element("details", title, { id: described.operationId });
  // The content is built on first opening.
  box.addEventListener("toggle", () => box.childElementCount === 1 && box.append(...inside(method, path, described)));
  box.dataset.words = `${method} ${path} ${described.summary} ${described.operationId}`.toLowerCase();
  return box;
}

function inside(method, path, described) {
  const parts = [];
  if (described.description) parts.push(element("p", described.description));
  const fields = (described.parameters ?? []).map(parameterRow);
  if (fields.length) parts.push(element("h3", "Parameters"), element("table", fields.map((field) => field.row)));
  const content = described.requestBody?.content?.["application/json"];
  let body = null;
  if (content) {
    const text = JSON.stringify(content.example ?? sample(content.schema), null, 2);
    body = element("textarea", [], { value: text, rows: Math.min(16, text.split("\n").length + 1), spellcheck: false });
    body.setAttribute("aria-label", "Body");
    parts.push(element("h3", "Body"), element("pre", shape(content.schema)), body);
  }
  const output = element("pre", "", { hidden: true });
  output.setAttribute("aria-live", "polite");
  const button = element("button", "Send", { type: "button" });
  button.addEventListener("click", () => {
    output.hidden = false;
    send(method, path, fields, body, output);
  });
  parts.push(element("p", button), output, element("h3", "Responses"));
  for (const [status, response] of Object.entries(described.responses)) {
    const [media, shown] = Object.entries(response.content ?? {})[0] ?? [];
    parts.push(element("p", `${status}: ${response.description || ""} ${media ? `(${media})` : ""}`));
    if (shown?.schema) parts.push(element("pre", shape(shown.schema)));
  }
  return parts;
}

function show(description) {
  schemas = description.components?.schemas ?? {};
  const sections = new Map();
  for (const [path, item] of Object.entries(description.paths)) {
    for (const method of METHODS.filter((one) => item[one])) {
      const tag = item[method].tags?.[0] ?? "other";
      if (!sections.has(tag)) sections.set(tag, []);
      sections.get(tag).push(operation(method, path, item[method]));
    }
  }
  const about = new Map((description.tags ?? []).map((tag) => [tag.name, tag.description]));
  const order = [...about.keys(), ...sections.keys()].filter((tag, at, all) => all.indexOf(tag) === at && sections.has(tag));
  main.replaceChildren(element("p", `${description.info.description}\n\nVersion ${description.info.version}`));
  for (const tag of order) {
    main.append(element("section", [element("h2", tag), element("p", about.get(tag) ?? ""), ...sections.get(tag)]));
  }
}

find.addEventListener("input", () => {
  const wanted = find.value.toLowerCase();
  for (const section of main.querySelectorAll("section")) {
    const boxes = [...section.querySelectorAll("details")];
    for (const box of boxes) box.hidden = !box.dataset.words.includes(wanted);
    section.hidden = boxes.every((box) => box.hidden);
  }
});

try {
  const response = await fetch("/api/v1/openapi.json");
  show(await response.json());
  document.getElementById(location.hash.slice(1))?.setAttribute("open", "");
} catch (error) {
  main.replaceChildren(element("p", `Cannot load the API description: ${error.message}`));
}
