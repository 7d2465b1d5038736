// Objects as YAML, and what differs between two of them.

const PLAIN = /^[A-Za-z_/][\w ./()@+=-]*$/;
const WORDS = new Set(["true", "false", "null", "yes", "no", "on", "off", "y", "n"]);

function scalar(value) {
  if (typeof value !== "string") return JSON.stringify(value);
  if (PLAIN.test(value) && !WORDS.has(value.toLowerCase()) && !value.endsWith(" ")) return value;
  return JSON.stringify(value);
}

const empty = (value) => typeof value !== "object" || value === null || Object.keys(value).length === 0;

export function yaml(value, indent = "") {
  if (empty(value)) return typeof value === "object" && value ? (Array.isArray(value) ? "[]" : "{}") : scalar(value);
  if (Array.isArray(value)) {
    return value.map((item) => `${indent}- ${yaml(item, `${indent}  `).trimStart()}`).join("\n");
  }
  return Object.entries(value)
    .map(([key, item]) => {
      if (typeof item === "string" && item.includes("\n") && !/^\s|[ \t]\n|\r|\t/.test(item)) {
        const mark = item.endsWith("\n") ? "|" : "|-";
        const lines = item.replace(/\n$/, "").split("\n").map((line) => (line ? `${indent}  ${line}` : ""));
        return `${indent}${scalar(key)}: ${mark}\n${lines.join("\n")}`;
      }
      if (empty(item)) return `${indent}${scalar(key)}: ${yaml(item)}`;
      return `${indent}${scalar(key)}:\n${yaml(item, Array.isArray(item) ? indent : `${indent}  `)}`;
    })
    .join("\n");
}

// [path, before, after] of each leaf that differs; undefined where there is nothing.
export function differences(before, after, path = "") {
  if (JSON.stringify(before) === JSON.stringify(after)) return [];
  const trees = [before, after].every((one) => typeof one === "object" && one !== null);
  if (!trees || Array.isArray(before) !== Array.isArray(after)) return [[path, before, after]];
  const keys = new Set([...Object.keys(before), ...Object.keys(after)]);
  return [...keys].flatMap((key) =>
    differences(before[key], after[key], Array.isArray(after) ? `${path}[${key}]` : path ? `${path}.${key}` : key),
  );
}

// Without what each write changes.
export function essence(object) {
  const { managedFields, resourceVersion, generation, ...metadata } = object.metadata ?? {};
  return { ...object, metadata };
}
