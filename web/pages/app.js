"use strict";
// What the pages do beyond forms and links: they follow changes, show local times, filter while one types, and have a
// palette of commands. Without this script everything works by loading pages.
(function () {
  let main = document.getElementById("main");

  // Times in the zone of the reader.
  const day = new Intl.DateTimeFormat(undefined, { dateStyle: "medium" }), clock = new Intl.DateTimeFormat(undefined, { timeStyle: "medium" });
  const whole = (text) => text.replace(/ /g, "\u00a0"); // a line does not break in it
  const local = (t) => whole(day.format(t)) + ", " + whole(clock.format(t));
  function localize(part) {
    for (const t of part.querySelectorAll("time[datetime]")) {
      t.title = t.dateTime;
      t.textContent = local(new Date(t.dateTime));
    }
    for (const b of part.querySelectorAll(".js")) b.hidden = false;
  }
  for (const z of document.querySelectorAll(".zone")) z.textContent = "local (" + Intl.DateTimeFormat().resolvedOptions().timeZone + ")";

  // A bar states that the content is not up to date: after two failures in turn, or at once if a person waits for it.
  const stale = document.createElement("div");
  stale.className = "stale";
  stale.setAttribute("role", "alert");
  stale.hidden = true;
  document.querySelector(".columns").before(stale);
  let failures = 0, read = new Date();
  const opened = read;
  function warn(text, link) {
    const shown = [text];
    if (link) {
      const a = document.createElement("a");
      a.href = link;
      a.textContent = "Sign in";
      shown.push(" ", a);
    }
    if (stale.textContent !== text + (link ? " Sign in" : "")) stale.replaceChildren(...shown);
    stale.hidden = false;
  }
  const since = () => "Not up to date since " + local(read) + ": ";

  // Requests that no person caused do not prolong the session. An event stream is known by its media type.
  const itself = { "Stagepost-Refresh": "1" };

  // get reads a page; null: it was not answered as it should be, which the bar states.
  async function get(address, now) {
    let answer, page;
    try {
      answer = await fetch(address, { headers: { Accept: "text/html", ...(now ? {} : itself) } });
      page = new DOMParser().parseFromString(await answer.text(), "text/html");
    } catch (_) { /* the server is away */ }
    const out = page && answer.redirected && new URL(answer.url).pathname === "/sign-in";
    if (page && answer.ok && !out) {
      failures = 0;
      read = new Date();
      stale.hidden = true;
      stale.textContent = "";
      return page;
    }
    failures++;
    const why = page && page.querySelector("main .big");
    if (out) warn("You are signed out.", "/sign-in?next=" + encodeURIComponent(location.pathname + location.search));
    else if (why && answer.status < 500) warn(since() + why.textContent);
    else if (now || failures > 1) warn(since() + "the server does not answer.");
    return null;
  }

  // swap replaces the content by that of an address. What a person has begun stays: then a button offers the change.
  async function swap(address, force) {
    const page = await get(address, force);
    const fresh = page && page.getElementById("main");
    if (!fresh) return false;
    if (!force && busy()) {
      offer(() => swap(address, true));
      return true;
    }
    if (comparable(fresh) === comparable(main)) return true;
    keep(fresh);
    document.title = page.title;
    return true;
  }

  // comparable is the content without what this script has changed in it.
  function comparable(part) {
    const copy = part.cloneNode(true);
    for (const t of copy.querySelectorAll("time")) { t.textContent = ""; t.removeAttribute("title"); }
    for (const b of copy.querySelectorAll(".js")) b.hidden = true;
    for (const d of copy.querySelectorAll("details")) d.removeAttribute("open");
    for (const n of copy.querySelectorAll(".notice, .own")) n.remove();
    return copy.innerHTML;
  }

  // keep puts fresh content in the place of the old, with the focus, the open parts and the positions of scrolling.
  function keep(fresh) {
    const focus = document.activeElement, at = focus && main.contains(focus) ? address(focus) : null;
    const caret = focus && focus.selectionStart;
    const open = Array.from(main.querySelectorAll("details"), (d) => d.open);
    const scrolled = Array.from(main.querySelectorAll(".scroll, .diagram"), (s) => [s.scrollLeft, s.scrollTop]);
    const notice = main.querySelector(".notice"); // the server shows it once
    if (notice && !fresh.querySelector(".notice")) {
      if (!notice.dataset.before && state(fresh) !== state(main)) { // it is about a state that is over
        notice.dataset.before = "yes";
        notice.prepend("At " + local(opened) + ": ");
      }
      fresh.prepend(notice);
    }
    main.replaceWith(fresh);
    main = fresh;
    localize(main);
    main.querySelectorAll("details").forEach((d, i) => { if (open[i]) d.open = true; });
    main.querySelectorAll(".scroll, .diagram").forEach((s, i) => { if (scrolled[i]) [s.scrollLeft, s.scrollTop] = scrolled[i]; });
    if (at) for (const e of main.querySelectorAll("a, button, input, select, summary, [tabindex]")) {
      if (address(e) !== at) continue;
      e.focus({ preventScroll: true });
      if (caret != null && e.setSelectionRange && e.type !== "checkbox" && e.type !== "range") try { e.setSelectionRange(caret, caret); } catch (_) { /* a type without a caret */ }
      break;
    }
    live();
    ranges();
    views();
    document.dispatchEvent(new CustomEvent("content"));
  }
  function state(part) { return part.querySelector(".facts .badge")?.textContent; }
  function address(e) { return e.tagName + (e.getAttribute("href") || e.name || e.textContent.slice(0, 80)); }

  // busy reports whether a form of the content is being filled in.
  function busy() {
    if (main.querySelector("details.act[open]")) return true;
    const e = document.activeElement;
    return e && main.contains(e) && /^(INPUT|SELECT|TEXTAREA)$/.test(e.tagName) && !e.closest("[data-live]") ||
      Array.from(main.querySelectorAll("form[method=post] input[type=checkbox], .fields input")).some((i) => i.type === "checkbox" ? i.checked : i.type !== "hidden" && i.value !== i.defaultValue);
  }
  function offer(act) {
    if (document.querySelector(".fresh")) return;
    const b = document.createElement("button");
    b.type = "button";
    b.className = "fresh";
    b.textContent = "There are changes: show them";
    b.addEventListener("click", () => { b.remove(); act(); });
    document.body.append(b);
  }

  // Follow an event stream, or read the page again from time to time while it is visible.
  const pause = 700;
  let due = null, last = 0, again = null; // again: what a person waits for, and failed
  function later() {
    if (due) return;
    due = setTimeout(() => {
      due = null;
      last = Date.now();
      if (again) again(); else swap(location.href);
    }, Math.max(0, last + pause - Date.now()));
  }
  function follow() {
    if (!main.dataset.events) return;
    const source = new EventSource(main.dataset.events);
    let broken = false;
    source.addEventListener("history", later);
    source.addEventListener("job", later);
    source.addEventListener("log", () => {
      const shown = document.getElementById("lines");
      if (again) again(); else if (shown) lines(shown.dataset.from);
    });
    source.addEventListener("open", () => { if (broken) later(); broken = false; });
    source.addEventListener("error", () => {
      broken = true;
      later(); // it states what is wrong
      if (source.readyState === EventSource.CLOSED) setTimeout(follow, 5000);
    });
    document.addEventListener("content", () => { if (!main.dataset.events) source.close(); });
  }
  if (window.EventSource) follow();

  // lines replaces the lines of a log alone by those of an address: when it has grown, and for another text. The last
  // request counts.
  let asked = 0;
  async function lines(from, now) {
    const mine = ++asked, page = await get(from, now), fresh = page && page.getElementById("lines");
    const old = document.getElementById("lines");
    if (!fresh || !old || mine !== asked) return false;
    localize(fresh);
    old.replaceWith(fresh);
    return true;
  }
  const refresh = Number(main.dataset.refresh);
  if (refresh) setInterval(() => { if (document.visibilityState === "visible") later(); }, refresh * 1000);

  // Filters act while one types; the address keeps them.
  function live() {
    for (const form of main.querySelectorAll("form[data-live]")) {
      let timer = null;
      const act = async () => {
        const q = new URLSearchParams();
        for (const [name, value] of new FormData(form)) if (value) q.append(name, value);
        const to = new URL(form.action).pathname + (q.size ? "?" + q : "");
        const run = again = async () => {
          if (!await (form.dataset.live ? lines(to, true) : swap(to, true))) return;
          if (again === run) again = null;
          history.replaceState(null, "", to);
          views();
        };
        await run();
      };
      form.addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(act, 250); });
      form.addEventListener("submit", (e) => { e.preventDefault(); clearTimeout(timer); act(); });
    }
  }

  // The slider over the history shows the page of each entry.
  function ranges() {
    for (const range of main.querySelectorAll(".travel input[type=range]")) {
      const out = main.querySelector(`output[for="${range.id}"]`);
      range.addEventListener("input", () => { out.value = range.value; });
      range.addEventListener("change", async () => {
        const to = range.form.getAttribute("action") + "?entry=" + range.value;
        if (await swap(to, true)) history.replaceState(null, "", to);
      });
    }
  }

  // Views that a person saved: names of filters of the list of jobs, kept in this browser for each person.
  const key = "views " + (document.querySelector(".who bdi")?.textContent ?? "");
  function stored() {
    try {
      const all = JSON.parse(localStorage.getItem(key));
      return Array.isArray(all) ? all.filter((v) => typeof v?.name === "string" && typeof v?.query === "string") : [];
    } catch (_) { return []; } // none, or the browser keeps nothing
  }
  function views() {
    const form = main.querySelector("form.views"), list = main.querySelector(".chips");
    if (!form) return;
    const store = (all) => {
      try { localStorage.setItem(key, JSON.stringify(all)); } catch (_) { form.replaceChildren("This browser does not keep views."); }
      draw();
    };
    function draw() {
      for (const old of list.querySelectorAll(".own")) old.remove();
      for (const view of stored()) {
        const li = document.createElement("li"), a = document.createElement("a"), b = document.createElement("button");
        li.className = "own";
        a.href = "/jobs" + view.query;
        a.textContent = view.name;
        if (view.query === location.search) a.setAttribute("aria-current", "true");
        b.type = "button";
        b.textContent = "\u00d7";
        b.setAttribute("aria-label", "Delete the view " + view.name);
        b.addEventListener("click", () => { store(stored().filter((v) => v.name !== view.name)); form.elements[0].focus(); });
        li.append(a, b);
        list.append(li);
      }
    }
    form.onsubmit = (e) => {
      e.preventDefault();
      const query = new URLSearchParams(location.search), name = form.elements[0].value.trim();
      query.delete("after");
      if (!name) return;
      form.reset();
      store(stored().filter((v) => v.name !== name).concat({ name, query: query.size ? "?" + query : "" }));
    };
    draw();
  }

  // Copy buttons.
  document.addEventListener("click", async (e) => {
    const b = e.target.closest(".copy");
    if (!b) return;
    try { await navigator.clipboard.writeText(b.dataset.copy); b.textContent = "Copied"; } catch (_) { b.textContent = "Not possible here"; }
    setTimeout(() => { b.textContent = "Copy"; }, 1500);
  });

  // Colors are set at once.
  for (const form of document.querySelectorAll(".theme")) {
    form.querySelector("button").hidden = true;
    form.querySelector("select").addEventListener("change", () => form.requestSubmit());
    form.querySelector("[name=back]").value = location.pathname + location.search;
  }

  // The palette: pages, what can be done on this page, and jobs by their ids and numbers.
  const dialog = document.createElement("dialog");
  dialog.setAttribute("aria-label", "Commands");
  dialog.innerHTML = '<input type="text" role="combobox" aria-expanded="true" aria-controls="commands" aria-label="Command, page or job" placeholder="Type a page, a command, or the id or number of a job" autocomplete="off"><ul id="commands" role="listbox" aria-label="Commands"></ul>';
  document.body.append(dialog);
  const input = dialog.querySelector("input"), list = dialog.querySelector("ul");
  let commands = [], chosen = 0;
  function collect() {
    const all = Array.from(document.querySelectorAll(".side a"), (a) => ({ text: a.textContent, act: () => { location.href = a.href; } }));
    const summaries = () => Array.from(main.querySelectorAll("details.act > summary")); // anew: the content may be replaced meanwhile
    summaries().forEach((of, i) => all.push({ text: "Here: " + of.textContent, act: () => {
      const s = summaries()[i];
      if (!s || s.textContent !== of.textContent) return;
      s.parentElement.open = true;
      (s.parentElement.querySelector("input:not([type=hidden]), button") || s).focus();
    } }));
    for (const t of ["auto", "light", "dark", "contrast"]) all.push({ text: "Colors: " + t, act: () => { const s = document.getElementById("theme"); s.value = t; s.form.requestSubmit(); } });
    return all;
  }
  function draw() {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    const fit = commands.filter((c) => words.every((w) => c.text.toLowerCase().includes(w)));
    if (input.value.trim()) fit.push({ text: "Find the job " + input.value.trim(), act: () => { location.href = "/search?name=" + encodeURIComponent(input.value.trim()); } });
    chosen = Math.min(Math.max(chosen, 0), fit.length - 1);
    list.replaceChildren(...fit.map((c, i) => {
      const li = document.createElement("li");
      li.id = "command" + i;
      li.setAttribute("role", "option");
      li.setAttribute("aria-selected", String(i === chosen));
      li.textContent = c.text;
      li.addEventListener("click", () => { dialog.close(); c.act(); });
      return li;
    }));
    input.setAttribute("aria-activedescendant", fit.length ? "command" + chosen : "");
    const now = list.children[chosen];
    if (now) now.scrollIntoView({ block: "nearest" });
    return fit;
  }
  function open() { commands = collect(); input.value = ""; chosen = 0; draw(); dialog.showModal(); input.focus(); }
  input.addEventListener("input", () => { chosen = 0; draw(); });
  input.addEventListener("keydown", (e) => {
    const fit = list.children.length;
    if (e.key === "ArrowDown" || e.key === "ArrowUp") { e.preventDefault(); chosen = (chosen + (e.key === "ArrowDown" ? 1 : fit - 1)) % fit; draw(); }
    if (e.key === "Enter") { e.preventDefault(); const c = draw()[chosen]; dialog.close(); if (c) c.act(); }
  });
  for (const b of document.querySelectorAll(".palette-open")) b.addEventListener("click", open);
  document.addEventListener("keydown", (e) => {
    if ((e.ctrlKey || e.metaKey) && e.key.toLowerCase() === "k") { e.preventDefault(); if (dialog.open) dialog.close(); else open(); }
    if (e.key === "/" && !dialog.open && !/^(INPUT|SELECT|TEXTAREA)$/.test(document.activeElement.tagName)) { e.preventDefault(); document.getElementById("find").focus(); }
  });

  localize(document);
  live();
  ranges();
  views();
})();
