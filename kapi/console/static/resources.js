// All kinds, a kind's objects as kubectl shows them, and one object: each followed while it is shown.

import { TABLE, follow, get, pathOf, resources } from "./api.js";
import { h, problem, table } from "./page.js";
import { yaml } from "./tree.js";

const addressOf = (resource, namespace, name) =>
  `#/resources/${resource.group || "core"}/${resource.version}/${resource.plural}/${namespace || "-"}${name ? `/${name}` : ""}`;

export async function show(view, [group, version, plural, namespace, name], signal) {
  const known = await resources();
  const wanted = known.find((one) => one.plural === plural && (one.group || "core") === group && one.version === version);
  const place = namespace === "-" ? "" : (namespace ?? "");
  const right = h("section", {});
  view.replaceChildren(h("div", { class: "split" }, kinds(known, wanted, place), right));
  if (!wanted) right.append(h("p", { class: "pale" }, "Choose a kind."));
  else if (name) await one(right, wanted, place, name, signal);
  else await all(right, wanted, place, signal);
}

function kinds(known, wanted, namespace) {
  const list = h("div", { class: "kinds" });
  let group;
  for (const resource of known) {
    if (resource.group !== group) list.append(h("h3", {}, resource.group || "core"));
    group = resource.group;
    const here = resource === wanted ? "here" : null;
    list.append(h("a", { href: addressOf(resource, namespace), class: here }, resource.plural));
  }
  return list;
}

async function all(view, resource, namespace, signal) {
  const choice = h("select", { onchange: () => (location.hash = addressOf(resource, choice.value)) });
  const count = h("span", { class: "pale" });
  const body = h("div", {});
  view.append(h("div", { class: "bar" }, h("strong", {}, resource.kind), resource.namespaced ? choice : "", count), body);
  if (resource.namespaced) offer(choice, namespace);
  const rows = new Map();
  let columns = [];
  const draw = () => {
    count.textContent = `${rows.size} objects`;
    const shown = columns.map((column, index) => [column, index]).filter(([column]) => !column.priority);
    const everywhere = resource.namespaced && !namespace;
    const cells = ({ object: { metadata }, cells }) => [
      ...(everywhere ? [metadata.namespace] : []),
      ...shown.map(([column, index]) =>
        column.name === "Name"
          ? h("a", { href: addressOf(resource, metadata.namespace ?? "", metadata.name) }, cells[index])
          : cells[index],
      ),
    ];
    const sorted = [...rows.values()].sort((a, b) => keyOf(a).localeCompare(keyOf(b)));
    body.replaceChildren(table([...(everywhere ? ["Namespace"] : []), ...shown.map(([column]) => column.name)], sorted.map(cells)));
  };
  const keyOf = ({ object: { metadata } }) => `${metadata.namespace ?? ""}/${metadata.name}`;
  try {
    await follow(
      pathOf(resource, namespace),
      "",
      { accept: TABLE, signal },
      (list) => {
        columns = list.columnDefinitions ?? [];
        rows.clear();
        for (const row of list.rows ?? []) rows.set(keyOf(row), row);
        draw();
      },
      (event) => {
        for (const row of event.object.rows ?? []) {
          if (event.type === "DELETED") rows.delete(keyOf(row));
          else rows.set(keyOf(row), row);
        }
        draw();
      },
    );
  } catch (error) {
    if (!signal.aborted) body.replaceChildren(problem(error));
  }
}

async function offer(choice, namespace) {
  let names = [];
  try {
    names = (await get("/api/v1/namespaces")).items.map((one) => one.metadata.name);
  } catch {
    // who may not list them can still name one in the address
  }
  if (namespace && !names.includes(namespace)) names.push(namespace);
  choice.append(h("option", { value: "" }, "all namespaces"));
  for (const one of names) choice.append(h("option", { value: one, selected: one === namespace }, one));
}

async function one(view, resource, namespace, name, signal) {
  const back = h("a", { href: addressOf(resource, namespace) }, resource.plural);
  const body = h("div", {});
  view.append(h("div", { class: "bar" }, back, h("strong", {}, namespace ? `${namespace}/${name}` : name)), body);
  const draw = (object) => {
    const { managedFields, name, namespace, labels, annotations, ...rest } = object.metadata;
    const metadata = Object.fromEntries(
      Object.entries({ name, namespace, labels, annotations, ...rest }).filter(([, value]) => value !== undefined),
    );
    const kind = { apiVersion: resource.group ? `${resource.group}/${resource.version}` : resource.version, kind: resource.kind };
    body.replaceChildren(
      h("pre", {}, yaml({ ...kind, ...object, metadata })),
      h("h3", {}, "Managed fields"),
      table(
        ["Manager", "Operation", "Subresource", "Time", "Fields"],
        (managedFields ?? []).map((entry) => [
          entry.manager,
          entry.operation,
          entry.subresource ?? "",
          entry.time ?? "",
          h("details", {}, h("summary", {}, `${fields(entry.fieldsV1).length}`), h("pre", {}, fields(entry.fieldsV1).join("\n"))),
        ]),
      ),
    );
  };
  const gone = () => body.replaceChildren(h("p", { class: "error" }, "This object does not exist (any more)."));
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

// The paths of a set of fields.
function fields(set, path = "") {
  return Object.entries(set ?? {}).flatMap(([key, below]) => {
    if (key === ".") return [];
    const here = key.startsWith("f:") ? `${path}.${key.slice(2)}` : `${path}[${key.slice(2)}]`;
    const inside = fields(below, here);
    return inside.length ? inside : [here];
  });
}
