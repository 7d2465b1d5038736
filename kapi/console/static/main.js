// Which view is shown: the address says it, and who is logged in.

import { allowChanges, hasToken, login, whoAmI, writable } from "./api.js";
import * as changes from "./changes.js";
import * as entrance from "./login.js";
import * as overview from "./overview.js";
import { problem } from "./page.js";
import * as queues from "./queues.js";
import * as requests from "./requests.js";
import * as resources from "./resources.js";

const VIEWS = { overview, resources, changes, requests, queues };
const FIRST = "overview";
const element = (id) => document.getElementById(id);
let shown = new AbortController();
let greetings = 0;
let user = "";

async function show() {
  shown.abort(); // ends the watches of the view before
  const { signal } = (shown = new AbortController());
  const [name, ...rest] = location.hash.replace(/^#\//, "").split("/");
  const view = document.createElement("div");
  element("view").replaceChildren(view);
  const here = name in VIEWS ? name : FIRST;
  document.title = `${here} - kapi console`;
  for (const link of document.querySelectorAll("nav a")) {
    if (link.hash === `#/${here}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  try {
    await VIEWS[here].show(view, rest.map(decodeURIComponent), signal);
  } catch (error) {
    if (!signal.aborted) view.replaceChildren(problem(error));
  }
}

// Asks the server who the user is, and shows the view, or the page to log in.
async function greet() {
  const number = ++greetings;
  let refusal;
  let found = "";
  try {
    found = await whoAmI();
  } catch (error) {
    refusal = error;
    if (hasToken() && error.code === 401) {
      login("");
      refusal = new Error("The server does not accept this token.");
    }
  }
  if (number !== greetings) return; // somebody else has logged in meanwhile
  user = found;
  element("user").textContent = user;
  element("nav").hidden = element("session").hidden = !user;
  if (user) {
    show();
    return;
  }
  shown.abort();
  document.title = "Log in - kapi console";
  const view = document.createElement("div");
  element("view").replaceChildren(view);
  entrance.show(view, refusal, greet);
}

element("logout").addEventListener("click", () => {
  login("");
  allowChanges(false);
  element("writable").checked = false;
  greet();
});
element("writable").checked = writable();
element("writable").addEventListener("change", () => {
  allowChanges(element("writable").checked);
  dispatchEvent(new Event("writable"));
});
document.querySelector("a.skip").addEventListener("click", (event) => {
  event.preventDefault(); // the address says which view is shown
  element("view").focus();
});
addEventListener("hashchange", () => user && show());
addEventListener("keydown", (event) => {
  if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.closest("input, textarea, select")) return;
  const field = document.querySelector("[data-search]");
  if (!field) return;
  event.preventDefault();
  field.closest("details")?.setAttribute("open", "");
  field.focus();
});
greet();
