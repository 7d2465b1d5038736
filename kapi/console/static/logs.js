// The logs of a pod's containers, and commands that run in them, where the pod's node serves them.

import { get, pieces, webSocket, writable } from "./api.js";
import { h, problem } from "./page.js";

const LINES = 500; // at the beginning
const MOST = 2_000_000; // characters on the page

function choice(object) {
  const { initContainers = [], containers = [], ephemeralContainers = [] } = object.spec;
  const names = [...containers, ...initContainers, ...ephemeralContainers].map((one) => one.name);
  return h("select", { "aria-label": "Container" }, names.map((name) => h("option", { value: name }, name)));
}

const screen = (label) => h("pre", { tabindex: "0", role: "region", "aria-label": label });

function append(output, text) {
  const end = output.scrollHeight - output.scrollTop - output.clientHeight < 40;
  output.append(text);
  while (output.textContent.length > MOST && output.childNodes.length > 1) output.firstChild.remove();
  if (end) output.scrollTop = output.scrollHeight;
}

export async function show(view, path, object, signal) {
  const container = choice(object);
  const output = screen("Log");
  const state = h("div", { role: "status" });
  let running = new AbortController();
  const begin = async () => {
    running.abort();
    running = new AbortController();
    const both = AbortSignal.any([signal, running.signal]);
    output.replaceChildren();
    state.replaceChildren();
    try {
      const query = `follow=true&tailLines=${LINES}&container=${encodeURIComponent(container.value)}`;
      for await (const piece of pieces(`${path}/log?${query}`, { accept: "*/*", signal: both })) append(output, piece);
      state.replaceChildren("The log has ended.");
    } catch (error) {
      if (!both.aborted) state.replaceChildren(problem(error));
    }
  };
  container.addEventListener("change", begin);
  view.replaceChildren(h("div", { class: "bar" }, container), output, state);
  await begin();
}

// Runs one command line by a shell; its input is empty.
export function run(view, path, object, signal) {
  const container = choice(object);
  const line = h("input", { "aria-label": "Command", placeholder: "ls -l /", spellcheck: "false", autocomplete: "off" });
  const button = h("button", {}, "Run");
  const output = screen("Output");
  const note = h("p", { class: "pale" });
  let socket;
  const begin = (event) => {
    event.preventDefault();
    socket?.close();
    output.replaceChildren();
    const command = ["sh", "-c", line.value].map((word) => `command=${encodeURIComponent(word)}`).join("&");
    const target = `${path}/exec?container=${encodeURIComponent(container.value)}&stdout=true&stderr=true&${command}`;
    const opened = (socket = webSocket(target, "v5.channel.k8s.io"));
    const decoders = [1, 2, 3].map(() => new TextDecoder()); // a letter may be divided between two messages
    socket.onmessage = ({ data }) => {
      const bytes = new Uint8Array(data);
      const text = decoders[bytes[0] - 1]?.decode(bytes.subarray(1), { stream: true });
      if (socket !== opened || !text) return; // of a command before this one, or a part of a letter
      if (bytes[0] === 1) append(output, text);
      else if (bytes[0] === 2) append(output, h("span", { class: "bad" }, text));
      else if (bytes[0] === 3) append(output, h("span", { class: "pale" }, `\n${JSON.parse(text).message ?? "done"}\n`));
    };
    // a browser does not tell why a WebSocket was refused, so ask without one
    socket.onerror = () => get(target, { signal }).catch((error) => append(output, h("span", { class: "bad" }, error.message)));
  };
  const follow = () => {
    button.disabled = !writable();
    note.textContent = writable() ? "" : "This page is read-only until you allow changes.";
  };
  addEventListener("writable", follow, { signal });
  signal.addEventListener("abort", () => socket?.close());
  follow();
  view.replaceChildren(note, h("form", { class: "bar", onsubmit: begin }, container, line, button), output);
}
