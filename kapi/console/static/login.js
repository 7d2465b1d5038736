// Who uses the page: by a token, by that of a kubeconfig file, or by the browser's client certificate.

import { login } from "./api.js";
import { h, problem } from "./page.js";
import { tokenOf } from "./kubeconfig.js";

// Shows the page to log in; `entered()` is called with a token at hand, or to ask for the certificate once more.
export function show(view, refusal, entered) {
  const message = h("div", { role: "alert" }, refusal ? problem(refusal) : "");
  const token = h("input", { id: "token", type: "password", autocomplete: "off", spellcheck: "false" });
  const file = h("input", { id: "kubeconfig", type: "file" });
  const use = (given) => {
    login(given);
    entered();
  };
  file.addEventListener("change", async () => {
    try {
      use(tokenOf(await file.files[0].text()));
    } catch (error) {
      message.replaceChildren(problem(error));
    }
  });
  view.replaceChildren(
    h(
      "div",
      { class: "login" },
      h("h1", {}, "Log in"),
      message,
      h(
        "form",
        {
          id: "login",
          onsubmit: (event) => {
            event.preventDefault();
            if (token.value.trim()) use(token.value.trim());
            else message.replaceChildren(problem(new Error("Enter a token.")));
          },
        },
        h("label", { for: "token" }, "Token"),
        token,
        h("button", {}, "Log in"),
        h("p", { class: "pale" }, "For example of ", h("code", {}, "kubectl create token NAME"), "."),
      ),
      h(
        "section",
        {},
        h("label", { for: "kubeconfig" }, "Kubeconfig file"),
        file,
        h("p", { class: "pale" }, "The token of its current context is used. The file is read by this page and sent nowhere."),
      ),
      h(
        "section",
        {},
        h("h2", {}, "Client certificate"),
        h("p", { class: "pale" }, "Import it into the browser, which offers it when the page is loaded again. It goes before a token."),
        h("button", { type: "button", id: "certificate", onclick: () => use("") }, "Use the certificate"),
      ),
      h("p", { class: "pale" }, "A token is kept by this tab alone, until it is closed or you log out."),
    ),
  );
  token.focus();
}
