// The stream of changes of all resources: when, what, by whom, by which manager, and what is different.

import { follow, get, pathOf, Refused, resources } from "./api.js";
import { h } from "./page.js";
import { differences, essence } from "./tree.js";

const KEPT = 500; // changes on the page
const NOISY = new Set(["leases", "events"]);
const TOGETHER = 300; // ms in which the users of several changes are asked for at once

export async function show(view, _, signal) {
  const filter = h("input", { placeholder: "only what contains ..." });
  const noisy = h("input", { type: "checkbox" });
  const state = h("span", { class: "pale" });
  const body = h("tbody", {});
  const matches = (row) => row.textContent.includes(filter.value);
  filter.addEventListener("input", () => {
    for (const row of body.children) row.hidden = !matches(row);
  });
  const headings = ["Time", "Change", "Object", "User", "Manager", "What"].map((text) => h("th", {}, text));
  view.replaceChildren(
    h("div", { class: "bar" }, filter, h("label", {}, noisy, " leases and events"), state),
    h("table", {}, h("thead", {}, h("tr", {}, headings)), body),
  );
  const followed = (await resources()).filter((one) => one.verbs.includes("watch"));
  let refused = 0;
  const authors = new Authors(signal, (row) => (row.hidden = !matches(row)));
  const report = () => (state.textContent = `${followed.length - refused} of ${followed.length} resources are followed`);
  report();
  const add = (resource, type, before, after) => {
    if (NOISY.has(resource.plural) && !noisy.checked) return;
    const row = line(resource, type, before, after, authors);
    row.hidden = !matches(row);
    body.prepend(row);
    while (body.children.length > KEPT) body.lastChild.remove();
  };
  await Promise.all(
    followed.map(async (resource) => {
      const known = new Map();
      try {
        await follow(
          pathOf(resource),
          "",
          { signal },
          (list) => {
            known.clear();
            for (const object of list.items) known.set(object.metadata.uid, object);
          },
          ({ type, object }) => {
            add(resource, type, known.get(object.metadata.uid), object);
            if (type === "DELETED") known.delete(object.metadata.uid);
            else known.set(object.metadata.uid, object);
          },
        );
      } catch {
        refused += 1; // this user may not read it
        report();
      }
    }),
  );
}

// The server says by resource and version who wrote; who may not ask sees nobody.
class Authors {
  // `named(row)` is called when a row has got its name.
  constructor(signal, named) {
    this.signal = signal;
    this.named = named;
    this.cells = new Map(); // that wait for a name
    this.asking = this.refused = false;
  }

  cell(resource, object) {
    const cell = h("td", {});
    if (this.refused) return cell;
    const plural = resource.group ? `${resource.plural}.${resource.group}` : resource.plural;
    this.cells.set(`${plural}/${object.metadata.resourceVersion}`, cell);
    if (!this.asking) setTimeout(() => this.ask(), TOGETHER);
    this.asking = true;
    return cell;
  }

  async ask() {
    const { cells } = this;
    this.cells = new Map();
    this.asking = false;
    try {
      const { items } = await get("/kapi/console/authors", { signal: this.signal });
      for (const { resource, resourceVersion, user } of items) {
        const cell = cells.get(`${resource}/${resourceVersion}`);
        cell?.append(user);
        if (cell) this.named(cell.parentElement);
      }
    } catch (error) {
      this.refused = error instanceof Refused && error.code === 403; // else the next change asks again
    }
  }
}

function line(resource, type, before, after, authors) {
  const { namespace, name } = after.metadata;
  const last = [...(after.metadata.managedFields ?? [])].sort((a, b) => (a.time ?? "").localeCompare(b.time ?? "")).pop();
  return h(
    "tr",
    { class: "new" },
    h("td", {}, new Date().toLocaleTimeString()),
    h("td", {}, type),
    h("td", {}, `${resource.plural} ${namespace ? `${namespace}/` : ""}${name}`),
    authors.cell(resource, after),
    h("td", {}, last?.manager ?? ""),
    h("td", {}, type === "MODIFIED" && before ? different(before, after) : ""),
  );
}

function different(before, after) {
  const found = differences(essence(before), essence(after));
  const short = (value) => (JSON.stringify(value) ?? "").slice(0, 120);
  return found.slice(0, 20).map(([path, was, is]) =>
    h(
      "div",
      {},
      `${path}: `,
      was === undefined ? "" : h("span", { class: "removed" }, short(was)),
      " ",
      is === undefined ? "" : h("span", { class: "added" }, short(is)),
    ),
  );
}
