// Requests and how long they take, from the server's metrics, since this page was opened.

import { quantile, requests } from "./metrics.js";
import { every, h, scroller, table } from "./page.js";

const SECONDS = 2;

export async function show(view, _, signal) {
  const body = h("div", {}, "Waiting for a second look at the metrics ...");
  view.replaceChildren(
    h("h1", {}, "Requests"),
    h("p", { class: "pale" }, "Of the server process that answers; quantiles are bounds of the histogram's buckets."),
    body,
  );
  let first, last;
  every(SECONDS, signal, body, async () => {
    const now = await requests(signal);
    first ??= now;
    if (last) draw(body, first, last, now);
    last = now;
  });
}

function draw(body, first, last, now) {
  const rows = [...now].map(([key, one]) => {
    const begin = first.get(key) ?? { count: 0, buckets: new Map() };
    const rate = (one.count - (last.get(key)?.count ?? 0)) / SECONDS;
    return [key, one.count - begin.count, rate, time(quantile(begin, one, 0.5)), time(quantile(begin, one, 0.99))];
  });
  rows.sort((a, b) => b[1] - a[1] || a[0].localeCompare(b[0]));
  const busy = rows.filter((row) => row[1]);
  body.replaceChildren(scroller("Requests", table(["Request", "Since opened", "A second", "p50", "p99"], busy)));
}

function time(bound) {
  if (bound === undefined) return "";
  return bound === Infinity ? "over all bounds" : `< ${bound * 1000} ms`;
}
