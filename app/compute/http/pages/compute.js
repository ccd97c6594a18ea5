"use strict";
// What the pages of compute do with a script: they follow the output of a job, and send files so that an upload that
// breaks off continues where it stopped. Without it the output is read by loading the page, and the form is sent whole.
(function () {
  // Output. The page has the end of each stream and where it stops; the rest comes as events.
  const unsafe = /[\u0000-\u0008\u000b-\u001f\u007f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;
  const most = 256 << 10; // characters that the page keeps
  let sources = [];
  function follow() {
    for (const s of sources) s.close();
    sources = Array.from(document.querySelectorAll("pre[data-output]"), (pre) => {
      const source = new EventSource(`${pre.dataset.output}&offset=${pre.dataset.offset}&follow=true`);
      pre.scrollTop = pre.scrollHeight;
      source.addEventListener("output", (e) => {
        const piece = JSON.parse(e.data);
        const text = piece.text ?? new TextDecoder().decode(Uint8Array.from(atob(piece.base64), (c) => c.charCodeAt(0)));
        const atEnd = pre.scrollTop + pre.clientHeight >= pre.scrollHeight - 8;
        if (piece.offset === 0) pre.textContent = ""; // it begins anew
        pre.append(text.replace(unsafe, "\ufffd"));
        if (pre.textContent.length > most) pre.textContent = pre.textContent.slice(-most / 2);
        if (atEnd) pre.scrollTop = pre.scrollHeight;
      });
      source.addEventListener("end", () => source.close());
      return source;
    });
    for (const p of document.querySelectorAll(".nojs")) p.hidden = sources.length > 0;
  }
  follow();
  document.addEventListener("content", follow);

  // The form. Files are sent by the protocol of resumable uploads (tus 1.0.0), then the form with their ids.
  const form = document.querySelector("form.order[data-uploads]");
  if (!form) return;
  const drop = form.querySelector(".drop"), input = drop.querySelector("input"), list = drop.querySelector(".chosen");
  const state = form.querySelector(".sending"), button = form.querySelector("button:not([type])");
  const piece = 8 << 20, tries = 8;
  let chosen = [];
  function show() {
    list.replaceChildren(...chosen.map((file, i) => {
      const li = document.createElement("li"), name = document.createElement("bdi"), remove = document.createElement("button");
      name.textContent = file.name.replace(unsafe, "\ufffd");
      remove.type = "button";
      remove.textContent = "Remove";
      remove.setAttribute("aria-label", "Remove " + name.textContent);
      remove.addEventListener("click", () => { chosen.splice(i, 1); show(); input.focus(); });
      li.append(name, ` ${file.size.toLocaleString()} bytes `, remove);
      return li;
    }));
  }
  function add(files) {
    for (const f of files) chosen = chosen.filter((c) => c.name !== f.name).concat(f);
    show();
  }
  input.addEventListener("change", () => { add(input.files); input.value = ""; });
  for (const name of ["dragenter", "dragover"]) drop.addEventListener(name, (e) => { e.preventDefault(); drop.classList.add("over"); });
  for (const name of ["dragleave", "drop"]) drop.addEventListener(name, () => drop.classList.remove("over"));
  drop.addEventListener("drop", (e) => { e.preventDefault(); add(e.dataTransfer.files); });

  const headers = { "Tus-Resumable": "1.0.0" };
  const base64 = (text) => btoa(String.fromCharCode(...new TextEncoder().encode(text)));
  const keyOf = (f) => `upload ${f.name} ${f.size} ${f.lastModified}`;
  const stored = { get: (f) => { try { return localStorage.getItem(keyOf(f)); } catch (_) { return null; } },
    set: (f, at) => { try { if (at) localStorage.setItem(keyOf(f), at); else localStorage.removeItem(keyOf(f)); } catch (_) { /* it is not resumed after a reload */ } } };

  async function refusal(answer) {
    try { return (await answer.json()).detail || answer.statusText; } catch (_) { return answer.statusText; }
  }
  // offsetOf returns how far an upload has come; null: there is none.
  async function offsetOf(at) {
    const answer = await fetch(at, { method: "HEAD", headers });
    if (answer.ok) return Number(answer.headers.get("Upload-Offset"));
    if (answer.status >= 500) throw new Error("the server does not answer");
    return null;
  }
  async function create(f) {
    const answer = await fetch(form.dataset.uploads, { method: "POST", headers: { ...headers, "Upload-Length": f.size, "Upload-Metadata": "filename " + base64(f.name) } });
    if (answer.status >= 500) throw new Error("the server does not answer");
    if (!answer.ok) throw new Error("refused: " + await refusal(answer));
    const at = answer.headers.get("Location");
    stored.set(f, at);
    return at;
  }
  // send sends a file, from where it stopped, and returns the id of its upload.
  async function send(f) {
    let at = stored.get(f);
    for (let failed = 0; ;) {
      try {
        let offset = at ? await offsetOf(at) : null;
        if (offset === null) { at = await create(f); offset = 0; }
        while (offset < f.size) {
          state.textContent = `Sending ${f.name.replace(unsafe, "\ufffd")}: ${Math.floor(100 * offset / f.size)} %`;
          const answer = await fetch(at, { method: "PATCH", headers: { ...headers, "Upload-Offset": offset, "Content-Type": "application/offset+octet-stream" }, body: f.slice(offset, offset + piece) });
          if (answer.status >= 500 || answer.status === 409 || answer.status === 423) throw new Error("interrupted");
          if (!answer.ok) throw new Error("refused: " + await refusal(answer));
          offset = Number(answer.headers.get("Upload-Offset"));
          failed = 0;
        }
        return at.slice(at.lastIndexOf("/") + 1);
      } catch (e) {
        if (/^refused/.test(e.message) || ++failed >= tries) throw e;
        state.textContent = `The connection broke off. Sending continues in a moment (attempt ${failed + 1} of ${tries}).`;
        await new Promise((r) => setTimeout(r, Math.min(500 * 2 ** failed, 15000)));
      }
    }
  }
  form.addEventListener("submit", async (e) => {
    if (!chosen.length) return;
    e.preventDefault();
    button.disabled = true;
    try {
      const ids = [];
      for (const f of chosen) ids.push(await send(f));
      for (const f of chosen) stored.set(f, null);
      for (const id of ids) form.prepend(Object.assign(document.createElement("input"), { type: "hidden", name: "upload", value: id }));
      state.textContent = "The files are sent.";
      form.submit();
    } catch (err) {
      state.textContent = "The files could not be sent: " + err.message.replace(/^refused: /, "") + ". Press Send to continue where it stopped.";
      button.disabled = false;
    }
  });
})();
