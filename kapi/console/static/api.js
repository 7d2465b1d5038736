// Requests to the API server, in the name of who has logged in: what a user may not see, the server refuses.

export const TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io";
const DISCOVERY = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
const TRIES = 5; // once more; all requests of this page read
const KEY = "kapi-token"; // of this tab alone; without one the browser's certificate counts

export class Refused extends Error {
  constructor(code, message) {
    super(message);
    this.code = code;
  }
}

export function login(token) {
  if (token) sessionStorage.setItem(KEY, token);
  else sessionStorage.removeItem(KEY);
}

// A server ends a connection after a request of nobody, and what the browser has sent on it meanwhile is lost.
async function patiently(ask, signal) {
  for (let left = TRIES; ; left -= 1) {
    try {
      return await ask();
    } catch (error) {
      if (!left || signal?.aborted || !(error instanceof TypeError)) throw error; // a TypeError: there was no answer
      await new Promise((resume) => setTimeout(resume, 200));
    }
  }
}

async function send(path, accept, signal, method = "GET", body = undefined) {
  const headers = { Accept: accept };
  const token = sessionStorage.getItem(KEY);
  if (token) headers.Authorization = `Bearer ${token}`;
  if (body) headers["Content-Type"] = "application/json";
  const answer = await patiently(() => fetch(path, { method, headers, signal, body, cache: "no-store" }), signal);
  if (answer.ok) return answer;
  const text = await answer.text();
  let message = text;
  try {
    message = JSON.parse(text).message ?? text;
  } catch {
    // not a Status
  }
  throw new Refused(answer.status, message || `HTTP ${answer.status}`);
}

export const get = async (path, { accept = "application/json", signal } = {}) => (await send(path, accept, signal)).json();
export const text = async (path, signal) => (await send(path, "text/plain", signal)).text();

export async function whoAmI() {
  const kind = { apiVersion: "authentication.k8s.io/v1", kind: "SelfSubjectReview" };
  const path = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
  const ask = (signal) => send(path, "application/json", signal, "POST", JSON.stringify(kind));
  const answer = await ask(AbortSignal.timeout(3000)).catch((error) => {
    if (error.name !== "TimeoutError") throw error;
    return ask();
  });
  return (await answer.json()).status.userInfo.username;
}

// The events of a watch as they come; ends when the server ends it.
export async function* watch(path, query, { accept = "application/json", signal }) {
  const answer = await send(`${path}?watch=1&allowWatchBookmarks=true&${query}`, accept, signal);
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const lines = (rest + value).split("\n");
    rest = lines.pop();
    for (const line of lines) if (line) yield JSON.parse(line);
  }
}

// Lists, then follows, and begins anew when the history is gone: `loaded(list)`, then `changed(event)` for each event.
export async function follow(path, selection, options, loaded, changed) {
  while (!options.signal.aborted) {
    const list = await get(`${path}?${selection}`, options);
    loaded(list);
    let revision = list.metadata.resourceVersion;
    for (let gone = false; !gone && !options.signal.aborted; ) {
      try {
        for await (const event of watch(path, `${selection}&resourceVersion=${revision}`, options)) {
          if (event.type === "ERROR") {
            gone = true;
            break;
          }
          const object = event.object.rows ? event.object.rows[0]?.object : event.object;
          revision = object?.metadata?.resourceVersion ?? revision;
          if (event.type !== "BOOKMARK") changed(event);
        }
      } catch (error) {
        if (options.signal.aborted) return;
        if (error instanceof Refused && error.code !== 410) throw error;
        gone = error instanceof Refused;
      }
      await new Promise((resume) => setTimeout(resume, 500)); // a watch that ends at once must not be asked in a circle
    }
  }
}

// Everything that can be listed: {group, version, plural, kind, namespaced, verbs}, sorted.
export async function resources() {
  const found = [];
  for (const root of ["/api", "/apis"]) {
    const list = await get(root, { accept: DISCOVERY });
    for (const group of list.items) {
      const version = group.versions[0]; // the preferred one
      for (const one of version.resources ?? []) {
        if (!one.verbs.includes("list")) continue;
        found.push({
          group: group.metadata.name ?? "",
          version: version.version,
          plural: one.resource,
          kind: one.responseKind.kind,
          namespaced: one.scope === "Namespaced",
          verbs: one.verbs,
        });
      }
    }
  }
  return found.sort((a, b) => a.group.localeCompare(b.group) || a.plural.localeCompare(b.plural));
}

export function pathOf(resource, namespace = "", name = "") {
  const root = resource.group ? `/apis/${resource.group}/${resource.version}` : `/api/${resource.version}`;
  const place = namespace && resource.namespaced ? `/namespaces/${encodeURIComponent(namespace)}` : "";
  return `${root}${place}/${resource.plural}${name ? `/${encodeURIComponent(name)}` : ""}`;
}
