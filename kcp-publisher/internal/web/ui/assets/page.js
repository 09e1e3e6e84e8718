// This script keeps a page current. After an event from the server, it loads the page again and replaces the parts that
// differ. Without this script, every page works and shows the state of its last load.
"use strict";

(() => {
  const source = document.body.dataset.live;
  const pollEvery = 30000;
  let stream = null;
  let poll = 0;
  let tag = "";
  let asking = null;

  // take updates a node to match a fresh one. It keeps equal nodes, so that focus, scroll position and open
  // details are preserved. Focused lists keep their choice, unless the page was loaded because of this choice.
  function take(old, fresh, chosen) {
    if (old.id === "views" && fresh.id === "views") return; // the script fills this element
    if (old.nodeType !== fresh.nodeType || old.nodeName !== fresh.nodeName || old.id !== fresh.id) {
      old.replaceWith(document.importNode(fresh, true));
      return;
    }
    if (old.nodeType !== Node.ELEMENT_NODE) {
      if (old.nodeValue !== fresh.nodeValue) old.nodeValue = fresh.nodeValue;
      return;
    }
    for (const { name } of [...old.attributes]) {
      if (!fresh.hasAttribute(name) && !(old.nodeName === "DETAILS" && name === "open")) old.removeAttribute(name);
    }
    for (const { name, value } of fresh.attributes) {
      if (old.getAttribute(name) !== value) old.setAttribute(name, value);
    }
    const mine = [...old.childNodes];
    const theirs = [...fresh.childNodes];
    theirs.forEach((node, i) => (i < mine.length ? take(mine[i], node, chosen) : old.append(document.importNode(node, true))));
    mine.slice(theirs.length).forEach((node) => node.remove());
    if (old.nodeName === "SELECT" && (chosen || old !== document.activeElement)) old.value = fresh.value;
    if (old.nodeName === "INPUT" && old !== document.activeElement && old.value !== fresh.value) old.value = fresh.value;
  }

  async function refresh(address = location.href) {
    asking?.abort();
    const mine = (asking = new AbortController());
    try {
      const answer = await fetch(address, { headers: tag && address === location.href ? { "If-None-Match": tag } : {}, signal: mine.signal });
      if (answer.redirected || answer.status === 401) {
        location.reload(); // the user must sign in again
        return;
      }
      if (answer.status === 304) {
        state("on");
        return;
      }
      const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
      const main = fresh.getElementById("main");
      if (!main || mine.signal.aborted) return;
      const chosen = address !== location.href;
      if (chosen) history.replaceState(null, "", address);
      tag = answer.headers.get("ETag") || "";
      document.title = fresh.title;
      take(document.getElementById("main"), main, chosen);
      showViews();
      if (source) state(stream ? "on" : "poll");
    } catch (trouble) {
      if (trouble.name !== "AbortError") state("off");
    }
  }

  const says = { on: "Live", poll: "Every 30 s", off: "Not live", wait: "Connecting" };
  function state(name) {
    const shown = document.getElementById("live");
    if (shown && shown.dataset.state !== name) {
      shown.dataset.state = name;
      shown.textContent = says[name];
    }
  }

  // A hidden page opens no stream, because browsers limit the number of streams per host. The server ends each stream
  // after a minute, and the browser opens it again. The page shows "Not live" only if this takes over five seconds.
  let away = 0;
  function listen() {
    clearInterval(poll);
    clearTimeout(away);
    stream?.close();
    stream = null;
    if (document.hidden) return;
    stream = new EventSource(source);
    stream.addEventListener("open", () => clearTimeout(away));
    stream.addEventListener("fleet", () => refresh());
    stream.addEventListener("error", () => {
      clearTimeout(away);
      if (stream?.readyState !== EventSource.CLOSED) {
        away = setTimeout(() => state("off"), 5000);
        return;
      }
      stream = null;
      refresh();
      clearInterval(poll);
      poll = setInterval(listen, pollEvery);
    });
  }

  // filter reloads the page with the values in a form, without a click on its button.
  function filter(form) {
    const fields = new URLSearchParams();
    for (const [name, value] of new FormData(form)) {
      if (value) fields.append(name, value);
    }
    if (!fields.has("module")) fields.delete("version");
    const query = fields.toString();
    refresh(new URL(query ? `${form.action}?${query}` : form.action, location.href).href);
  }

  let typing = 0;
  document.addEventListener("input", (e) => {
    const form = e.target.closest("form[data-auto]");
    if (!form) return;
    clearTimeout(typing);
    typing = setTimeout(() => filter(form), e.target.type === "search" ? 250 : 0);
  });
  document.addEventListener("submit", (e) => {
    if (!e.target.matches("form[data-auto]")) return;
    e.preventDefault();
    clearTimeout(typing);
    filter(e.target);
  });

  // The script updates the age of each displayed time without a request to the server.
  function age(ms) {
    const ahead = ms < -60000;
    const min = Math.floor(Math.abs(ms) / 60000);
    if (min < 1) return "just now";
    const hours = Math.floor(min / 60);
    const span = min < 60 ? `${min} min` : hours < 48 ? `${hours} h` : `${Math.floor(hours / 24)} days`;
    return ahead ? `in ${span}` : `${span} ago`;
  }
  setInterval(() => {
    for (const t of document.querySelectorAll("time[datetime]")) {
      const text = age(Date.now() - Date.parse(t.dateTime));
      if (t.textContent !== text) t.textContent = text;
    }
  }, 15000);

  // The theme button cycles through the system theme, light and dark. Without storage, the choice is lost when the page
  // is left.
  const themes = { "": "System", light: "Light", dark: "Dark" };
  function theme(name) {
    if (name) document.documentElement.dataset.theme = name;
    else delete document.documentElement.dataset.theme;
    const label = document.querySelector("#theme span");
    if (label) label.textContent = themes[name];
  }
  let chosen = "";
  try {
    chosen = localStorage.getItem("theme") || "";
  } catch {}
  if (!(chosen in themes)) chosen = "";
  theme(chosen);
  document.getElementById("theme")?.addEventListener("click", () => {
    const names = Object.keys(themes);
    chosen = names[(names.indexOf(chosen) + 1) % names.length];
    theme(chosen);
    try {
      localStorage.setItem("theme", chosen);
    } catch {}
  });

  // Saved views are filters with names, which this browser stores.
  const maxViews = 20;
  function views() {
    try {
      const all = JSON.parse(localStorage.getItem("views") || "[]");
      return all.filter((v) => typeof v.name === "string" && typeof v.query === "string" && v.query.startsWith("?"));
    } catch {
      return [];
    }
  }
  function saveViews(all) {
    try {
      localStorage.setItem("views", JSON.stringify(all.slice(-maxViews)));
    } catch {}
    showViews();
  }
  function element(name, properties) {
    return Object.assign(document.createElement(name), properties);
  }
  function showViews() {
    const place = document.getElementById("views");
    if (!place) return;
    const all = views();
    const shown = JSON.stringify([all, location.search === ""]);
    if (place.dataset.shown === shown) return;
    place.dataset.shown = shown;
    const list = element("ul", { className: "active" });
    list.setAttribute("aria-label", "Saved views");
    for (const { name, query } of all) {
      const item = element("li", {});
      const remove = element("button", { type: "button", textContent: "×", title: "Remove this view" });
      remove.setAttribute("aria-label", `Remove view ${name}`);
      remove.addEventListener("click", () => saveViews(views().filter((v) => v.name !== name)));
      item.append(element("a", { href: `/${query}#runtimes`, textContent: name }), remove);
      list.append(item);
    }
    const save = element("button", { type: "button", className: "save plain", textContent: "Save this view" });
    save.addEventListener("click", () => {
      const name = (prompt("Name of the view") || "").trim().slice(0, 60);
      if (name) saveViews([...views().filter((v) => v.name !== name), { name, query: location.search }]);
    });
    place.replaceChildren(...(all.length ? [list] : []), ...(location.search ? [save] : []));
    place.hidden = !place.children.length;
  }

  // Buttons next to commands copy the command. If the browser refuses, the command is selected, so that the user can copy
  // it. Browsers have no clipboard on pages without TLS, except on localhost.
  document.addEventListener("click", async (e) => {
    const button = e.target.closest("button.copy");
    if (!button) return;
    try {
      await navigator.clipboard.writeText(button.dataset.text);
      button.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(button.previousElementSibling);
      button.textContent = "Not copied";
    }
    setTimeout(() => (button.textContent = "Copy"), 2000);
  });

  document.documentElement.classList.add("script");
  showViews();
  if (source) {
    document.addEventListener("visibilitychange", listen);
    listen();
  }
})();
