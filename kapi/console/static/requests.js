// Requests and how long they take, from the server's metrics, since this page was opened.

import { text } from "./api.js";
import { every, h, table } from "./page.js";

const SECONDS = 2;
const LINE = /^(apiserver_request_duration_seconds_(?:bucket|count))\{(.*)\} (\S+)$/;
const LABEL = /(\w+)="((?:[^"\\]|\\.)*)"/g;

export async function show(view, _, signal) {
  const body = h("div", {}, "Waiting for a second look at the metrics ...");
  view.replaceChildren(
    h("p", { class: "pale" }, "Of the server process that answers; quantiles are bounds of the histogram's buckets."),
    body,
  );
  let first, last;
  every(SECONDS, signal, body, async () => {
    const now = read(await text("/metrics", signal));
    first ??= now;
    if (last) draw(body, first, last, now);
    last = now;
  });
}

// By verb and resource: count, and the cumulative counts of the buckets.
function read(metrics) {
  const found = new Map();
  for (const line of metrics.split("\n")) {
    const [, name, labels, value] = LINE.exec(line) ?? [];
    if (!name) continue;
    const of = Object.fromEntries([...labels.matchAll(LABEL)].map((pair) => [pair[1], pair[2]]));
    const key = `${of.verb} ${of.resource || "-"}${of.subresource ? `/${of.subresource}` : ""}`;
    if (!found.has(key)) found.set(key, { count: 0, buckets: new Map() });
    const one = found.get(key);
    if (name.endsWith("count")) one.count += Number(value);
    else one.buckets.set(of.le, (one.buckets.get(of.le) ?? 0) + Number(value));
  }
  return found;
}

function draw(body, first, last, now) {
  const rows = [...now].map(([key, one]) => {
    const begin = first.get(key) ?? { count: 0, buckets: new Map() };
    const rate = (one.count - (last.get(key)?.count ?? 0)) / SECONDS;
    return [key, one.count - begin.count, rate, quantile(begin, one, 0.5), quantile(begin, one, 0.99)];
  });
  rows.sort((a, b) => b[1] - a[1] || a[0].localeCompare(b[0]));
  const busy = rows.filter((row) => row[1]);
  body.replaceChildren(table(["Request", "Since opened", "A second", "p50", "p99"], busy));
}

function quantile(begin, now, share) {
  const count = now.count - begin.count;
  for (const [bound, value] of now.buckets) {
    if (value - (begin.buckets.get(bound) ?? 0) >= count * share) return bound === "+Inf" ? "over all bounds" : `< ${Number(bound) * 1000} ms`;
  }
  return "";
}
