// The stream of changes of all resources: when, what, by whom, by which manager, and what is different.

import { get, Refused, serverEvents } from "./api.js";
import { h, scroller } from "./page.js";
import { differences, essence } from "./tree.js";

const KEPT = 500; // changes on the page
const NOISY = new Set(["leases.coordination.k8s.io", "events", "events.events.k8s.io"]);
const TOGETHER = 300; // ms in which the users of several changes are asked for at once
const PAUSE = 1000; // ms before a stream that has ended is begun anew

export async function show(view, _, signal) {
  const filter = h("input", { type: "search", "data-search": true, "aria-label": "Filter", placeholder: "only what contains ... (/)" });
  const noisy = h("input", { type: "checkbox" });
  const state = h("span", { class: "pale", role: "status" }, "Waiting for the server ...");
  const body = h("tbody", {});
  const matches = (row) => row.textContent.includes(filter.value);
  filter.addEventListener("input", () => {
    for (const row of body.children) row.hidden = !matches(row);
  });
  const headings = ["Time", "Change", "Object", "User", "Manager", "What"].map((text) => h("th", { scope: "col" }, text));
  view.replaceChildren(
    h("h1", {}, "Changes"),
    h("div", { class: "bar" }, filter, h("label", {}, noisy, " leases and events"), state),
    scroller("Changes", h("table", {}, h("thead", {}, h("tr", {}, headings)), body)),
  );
  const authors = new Authors(signal, (row) => (row.hidden = !matches(row)));
  const add = (row) => {
    row.hidden = !matches(row);
    body.prepend(row);
    while (body.children.length > KEPT) body.lastChild.remove();
  };
  const gap = () => add(h("tr", {}, h("td", { colspan: "6", class: "pale" }, "Changes may be missing here.")));
  for (let first = true; !signal.aborted; first = false) {
    try {
      for await (const { event, data } of serverEvents("/kapi/console/changes", signal)) {
        if (event === "resources") {
          state.textContent = `${data.resources.length} resources are followed`;
          if (!first) gap();
        } else if (event === "missed") gap();
        else if (noisy.checked || !NOISY.has(data.resource)) add(line(data, authors));
      }
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof Refused && error.code < 500 && error.code !== 429) throw error;
    }
    if (!signal.aborted) state.textContent = "The stream has ended, and begins anew ...";
    await new Promise((resume) => setTimeout(resume, PAUSE));
  }
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
    this.cells.set(`${resource}/${object.metadata.resourceVersion}`, cell);
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

function line({ type, resource, before, object }, authors) {
  const { namespace, name } = object.metadata;
  const last = [...(object.metadata.managedFields ?? [])].sort((a, b) => (a.time ?? "").localeCompare(b.time ?? "")).pop();
  return h(
    "tr",
    { class: "new" },
    h("td", {}, new Date().toLocaleTimeString()),
    h("td", {}, type),
    h("td", {}, `${resource} ${namespace ? `${namespace}/` : ""}${name}`),
    authors.cell(resource, object),
    h("td", {}, last?.manager ?? ""),
    h("td", {}, type === "MODIFIED" && before ? different(before, object) : ""),
  );
}

export function different(before, after) {
  const found = differences(essence(before), essence(after));
  const short = (value) => (JSON.stringify(value) ?? "").slice(0, 120);
  return found.slice(0, 20).map(([path, was, is]) =>
    h(
      "div",
      {},
      `${path}: `,
      was === undefined ? "" : h("del", { class: "removed" }, short(was)),
      " ",
      is === undefined ? "" : h("ins", { class: "added" }, short(is)),
    ),
  );
}
