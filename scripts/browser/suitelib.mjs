// What the tests in a browser share. The environment has STAGEPOST_URL, the address of a server whose jobs the caller
// made; the standard input has their ids as JSON. Each check prints one line; the first line that fails ends the run.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { base, launch, require } from "./browser.mjs";

export { base };
export const jobs = JSON.parse(readFileSync(0, "utf8"));
const axe = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");
const browser = await launch();

// open makes a page that fails the run if a script of a stranger runs, or one of ours throws. expected are errors of the
// console that may occur.
export async function open({ expected = /status of 4\d\d/, ...options }) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 860 }, ...options });
  context.setDefaultTimeout(15000);
  const page = await context.newPage();
  page.on("dialog", (d) => { throw new Error("a dialog opened: " + d.message()); });
  page.on("pageerror", (e) => { throw e; });
  page.on("console", (m) => { if (m.type() === "error" && !expected.test(m.text())) throw new Error(m.text()); });
  return page;
}

export async function check(name, run) {
  const began = Date.now();
  try {
    await run();
  } catch (e) {
    for (const context of browser.contexts()) for (const page of context.pages()) console.log(`${name}: ${page.url()}\n${(await page.locator("body").innerText()).slice(0, 3000)}`);
    throw e;
  }
  console.log(`ok ${name} ${Date.now() - began} ms`);
}

export const close = () => browser.close();

// misfits returns what of a page does not fit into the window: the document or a table that scrolls sideways, cells and
// states that are not shown, diagrams that are too small to be read, and texts that are cut where no key can scroll to them.
function misfits() {
  const faults = [], name = (e) => `${e.tagName} ${e.className.baseVal ?? e.className}: ${e.textContent.trim().slice(0, 60)}`;
  const root = document.documentElement;
  if (root.scrollWidth > root.clientWidth) faults.push(`the document has ${root.scrollWidth} of ${root.clientWidth} px`);
  for (const e of document.querySelectorAll(".scroll")) if (e.scrollWidth > e.clientWidth) faults.push(`scrolls: ${name(e)}`);
  for (const e of document.querySelectorAll("main td, main tbody th")) if (e.textContent.trim() && !e.getClientRects().length) faults.push(`is not shown: ${name(e)}`);
  for (const svg of document.querySelectorAll(".diagram svg")) {
    const scale = svg.getBoundingClientRect().width / svg.viewBox.baseVal.width;
    if (scale < 0.6) faults.push(`is drawn at ${Math.round(100 * scale)} %: ${name(svg)}`);
  }
  for (const state of document.querySelectorAll(".diagram .current")) {
    const box = state.closest(".diagram").getBoundingClientRect(), at = state.getBoundingClientRect();
    if (at.top < box.top || at.bottom > box.bottom) faults.push(`is not shown: ${name(state)}`);
  }
  const range = document.createRange(), texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let t = texts.nextNode(); t; t = texts.nextNode()) {
    if (!t.data.trim() || t.parentElement.closest(".away, .skip, thead, option, script, style, title")) continue;
    range.selectNodeContents(t);
    const text = range.getBoundingClientRect();
    if (!text.width) continue;
    for (let e = t.parentElement; e; e = e.parentElement) {
      if (e !== root && (getComputedStyle(e).overflowX === "visible" || e instanceof SVGElement)) continue;
      const box = e === root ? { left: 0, right: root.clientWidth } : e.getBoundingClientRect();
      if (text.left >= box.left - 1 && text.right <= box.right + 1) continue;
      const reached = e !== root && /auto|scroll/.test(getComputedStyle(e).overflowX) && (e.tabIndex >= 0 || e.querySelector("a, button"));
      if (!reached) faults.push(`is cut: ${name(t.parentElement)}`);
      break;
    }
  }
  return faults.slice(0, 5);
}

// everyPage checks pages for people with disabilities, on a phone and at a zoom of 200 %. options are those of the browser,
// such as a session.
export async function everyPage(pages, options = {}) {
  await check("axe: no serious findings on any page, in each theme, and on a phone", async () => {
    for (const theme of ["light", "dark"]) {
      const page = await open({ ...options, colorScheme: theme, bypassCSP: true });
      await page.addInitScript(axe);
      // What does not depend on colors is the same in both themes.
      const light = theme === "light";
      const only = light ? { type: "tag", values: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"] } : { type: "rule", values: ["color-contrast"] };
      const rules = light ? { "landmark-unique": { enabled: true } } : {};
      const findings = async () => (await page.evaluate(([runOnly, rules]) => window.axe.run(document, { resultTypes: ["violations"], runOnly, rules }), [only, rules]))
        .violations.filter((v) => v.id === "landmark-unique" || ["serious", "critical"].includes(v.impact));
      for (const path of pages) {
        await page.goto(base + path);
        for (const width of light ? [1280, 390] : [1280]) {
          await page.setViewportSize({ width, height: 860 });
          assert.deepEqual((await findings()).map((v) => [path, theme, width, v.id, v.nodes.slice(0, 2).map((n) => n.html.slice(0, 200))]), []);
        }
      }
      // The control: a text that is hard to read is found.
      await page.evaluate((pale) => { const p = document.createElement("p"); p.textContent = "pale"; p.style.color = pale; document.querySelector("main").append(p); }, light ? "#bbb" : "#444");
      assert.deepEqual((await findings()).map((v) => v.id), ["color-contrast"]);
      await page.context().close();
    }
  });

  await check("every page fits into windows of 320 to 1280 px, with all its cells", async () => {
    const page = await open(options);
    for (const path of pages) {
      await page.goto(base + path);
      for (const width of [320, 640, 900, 1280]) {
        await page.setViewportSize({ width, height: 860 });
        assert.deepEqual([path, width, ...await page.evaluate(misfits)], [path, width]);
      }
      await page.emulateMedia({ media: "print" });
      assert.deepEqual([path, "print", ...(await page.evaluate(misfits)).filter((f) => f.startsWith("is not shown"))], [path, "print"]);
      await page.emulateMedia({ media: null });
    }
    // The control: a text that is cut is found.
    await page.evaluate(() => { const p = document.createElement("p"); p.textContent = "cut ".repeat(500); p.style.cssText = "white-space: nowrap; overflow: hidden"; document.querySelector("main").append(p); });
    assert.equal((await page.evaluate(misfits)).length, 1);
    await page.context().close();
  });
}
