"use strict";
// Follows the flow of the page: when the server tells of a change, the page is fetched again and its content replaced, at most twice a second.
// Without this script the page refreshes itself.
(function () {
  let main = document.getElementById("flow");
  const events = main.dataset.events;
  if (!events || !window.EventSource) return;
  const pause = 500;
  let due = false, busy = false, last = 0;
  const source = new EventSource(events + "?after=" + Number.MAX_SAFE_INTEGER);

  async function refresh() {
    due = false;
    busy = true;
    try {
      const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
      if (!answer.ok) return;
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      const fresh = page.getElementById("flow");
      if (!fresh) return;
      await loaded(fresh);
      const x = Array.from(main.querySelectorAll(".picture"), (p) => p.scrollLeft);
      const focus = document.activeElement && document.activeElement.getAttribute("href");
      main.replaceWith(fresh);
      main = fresh;
      main.querySelectorAll(".picture").forEach((p, i) => { p.scrollLeft = x[i] || 0; });
      if (focus) for (const a of main.querySelectorAll("a")) if (a.getAttribute("href") === focus) { a.focus({ preventScroll: true }); break; }
      document.title = page.title;
      if (!fresh.dataset.events) source.close();
    } catch (e) {
      // the server is away: the source connects again, and tells
    } finally {
      last = Date.now();
      busy = false;
      if (due) later();
    }
  }

  // loaded waits for the pictures, so that nothing flickers when they take the place of the old ones.
  function loaded(part) {
    const waits = Array.from(part.querySelectorAll("img"), (img) => {
      const picture = new Image();
      picture.src = img.src;
      return picture.decode().then(() => img.replaceWith(Object.assign(picture, { alt: img.alt })), () => {});
    });
    return Promise.all(waits);
  }

  function later() {
    due = true;
    if (busy) return;
    busy = true;
    setTimeout(refresh, Math.max(0, last + pause - Date.now()));
  }
  source.addEventListener("job", later);
})();
