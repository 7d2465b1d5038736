// Priority and fairness: the levels, their seats, and who waits.

import { text } from "./api.js";
import { every, h, scroller, table } from "./page.js";

const DUMPS = "/debug/api_priority_and_fairness";

export async function show(view, _, signal) {
  const body = h("div", {});
  view.replaceChildren(h("h1", {}, "Queues"), body);
  every(2, signal, body, async () => {
    const [levels, requests] = await Promise.all(
      ["dump_priority_levels", "dump_requests"].map(async (name) => rows(await text(`${DUMPS}/${name}`, signal))),
    );
    body.replaceChildren(h("h2", {}, "Priority levels"), scroller("Priority levels", table(levels[0] ?? [], levels.slice(1))));
    body.append(h("h2", {}, "Requests that wait or run"), scroller("Requests that wait or run", table(requests[0] ?? [], requests.slice(1))));
  });
}

const rows = (dump) =>
  dump
    .split("\n")
    .filter((line) => line.trim())
    .map((line) => line.split(",").map((cell) => cell.trim()).filter((cell, index, all) => cell || index < all.length - 1));
