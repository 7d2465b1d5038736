// What is worth knowing of an object at first sight, of any kind.

import { h, scroller, table } from "./page.js";

const UNITS = [["d", 86400], ["h", 3600], ["m", 60], ["s", 1]];
const DEEP = 3; // levels of spec and status that are shown

export function age(time) {
  let left = Math.max(0, Math.floor((Date.now() - Date.parse(time)) / 1000));
  const parts = [];
  for (const [unit, seconds] of UNITS) {
    const count = Math.floor(left / seconds);
    left -= count * seconds;
    if (count) parts.push(`${count}${unit}`);
  }
  return parts.slice(0, 2).join("") || "0s";
}

const pairs = (map) => Object.entries(map ?? {}).map(([key, value]) => h("div", {}, `${key}=${value}`));
const list = (terms) => h("dl", { class: "summary" }, terms.flatMap(([term, value]) => [h("dt", {}, term), h("dd", {}, value)]));

export function summary(object) {
  const { metadata } = object;
  const owners = (metadata.ownerReferences ?? []).map((owner) => h("div", {}, `${owner.kind}/${owner.name}`));
  const terms = [
    ["Name", metadata.name],
    ["Namespace", metadata.namespace],
    ["Labels", pairs(metadata.labels)],
    ["Annotations", pairs(metadata.annotations)],
    ["Age", metadata.creationTimestamp ? age(metadata.creationTimestamp) : ""],
    ["Deleted since", metadata.deletionTimestamp ? age(metadata.deletionTimestamp) : ""],
    ["Finalizers", (metadata.finalizers ?? []).map((one) => h("div", {}, one))],
    ["Controlled by", owners],
  ].filter(([, value]) => value?.length);
  const found = [list(terms), ...conditions(object), ...containers(object)];
  for (const part of ["spec", "status"]) {
    const leaves = [...flat(object[part] ?? {})].filter(([path]) => !/^(conditions|containers|template)\b/.test(path));
    if (leaves.length) found.push(h("h2", {}, part === "spec" ? "Spec" : "Status"), list(leaves));
  }
  if (object.data) found.push(h("h2", {}, "Data"), list(Object.entries(object.data).map(([key, value]) => [key, `${value.length} characters`])));
  return h("div", {}, found);
}

function conditions(object) {
  const all = object.status?.conditions;
  if (!Array.isArray(all) || !all.length) return [];
  const rows = all.map(({ type, status, reason, message, lastTransitionTime }) => [
    type, status, reason ?? "", lastTransitionTime ? age(lastTransitionTime) : "", message ?? "",
  ]);
  return [h("h2", {}, "Conditions"), scroller("Conditions", table(["Type", "Status", "Reason", "Since", "Message"], rows))];
}

function containers(object) {
  const spec = object.spec?.containers ? object.spec : object.spec?.template?.spec;
  if (!Array.isArray(spec?.containers)) return [];
  const states = new Map((object.status?.containerStatuses ?? []).map((one) => [one.name, one]));
  const rows = spec.containers.map(({ name, image, ports }) => {
    const state = states.get(name);
    const now = Object.entries(state?.state ?? {}).map(([key, { reason }]) => (reason ? `${key}: ${reason}` : key));
    return [name, image ?? "", (ports ?? []).map((port) => port.containerPort).join(", "), now.join(), state ? state.restartCount : ""];
  });
  return [h("h2", {}, "Containers"), scroller("Containers", table(["Name", "Image", "Ports", "State", "Restarts"], rows))];
}

// Paths and values of the leaves; what is deeper, or a list of trees, is counted.
function* flat(value, path = "", depth = 0) {
  for (const [key, below] of Object.entries(value)) {
    const here = path ? `${path}.${key}` : key;
    if (typeof below !== "object" || below === null) yield [here, String(below)];
    else if (Array.isArray(below)) {
      const plain = below.every((item) => typeof item !== "object");
      yield [here, plain ? below.join(", ") : `${below.length} entries`];
    } else if (depth + 1 < DEEP) yield* flat(below, here, depth + 1);
    else yield [here, `${Object.keys(below).length} fields`];
  }
}
