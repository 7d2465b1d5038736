// Which view is shown: the address says it, and who is logged in.

import { login, whoAmI } from "./api.js";
import * as changes from "./changes.js";
import { problem } from "./page.js";
import * as queues from "./queues.js";
import * as requests from "./requests.js";
import * as resources from "./resources.js";

const VIEWS = { resources, changes, requests, queues };
let shown = new AbortController();
let greetings = 0;

async function show() {
  shown.abort(); // ends the watches of the view before
  shown = new AbortController();
  const [name, ...rest] = location.hash.replace(/^#\//, "").split("/");
  const view = document.createElement("div");
  document.getElementById("view").replaceChildren(view);
  for (const link of document.querySelectorAll("nav a")) {
    link.className = link.hash === `#/${name || "resources"}` ? "here" : "";
  }
  try {
    await (VIEWS[name] ?? resources).show(view, rest.map(decodeURIComponent), shown.signal);
  } catch (error) {
    if (error.name !== "AbortError") view.replaceChildren(problem(error));
  }
}

async function greet() {
  const number = ++greetings;
  let user = "nobody is logged in";
  try {
    user = await whoAmI();
  } catch {
    // an anonymous user may not even ask
  }
  if (number === greetings) document.getElementById("user").textContent = user; // not of who asked before
}

document.getElementById("login").addEventListener("submit", (event) => {
  event.preventDefault();
  const field = document.getElementById("token");
  login(field.value.trim());
  field.value = "";
  greet().then(show);
});
addEventListener("hashchange", show);
greet().then(show);
