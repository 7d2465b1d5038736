// All kinds, and the objects of one kind as kubectl shows them: followed while they are shown.

import { TABLE, follow, get, pathOf, resources } from "./api.js";
import * as object from "./object.js";
import { h, problem, scroller } from "./page.js";

const MOST = 1000; // rows on the page
const CALM = 150; // ms between two drawings

export const addressOf = (resource, namespace, name) =>
  `#/resources/${resource.group || "core"}/${resource.version}/${resource.plural}/${namespace || "-"}${name ? `/${encodeURIComponent(name)}` : ""}`;

export async function show(view, [group, version, plural, namespace, name, tab], signal) {
  const known = await resources();
  const wanted = known.find((one) => one.plural === plural && (one.group || "core") === group && one.version === version);
  const place = namespace === "-" ? "" : (namespace ?? "");
  const right = h("section", {});
  view.replaceChildren(h("div", { class: "split" }, kinds(known, wanted, place), right));
  if (!wanted) right.append(h("h1", {}, "Resources"), h("p", { class: "pale" }, plural ? "This kind is not served." : "Choose a kind."));
  else if (name) await object.show(right, { known, resource: wanted, namespace: place, name, tab }, signal);
  else await all(right, wanted, place, signal);
}

function kinds(known, wanted, namespace) {
  const search = h("input", { type: "search", "data-search": true, "aria-label": "Find a kind", placeholder: "find a kind (/)" });
  const groups = new Map();
  for (const resource of known) {
    const list = groups.get(resource.group) ?? h("div", {}, h("h2", {}, resource.group || "core"));
    groups.set(resource.group, list);
    list.append(h("a", { href: addressOf(resource, namespace), "aria-current": resource === wanted ? "page" : null }, resource.plural));
  }
  search.addEventListener("input", () => {
    for (const group of groups.values()) {
      const links = [...group.querySelectorAll("a")];
      for (const link of links) link.hidden = !link.textContent.includes(search.value.trim().toLowerCase());
      group.hidden = links.every((link) => link.hidden);
    }
  });
  search.addEventListener("keydown", (event) => {
    if (event.key === "Enter") [...nav.querySelectorAll("a")].find((link) => !link.hidden)?.click();
  });
  const nav = h("nav", { class: "kinds", "aria-label": "Kinds" }, search, [...groups.values()]);
  const wide = matchMedia("(min-width: 701px)").matches;
  return h("details", { open: wide || !wanted }, h("summary", {}, "Kinds"), nav);
}

async function all(view, resource, namespace, signal) {
  const place = h("input", { list: "namespaces", type: "search", "aria-label": "Namespace", placeholder: "all namespaces", value: namespace });
  place.addEventListener("change", () => (location.hash = addressOf(resource, place.value.trim())));
  const filter = h("input", { type: "search", "aria-label": "Filter by text", placeholder: "only what contains ..." });
  const labels = h("input", { type: "search", "aria-label": "Filter by label", placeholder: "label: app=x,tier!=y" });
  const body = h("div", {});
  view.append(h("h1", {}, resource.kind), h("div", { class: "bar" }, resource.namespaced ? place : "", labels, filter), body);
  if (resource.namespaced) view.append(await namespaces());
  let running = new AbortController();
  const begin = () => {
    running.abort();
    running = new AbortController();
    const selector = labels.value.trim();
    const selection = selector ? `labelSelector=${encodeURIComponent(selector)}` : "";
    return followed(body, resource, namespace, selection, AbortSignal.any([signal, running.signal]), filter);
  };
  labels.addEventListener("change", begin);
  await begin();
}

async function namespaces() {
  let names = [];
  try {
    names = (await get("/api/v1/namespaces")).items.map((one) => one.metadata.name);
  } catch {
    // who may not list them can still enter one
  }
  return h("datalist", { id: "namespaces" }, names.map((name) => h("option", { value: name })));
}

const keyOf = ({ object: { metadata } }) => `${metadata.namespace ?? ""}/${metadata.name}`;

// The table of a kind in a view, updated by a watch; `filter` is a field whose text the rows have to contain.
export async function followed(view, resource, namespace, selection, signal, filter) {
  const count = h("span", { class: "pale", role: "status" });
  const head = h("thead", {});
  const body = h("tbody", {});
  view.replaceChildren(count, scroller(resource.kind, h("table", {}, head, body)));
  const everywhere = resource.namespaced && !namespace;
  const rows = new Map();
  let shown = []; // {name, value(row)}
  let order = { column: -1, sign: 1 };
  let due;
  const draw = () => {
    due = undefined;
    const column = shown[order.column];
    const value = (row) => (column ? String(column.sort(row) ?? "") : keyOf(row));
    const compare = (a, b) => order.sign * value(a).localeCompare(value(b), undefined, { numeric: true });
    const wanted = filter?.value ?? "";
    const lines = [...rows.values()].filter((row) => !wanted || [keyOf(row), ...row.cells].join(" ").includes(wanted));
    count.textContent = `${lines.length} objects${lines.length > MOST ? `, ${MOST} are shown` : ""}`;
    body.replaceChildren(
      ...lines
        .sort(compare)
        .slice(0, MOST)
        .map((row) => h("tr", {}, shown.map((each) => h("td", { class: typeof each.cell(row) === "number" ? "number" : null }, each.cell(row))))),
    );
  };
  const later = () => (due ??= setTimeout(draw, CALM));
  const arrange = (columns) => {
    const link = ({ object: { metadata } }, text) => h("a", { href: addressOf(resource, metadata.namespace, metadata.name) }, text);
    shown = columns
      .map(({ name, priority }, index) => ({
        name,
        priority,
        cell: (row) => (name === "Name" ? link(row, row.cells[index]) : row.cells[index]),
        sort: (row) => (name === "Age" ? row.object.metadata.creationTimestamp : row.cells[index]),
      }))
      .filter((column) => !column.priority);
    const of = ({ object: { metadata } }) => metadata.namespace;
    if (everywhere) shown.unshift({ name: "Namespace", cell: of, sort: of });
    head.replaceChildren(h("tr", {}, shown.map(({ name }, index) => h("th", { scope: "col" }, sorter(name, index)))));
  };
  const sorter = (name, index) => {
    const press = () => {
      order = { column: index, sign: order.column === index ? -order.sign : 1 };
      [...head.rows[0].cells].forEach((cell, at) => {
        if (at === index) cell.setAttribute("aria-sort", order.sign > 0 ? "ascending" : "descending");
        else cell.removeAttribute("aria-sort");
      });
      draw();
    };
    return h("button", { type: "button", onclick: press }, name);
  };
  filter?.addEventListener("input", later);
  try {
    await follow(
      pathOf(resource, namespace),
      selection,
      { accept: TABLE, signal },
      (list) => {
        arrange(list.columnDefinitions ?? []);
        rows.clear();
        for (const row of list.rows ?? []) rows.set(keyOf(row), row);
        draw();
      },
      (event) => {
        for (const row of event.object.rows ?? []) {
          if (event.type === "DELETED") rows.delete(keyOf(row));
          else rows.set(keyOf(row), row);
        }
        later();
      },
    );
  } catch (error) {
    if (!signal.aborted) view.replaceChildren(problem(error));
  }
}
