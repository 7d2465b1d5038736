// Building pieces of the page. Texts are set as text, never as HTML.

const SVG = "http://www.w3.org/2000/svg";

function filled(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value !== false && value != null) node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat().map((child) => (child instanceof Node ? child : String(child ?? ""))));
  return node;
}

export const h = (tag, attributes = {}, ...children) => filled(document.createElement(tag), attributes, children);
export const svg = (tag, attributes = {}, ...children) => filled(document.createElementNS(SVG, tag), attributes, children);

// Scrolls sideways by itself, with the keyboard too, so that the page fits a phone.
export const scroller = (label, ...children) => h("div", { class: "scroller", role: "region", "aria-label": label, tabindex: "0" }, children);

export function table(headings, rows) {
  const kind = (value) => ({ class: typeof value === "number" ? "number" : null });
  const heading = (text, index) =>
    text instanceof Node ? text : h(text ? "th" : "td", { ...kind(rows[0]?.[index]), scope: text ? "col" : null }, text);
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
