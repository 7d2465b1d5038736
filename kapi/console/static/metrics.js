// The server's metrics of requests: read from its text, by verb and resource.

import { text } from "./api.js";

const LINE = /^(apiserver_request_duration_seconds_(?:bucket|count))\{(.*)\} (\S+)$/;
const LABEL = /(\w+)="((?:[^"\\]|\\.)*)"/g;
const LONG = new Set(["WATCH", "CONNECT", "PROXY"]); // their time says nothing

// {count, buckets: upper bound -> cumulative count} by "verb resource".
export async function requests(signal) {
  const found = new Map();
  for (const line of (await text("/metrics", signal)).split("\n")) {
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

// All requests that end soon, as one.
export function total(found) {
  const sum = { count: 0, buckets: new Map() };
  for (const [key, one] of found) {
    if (LONG.has(key.split(" ")[0])) continue;
    sum.count += one.count;
    for (const [bound, value] of one.buckets) sum.buckets.set(bound, (sum.buckets.get(bound) ?? 0) + value);
  }
  return sum;
}

// The bound in seconds of the bucket in which a share of the requests since `begin` is; undefined without requests.
export function quantile(begin, now, share) {
  const count = now.count - begin.count;
  if (!count) return undefined;
  for (const [bound, value] of now.buckets) {
    if (value - (begin.buckets.get(bound) ?? 0) >= count * share) return bound === "+Inf" ? Infinity : Number(bound);
  }
  return Infinity;
}
