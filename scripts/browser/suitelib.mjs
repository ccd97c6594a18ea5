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

// everyPage checks pages for people with disabilities, and on a phone. options are those of the browser, such as a
// session.
export async function everyPage(pages, options = {}) {
  await check("axe: no serious findings on any page, in each theme", async () => {
    for (const theme of ["light", "dark"]) {
      const page = await open({ ...options, colorScheme: theme, bypassCSP: true });
      await page.addInitScript(axe);
      // What does not depend on colors is the same in both themes.
      const only = theme === "light" ? { type: "tag", values: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"] } : { type: "rule", values: ["color-contrast"] };
      const findings = async () => (await page.evaluate((runOnly) => window.axe.run(document, { resultTypes: ["violations"], runOnly }), only))
        .violations.filter((v) => ["serious", "critical"].includes(v.impact));
      for (const path of pages) {
        await page.goto(base + path);
        assert.deepEqual((await findings()).map((v) => [path, theme, v.id, v.nodes.slice(0, 2).map((n) => n.html.slice(0, 200))]), []);
      }
      // The control: a text that is hard to read is found.
      await page.evaluate((pale) => { const p = document.createElement("p"); p.textContent = "pale"; p.style.color = pale; document.querySelector("main").append(p); }, theme === "light" ? "#bbb" : "#444");
      assert.deepEqual((await findings()).map((v) => v.id), ["color-contrast"]);
      await page.context().close();
    }
  });

  await check("no page scrolls sideways on a phone", async () => {
    const page = await open({ ...options, viewport: { width: 390, height: 844 } });
    for (const path of pages) {
      await page.goto(base + path);
      const [wide, has] = await page.evaluate(() => [document.documentElement.scrollWidth, document.documentElement.clientWidth]);
      assert.ok(wide <= has, `${path}: ${wide} of ${has}`);
    }
    await page.context().close();
  });
}
