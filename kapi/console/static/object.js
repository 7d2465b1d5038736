// One object: summary, events, owners and what it owns, YAML to copy and edit, managers, and the logs of a pod.

import { follow, pathOf } from "./api.js";
import * as edit from "./edit.js";
import * as graph from "./graph.js";
import * as logs from "./logs.js";
import { h, problem, scroller, table } from "./page.js";
import { addressOf, followed } from "./resources.js";
import { summary } from "./summary.js";
import { yaml } from "./tree.js";

export async function show(view, { known, resource, namespace, name, tab }, signal) {
  const base = addressOf(resource, namespace, name);
  const pod = resource.plural === "pods" && !resource.group;
  const tabs = { summary: "Summary", events: "Events", graph: "Ownership", yaml: "YAML", edit: "Edit", ...(pod ? { logs: "Logs", exec: "Exec" } : {}) };
  const here = tab in tabs ? tab : "summary";
  const body = h("div", {});
  view.append(
    h("p", {}, h("a", { href: addressOf(resource, namespace) }, resource.plural)),
    h("h1", {}, `${resource.kind} ${namespace ? `${namespace}/` : ""}${name}`),
    h(
      "nav",
      { class: "tabs", "aria-label": "About this object" },
      Object.entries(tabs).map(([key, text]) => h("a", { href: `${base}/${key}`, "aria-current": key === here ? "page" : null }, text)),
    ),
    body,
  );
  const kind = { apiVersion: resource.group ? `${resource.group}/${resource.version}` : resource.version, kind: resource.kind };
  const gone = () => body.replaceChildren(h("p", { class: "error" }, "This object does not exist (any more)."));
  let begun = false; // views that are drawn once, and then go on by themselves
  const once = (draw) => {
    if (begun) return;
    begun = true;
    Promise.resolve(draw()).catch((error) => signal.aborted || body.replaceChildren(problem(error)));
  };
  const draw = (given) => {
    const object = { ...kind, ...given };
    if (here === "summary") body.replaceChildren(summary(object));
    else if (here === "yaml") body.replaceChildren(asYAML(object), managers(object));
    else if (here === "events") once(() => events(body, known, object, signal));
    else if (here === "graph") once(() => graph.show(body, known, object, signal));
    else if (here === "edit") once(() => edit.show(body, pathOf(resource, namespace, name), object, signal));
    else if (here === "logs") once(() => logs.show(body, pathOf(resource, namespace, name), object, signal));
    else once(() => logs.run(body, pathOf(resource, namespace, name), object, signal));
  };
  try {
    await follow(
      pathOf(resource, namespace),
      `fieldSelector=${encodeURIComponent(`metadata.name=${name}`)}`,
      { signal },
      (list) => (list.items.length ? draw(list.items[0]) : gone()),
      (event) => (event.type === "DELETED" ? gone() : draw(event.object)),
    );
  } catch (error) {
    if (!signal.aborted) body.replaceChildren(problem(error));
  }
}

function asYAML(object) {
  const { managedFields, name, namespace, labels, annotations, ...rest } = object.metadata;
  const metadata = Object.fromEntries(
    Object.entries({ name, namespace, labels, annotations, ...rest }).filter(([, value]) => value !== undefined),
  );
  const text = yaml({ ...object, metadata });
  const copy = h("button", { type: "button" }, "Copy");
  copy.addEventListener("click", async () => {
    await navigator.clipboard.writeText(text);
    copy.textContent = "Copied";
  });
  return h("div", {}, h("div", { class: "bar" }, copy), h("pre", { tabindex: "0", "aria-label": "YAML", role: "region" }, text));
}

function managers(object) {
  const rows = (object.metadata.managedFields ?? []).map((entry) => [
    entry.manager,
    entry.operation,
    entry.subresource ?? "",
    entry.time ?? "",
    h("details", {}, h("summary", {}, `${fields(entry.fieldsV1).length}`), h("pre", {}, fields(entry.fieldsV1).join("\n"))),
  ]);
  const heading = h("h2", {}, "Managed fields");
  return h("div", {}, heading, scroller("Managed fields", table(["Manager", "Operation", "Subresource", "Time", "Fields"], rows)));
}

async function events(view, known, object, signal) {
  const resource = known.find((one) => one.plural === "events" && !one.group);
  const selection = `fieldSelector=${encodeURIComponent(`involvedObject.uid=${object.metadata.uid}`)}`;
  await followed(view, resource, object.metadata.namespace ?? "default", selection, signal);
}

// The paths of a set of fields.
function fields(set, path = "") {
  return Object.entries(set ?? {}).flatMap(([key, below]) => {
    if (key === ".") return [];
    const here = key.startsWith("f:") ? `${path}.${key.slice(2)}` : `${path}[${key.slice(2)}]`;
    const inside = fields(below, here);
    return inside.length ? inside : [here];
  });
}
