// Who owns an object, and what it owns, by the owner references of all objects that its user may list.

import { get, pathOf } from "./api.js";
import { h, problem } from "./page.js";
import { addressOf } from "./resources.js";

const METADATA = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
const MOST = 500; // objects of a kind
const AT_ONCE = 6; // lists

export async function show(view, known, object, signal) {
  view.replaceChildren(h("p", { class: "pale", role: "status" }, "Reading the owner references ..."));
  const { namespace } = object.metadata;
  const lists = known.filter((one) => one.plural !== "events" && (one.namespaced || !namespace));
  const found = new Map(); // by uid
  const below = new Map(); // uid of the owner to what it owns
  let more = false;
  let refused = 0;
  const read = async () => {
    for (let resource; (resource = lists.pop()); ) {
      try {
        const list = await get(`${pathOf(resource, namespace)}?limit=${MOST}`, { accept: METADATA, signal });
        more ||= Boolean(list.metadata.continue);
        for (const { metadata } of list.items ?? []) found.set(metadata.uid, { resource, metadata });
      } catch (error) {
        if (signal.aborted) throw error;
        refused += 1;
      }
    }
  };
  try {
    await Promise.all(Array.from({ length: AT_ONCE }, read));
  } catch (error) {
    if (!signal.aborted) view.replaceChildren(problem(error));
    return;
  }
  for (const [uid, { metadata }] of found) {
    for (const owner of metadata.ownerReferences ?? []) below.set(owner.uid, [...(below.get(owner.uid) ?? []), uid]);
  }
  const above = [];
  for (let { metadata } = object, seen = new Set(); metadata && !seen.has(metadata.uid); ) {
    seen.add(metadata.uid);
    const owners = metadata.ownerReferences ?? [];
    const owner = owners.find((one) => one.controller) ?? owners[0];
    if (owner) above.unshift(owner);
    metadata = owner && found.get(owner.uid)?.metadata;
  }
  const seen = new Set();
  const item = (uid, text) => {
    const one = found.get(uid);
    const name = one ? `${one.resource.kind} ${one.metadata.name}` : text;
    const link = one ? h("a", { href: addressOf(one.resource, one.metadata.namespace, one.metadata.name) }, name) : name;
    const label = uid === object.metadata.uid ? h("strong", {}, name) : link;
    if (seen.has(uid)) return h("li", {}, label); // a circle
    seen.add(uid);
    const owned = (below.get(uid) ?? []).map((each) => item(each));
    return h("li", {}, label, owned.length ? h("ul", { class: "graph" }, owned) : "");
  };
  const [top] = above;
  const begin = top ? item(top.uid, `${top.kind} ${top.name}`) : item(object.metadata.uid, `${object.kind} ${object.metadata.name}`);
  const notes = [
    more ? `Of each kind, ${MOST} objects were read.` : "",
    refused ? `${refused} kinds could not be read.` : "",
    above.length || below.has(object.metadata.uid) ? "" : "Nothing owns this object, and it owns nothing.",
  ];
  view.replaceChildren(h("ul", { class: "graph" }, begin), h("p", { class: "pale" }, notes.filter(Boolean).join(" ")));
}
