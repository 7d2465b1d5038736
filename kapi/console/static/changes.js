// The stream of changes of all resources: when, what, by which manager, and what is different.

import { follow, pathOf, resources } from "./api.js";
import { h } from "./page.js";
import { differences, essence } from "./tree.js";

const KEPT = 500; // changes on the page
const NOISY = new Set(["leases", "events"]);

export async function show(view, _, signal) {
  const filter = h("input", { placeholder: "only what contains ..." });
  const noisy = h("input", { type: "checkbox" });
  const state = h("span", { class: "pale" });
  const body = h("tbody", {});
  const matches = (row) => row.textContent.includes(filter.value);
  filter.addEventListener("input", () => {
    for (const row of body.children) row.hidden = !matches(row);
  });
  const headings = ["Time", "Change", "Object", "Manager", "What"].map((text) => h("th", {}, text));
  view.replaceChildren(
    h("div", { class: "bar" }, filter, h("label", {}, noisy, " leases and events"), state),
    h("table", {}, h("thead", {}, h("tr", {}, headings)), body),
  );
  const followed = (await resources()).filter((one) => one.verbs.includes("watch"));
  let refused = 0;
  const tell = () => (state.textContent = `${followed.length - refused} of ${followed.length} resources are followed`);
  tell();
  const add = (resource, type, before, after) => {
    if (NOISY.has(resource.plural) && !noisy.checked) return;
    const row = line(resource, type, before, after);
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
        tell();
      }
    }),
  );
}

function line(resource, type, before, after) {
  const { namespace, name } = after.metadata;
  const last = [...(after.metadata.managedFields ?? [])].sort((a, b) => (a.time ?? "").localeCompare(b.time ?? "")).pop();
  return h(
    "tr",
    { class: "new" },
    h("td", {}, new Date().toLocaleTimeString()),
    h("td", {}, type),
    h("td", {}, `${resource.plural} ${namespace ? `${namespace}/` : ""}${name}`),
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
