// Building pieces of the page. Texts are set as text, never as HTML.

export function h(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value !== false && value != null) node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat().map((child) => (child instanceof Node ? child : String(child ?? ""))));
  return node;
}

export function table(headings, rows) {
  const kind = (value) => ({ class: typeof value === "number" ? "number" : null });
  const heading = (text, index) => h("th", kind(rows[0]?.[index]), text);
  return h(
    "table",
    {},
    h("thead", {}, h("tr", {}, headings.map(heading))),
    h("tbody", {}, rows.map((row) => h("tr", {}, row.map((value) => h("td", kind(value), value))))),
  );
}

export const problem = (error) => h("p", { class: "error" }, error.message);

// Calls `step` now and every `seconds` until the view is left; what fails is shown and tried again.
export function every(seconds, signal, view, step) {
  const run = async () => {
    try {
      await step();
    } catch (error) {
      if (!signal.aborted) view.replaceChildren(problem(error));
    }
    if (!signal.aborted) setTimeout(run, seconds * 1000);
  };
  run();
}
