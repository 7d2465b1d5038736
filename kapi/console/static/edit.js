// Edits an object by server-side apply: a dry run shows the differences, which the user confirms.

import { write, writable } from "./api.js";
import { different } from "./changes.js";
import { h, problem } from "./page.js";
import { yaml } from "./tree.js";

const APPLY = "application/apply-patch+yaml"; // YAML is read by the server
const MANAGER = "kapi-console";
const APPLIED = "kubectl.kubernetes.io/last-applied-configuration";

// What a user sends: without the fields of the server, and without what `kubectl apply` remembers.
function intent({ status, metadata, ...object }) {
  const { managedFields, resourceVersion, uid, generation, creationTimestamp, selfLink, deletionTimestamp, ...kept } = metadata;
  const { [APPLIED]: applied, ...annotations } = kept.annotations ?? {};
  if (kept.annotations) kept.annotations = annotations;
  return { ...object, metadata: kept };
}

export function show(view, path, object, signal) {
  const text = h("textarea", { class: "yaml", "aria-label": "YAML to apply", spellcheck: "false", wrap: "off" });
  text.value = yaml(intent(object));
  const force = h("input", { type: "checkbox" });
  const check = h("button", { type: "button" }, "Show the differences");
  const apply = h("button", { type: "button", disabled: true }, "Apply");
  const outcome = h("div", { role: "status" });
  const query = () => `fieldManager=${MANAGER}&fieldValidation=Strict${force.checked ? "&force=true" : ""}`;
  const send = (more) => write(`${path}?${query()}${more}`, "PATCH", { body: text.value, type: APPLY, signal });
  let before = object;
  const attempt = async (step) => {
    try {
      await step();
    } catch (error) {
      if (signal.aborted) return;
      const hint = error.code === 409 ? "Other managers own these fields. Take them over, or leave them as they are." : "";
      outcome.replaceChildren(problem(error), hint);
    }
  };
  check.addEventListener("click", () =>
    attempt(async () => {
      const changes = different(before, await send("&dryRun=All"));
      outcome.replaceChildren(...(changes.length ? changes : [h("p", {}, "Nothing would change.")]));
      apply.disabled = !changes.length;
    }),
  );
  apply.addEventListener("click", () =>
    attempt(async () => {
      apply.disabled = true;
      before = await send("");
      outcome.replaceChildren(h("p", { class: "added" }, "Applied."));
    }),
  );
  for (const field of [text, force]) field.addEventListener("input", () => (apply.disabled = true)); // other than what was shown
  const note = h("p", { class: "pale" });
  const follow = () => {
    check.disabled = !writable();
    apply.disabled ||= !writable();
    note.textContent = writable()
      ? "Fields that are left out are removed only if this console has applied them before."
      : "This page is read-only until you allow changes.";
  };
  addEventListener("writable", follow, { signal });
  follow();
  const bar = h("div", { class: "bar" }, check, apply, h("label", {}, force, " take over the fields of other managers"));
  view.replaceChildren(note, text, bar, outcome);
}
