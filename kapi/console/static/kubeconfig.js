// The token of a kubeconfig file's current context.  Reads JSON, and YAML as kubectl writes it.

function parse(text) {
  try {
    return JSON.parse(text);
  } catch {
    return sections(text);
  }
}

const unquoted = (value) => (/^".*"$/.test(value) ? JSON.parse(value) : value.replace(/^'(.*)'$/, "$1"));

// Lists of entries below the top, each flat: {users: [{name, token}], contexts: [{name, user}], "current-context": "x"}.
function sections(text) {
  const found = {};
  let list;
  for (const line of text.split(/\r?\n/)) {
    const [, indent, dash, key, value] = /^(\s*)(- )?\s*([\w.-]+):\s*(.*?)\s*$/.exec(line) ?? [];
    if (!key) continue;
    if (!indent && !dash) {
      list = [];
      found[key] = value ? unquoted(value) : list;
    } else if (list) {
      if (dash) list.push({});
      const entry = list.at(-1);
      if (entry && value) entry[key] = unquoted(value);
    }
  }
  return found;
}

// Throws Error with what to do instead.
export function tokenOf(text) {
  const config = parse(text);
  const named = (list, name) => (Array.isArray(list) ? list : []).find((entry) => entry.name === name);
  const context = named(config.contexts, config["current-context"]);
  if (!context) throw new Error("This is no kubeconfig file with a current context.");
  const user = named(config.users, context.context?.user ?? context.user);
  const credentials = { ...user, ...user?.user };
  if (credentials.token) return credentials.token;
  if (credentials["client-certificate-data"] || credentials["client-certificate"])
    throw new Error("The user of this file has a client certificate, which a page cannot use: import it into the browser.");
  throw new Error("The user of this file has no token.");
}
