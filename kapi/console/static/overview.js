// How the cluster is: numbers of objects, what is unhealthy, recent warnings, and the server's requests as charts.

import { Refused, get, pathOf } from "./api.js";
import { quantile, requests, total } from "./metrics.js";
import { every, h, problem, scroller, svg, table } from "./page.js";
import { addressOf } from "./resources.js";
import { age } from "./summary.js";

const SECONDS = 5; // between two looks
const POINTS = 60; // of a chart
const MOST = 500; // objects of a kind that are looked at
const WARNINGS = 10;
const METADATA = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";

const core = (plural, kind, namespaced = true) => ({ group: "", version: "v1", plural, kind, namespaced });
const apps = (plural, kind) => ({ group: "apps", version: "v1", plural, kind, namespaced: true });
const COUNTED = [
  core("nodes", "Nodes", false), core("namespaces", "Namespaces", false), core("pods", "Pods"), apps("deployments", "Deployments"),
  core("services", "Services"), core("configmaps", "ConfigMaps"),
  { group: "apiextensions.k8s.io", version: "v1", plural: "customresourcedefinitions", kind: "Custom resources", namespaced: false },
];

const condition = (object, type) => object.status?.conditions?.find((one) => one.type === type);
const without = (type) => (object) => {
  const found = condition(object, type);
  return found?.status === "True" ? "" : `not ${type}${found?.reason ? `: ${found.reason}` : ""}`;
};
const replicas = ({ spec, status }) => {
  const wanted = spec?.replicas ?? 1;
  const ready = status?.readyReplicas ?? 0;
  return ready < wanted ? `${ready} of ${wanted} replicas are ready` : "";
};
const EXAMINED = [
  [core("nodes", "Node", false), without("Ready")],
  [core("pods", "Pod"), (pod) => (pod.status?.phase === "Succeeded" ? "" : pod.status?.phase === "Running" ? without("Ready")(pod) : (pod.status?.phase ?? "Pending"))],
  [apps("deployments", "Deployment"), replicas],
  [apps("statefulsets", "StatefulSet"), replicas],
  [core("persistentvolumeclaims", "PersistentVolumeClaim"), ({ status }) => (status?.phase === "Bound" ? "" : (status?.phase ?? "Pending"))],
  [{ group: "batch", version: "v1", plural: "jobs", kind: "Job", namespaced: true }, (job) => (condition(job, "Failed")?.status === "True" ? "Failed" : "")],
  [{ group: "apiregistration.k8s.io", version: "v1", plural: "apiservices", kind: "APIService", namespaced: false }, without("Available")],
];

export async function show(view, _, signal) {
  const counts = h("div", { class: "tiles" });
  const charts = h("div", { class: "tiles" });
  const unhealthy = h("div", {});
  const warnings = h("div", {});
  view.replaceChildren(
    h("h1", {}, "Overview"),
    counts,
    h("h2", {}, "Requests of this server process"),
    charts,
    h("h2", {}, "Unhealthy objects"),
    unhealthy,
    h("h2", {}, "Recent warnings"),
    warnings,
  );
  every(SECONDS, signal, counts, async () => counts.replaceChildren(...(await Promise.all(COUNTED.map((one) => counted(one, signal))))));
  every(SECONDS, signal, unhealthy, async () => unhealthy.replaceChildren(await examined(signal)));
  every(SECONDS, signal, warnings, async () => warnings.replaceChildren(await recent(signal)));
  const rates = [];
  const slow = [];
  let last;
  every(SECONDS, signal, charts, async () => {
    const now = total(await requests(signal));
    if (last) {
      rates.push((now.count - last.count) / SECONDS);
      const bound = quantile(last, now, 0.99);
      slow.push(bound === undefined ? 0 : Math.min(bound, 60) * 1000);
      for (const points of [rates, slow]) if (points.length > POINTS) points.shift();
    }
    last = now;
    charts.replaceChildren(chart("Requests a second", rates, ""), chart("99 of 100 answers within", slow, " ms"));
  });
}

async function counted(resource, signal) {
  let figure;
  try {
    const list = await get(`${pathOf(resource)}?limit=1`, { accept: METADATA, signal });
    figure = (list.items ?? []).length + (list.metadata.remainingItemCount ?? 0);
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    figure = "-"; // this user may not list them
  }
  return h("div", { class: "tile" }, h("h3", {}, h("a", { href: addressOf(resource) }, resource.kind)), h("div", { class: "figure" }, figure));
}

async function examined(signal) {
  const rows = [];
  let more = false;
  await Promise.all(
    EXAMINED.map(async ([resource, judge]) => {
      try {
        const list = await get(`${pathOf(resource)}?limit=${MOST}`, { signal });
        more ||= Boolean(list.metadata.continue);
        for (const object of list.items) {
          const { namespace = "", name } = object.metadata;
          const why = judge(object);
          if (why) rows.push([resource.kind, namespace, h("a", { href: addressOf(resource, namespace, name) }, name), why]);
        }
      } catch (error) {
        if (!(error instanceof Refused)) throw error;
      }
    }),
  );
  const note = more ? h("p", { class: "pale" }, `Of each kind, ${MOST} objects were looked at.`) : "";
  if (!rows.length) return h("div", {}, h("p", { class: "pale" }, "None."), note);
  return h("div", {}, scroller("Unhealthy objects", table(["Kind", "Namespace", "Name", "Why"], rows)), note);
}

async function recent(signal) {
  let list;
  try {
    list = await get(`/api/v1/events?limit=${MOST}&fieldSelector=type%3DWarning`, { signal });
  } catch (error) {
    if (error instanceof Refused) return problem(error);
    throw error;
  }
  const when = (event) => event.series?.lastObservedTime ?? event.lastTimestamp ?? event.eventTime ?? event.metadata.creationTimestamp;
  const rows = list.items
    .sort((a, b) => when(b).localeCompare(when(a)))
    .slice(0, WARNINGS)
    .map((event) => [age(when(event)), `${event.involvedObject.kind} ${event.involvedObject.name}`, event.reason ?? "", event.message ?? ""]);
  if (!rows.length) return h("p", { class: "pale" }, "None.");
  return scroller("Recent warnings", table(["Ago", "Object", "Reason", "Message"], rows));
}

function chart(name, points, unit) {
  const most = Math.max(...points, 1);
  const last = points.length ? `${Number(points.at(-1).toFixed(1))}${unit}` : "...";
  const steps = points.map((value, index) => `${index ? "L" : "M"}${(index * 100) / (POINTS - 1)} ${29 - (value * 28) / most}`).join(" ");
  const label = `${name}: ${last}, at most ${Number(most.toFixed(1))}${unit}`;
  return h(
    "div",
    { class: "tile" },
    h("h3", {}, name),
    h("div", { class: "figure" }, last),
    svg("svg", { class: "chart", viewBox: "0 0 100 30", preserveAspectRatio: "none", role: "img", "aria-label": label }, svg("path", { d: steps })),
  );
}
