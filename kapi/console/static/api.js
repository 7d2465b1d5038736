// Requests to the API server, in the name of who has logged in: what a user may not see, the server refuses.

export const TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io";
const DISCOVERY = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
const TRIES = 5; // once more; all requests of this page read, or are repeated without harm
const KEY = "kapi-token"; // of this tab alone; without one the browser's certificate counts
const WRITES = "kapi-writable";
const READS = new Set(["GET", "HEAD"]);

export class Refused extends Error {
  constructor(code, message, details = undefined) {
    super(message);
    this.code = code;
    this.details = details;
  }
}

export function login(token) {
  if (token) sessionStorage.setItem(KEY, token);
  else sessionStorage.removeItem(KEY);
}

export const hasToken = () => Boolean(sessionStorage.getItem(KEY));

// Until its user allows changes, the page only reads.
export const writable = () => sessionStorage.getItem(WRITES) === "yes";
export const allowChanges = (allowed) => sessionStorage.setItem(WRITES, allowed ? "yes" : "no");

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

async function send(path, { accept = "application/json", signal, method = "GET", body, type = "application/json", harmless = false } = {}) {
  if (!READS.has(method) && !harmless && !writable()) throw new Refused(0, "This page is read-only until you allow changes.");
  const headers = { Accept: accept };
  const token = sessionStorage.getItem(KEY);
  if (token) headers.Authorization = `Bearer ${token}`;
  if (body) headers["Content-Type"] = type;
  const answer = await patiently(() => fetch(path, { method, headers, signal, body, cache: "no-store" }), signal);
  if (answer.ok) return answer;
  const text = await answer.text();
  let message = text;
  let details;
  try {
    ({ message = text, details } = JSON.parse(text));
  } catch {
    // not a Status
  }
  throw new Refused(answer.status, message || `HTTP ${answer.status}`, details);
}

export const get = async (path, options = {}) => (await send(path, options)).json();
export const text = async (path, signal) => (await send(path, { accept: "text/plain", signal })).text();
export const write = async (path, method, options = {}) => (await send(path, { method, ...options })).json();

// The user's name; "" for nobody.  Throws Refused for a token that is not accepted.
export async function whoAmI() {
  const kind = { apiVersion: "authentication.k8s.io/v1", kind: "SelfSubjectReview" };
  const path = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
  const ask = (signal) => send(path, { signal, method: "POST", body: JSON.stringify(kind), harmless: true });
  try {
    const answer = await ask(AbortSignal.timeout(3000)).catch((error) => {
      if (error.name !== "TimeoutError") throw error;
      return ask();
    });
    const { username } = (await answer.json()).status.userInfo;
    return username === "system:anonymous" ? "" : username;
  } catch (error) {
    if (error instanceof Refused && (error.code === 403 || (error.code === 401 && !hasToken()))) return "";
    throw error;
  }
}

// Pieces of a text as it comes, until the server ends it.
export async function* pieces(path, options) {
  const answer = await send(path, options);
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    yield value;
  }
}

// A token goes as a subprotocol, since a page can set no header: it stands in no address.
export function webSocket(path, protocol) {
  const token = sessionStorage.getItem(KEY);
  const encoded = token && btoa(token).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
  const address = new URL(path, location.href);
  address.protocol = address.protocol.replace("http", "ws");
  const socket = new WebSocket(address, encoded ? [protocol, `base64url.bearer.authorization.k8s.io.${encoded}`] : [protocol]);
  socket.binaryType = "arraybuffer";
  return socket;
}

async function* blocks(path, options, end) {
  let rest = "";
  for await (const piece of pieces(path, options)) {
    const found = (rest + piece).split(end);
    rest = found.pop();
    for (const block of found) if (block) yield block;
  }
}

// The events of a watch as they come; ends when the server ends it.
export async function* watch(path, query, options) {
  for await (const line of blocks(`${path}?watch=1&allowWatchBookmarks=true&${query}`, options, "\n")) yield JSON.parse(line);
}

// Server-sent events: {event, data}.  An EventSource could not send the token.
export async function* serverEvents(path, signal) {
  for await (const block of blocks(path, { accept: "text/event-stream", signal }, "\n\n")) {
    const found = { event: "message" };
    for (const line of block.split("\n")) {
      const at = line.indexOf(": ");
      found[line.slice(0, at)] = line.slice(at + 2);
    }
    if (found.data) yield { event: found.event, data: JSON.parse(found.data) };
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

// Everything that can be listed: {group, version, plural, kind, namespaced, verbs, subresources}, sorted.
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
          subresources: (one.subresources ?? []).map((sub) => sub.subresource),
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
