// Tests of the pages in a browser. The environment has STAGEPOST_URL, the address of a server whose jobs the caller
// made; the standard input has their ids as JSON. Each check prints one line; the first line that fails ends the run.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { base, launch, require } from "./browser.mjs";

const axe = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");
const jobs = JSON.parse(readFileSync(0, "utf8"));
const browser = await launch();

// open makes a page that fails the run if a script of a stranger runs, or one of ours throws.
async function open(options) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 860 }, ...options });
  context.setDefaultTimeout(15000);
  const page = await context.newPage();
  page.on("dialog", (d) => { throw new Error("a dialog opened: " + d.message()); });
  page.on("pageerror", (e) => { throw e; });
  page.on("console", (m) => { if (m.type() === "error" && !/status of 4\d\d/.test(m.text())) throw new Error(m.text()); });
  return page;
}

async function check(name, run) {
  const began = Date.now();
  try {
    await run();
  } catch (e) {
    for (const context of browser.contexts()) for (const page of context.pages()) console.log(`${name}: ${page.url()}\n${(await page.locator("body").innerText()).slice(0, 3000)}`);
    throw e;
  }
  console.log(`ok ${name} ${Date.now() - began} ms`);
}

const text = (page) => page.locator("main").innerText();

// understand opens a failed job, reads why, and does what the page offers, with or without the script.
async function repair(page) {
  await page.goto(base + "/jobs?outcome=failed");
  await page.getByRole("link", { name: jobs.failedTitle }).first().click();
  await page.waitForURL("**/jobs/" + jobs.failed);
  assert.match(await text(page), /What happened/);
  assert.ok((await text(page)).includes(jobs.cause), "the page states the cause");
}

async function act(page, event, note) {
  const box = page.locator("details.act", { has: page.locator("summary", { hasText: new RegExp(`^${event}`) }) });
  await box.locator("summary").click();
  await box.locator("input[name=note]").fill(note);
  await Promise.all([page.waitForURL("**/jobs/*"), box.getByRole("button", { name: "Confirm" }).click()]);
  await page.locator(".notice", { hasText: "Done: " + event }).waitFor();
}

for (const javaScriptEnabled of [true, false]) {
  const mode = javaScriptEnabled ? "with the script" : "without the script";
  await check("understand, hold and release " + mode, async () => {
    const page = await open({ javaScriptEnabled });
    await repair(page);
    await page.goto(base + "/jobs/" + (javaScriptEnabled ? jobs.open : jobs.open2));
    await act(page, "hold", "wait for the disk");
    assert.match(await text(page), /wait for the disk/);
    await act(page, "release", "the disk is free");
    await page.context().close();
  });
  await check("put a hold on a group, find it in why, release it " + mode, async () => {
    const page = await open({ javaScriptEnabled });
    await page.goto(base + "/holds");
    await page.getByLabel("Group").fill(jobs.group);
    await page.locator("form[action='/holds'] input[name=why]").fill("the shelf is full");
    await page.getByRole("button", { name: "Hold", exact: true }).click();
    await page.locator(".notice", { hasText: "Held: group=" + jobs.group }).waitFor();
    await page.goto(base + "/jobs/" + jobs.open);
    assert.match(await page.locator(".why").innerText(), /the shelf is full/);
    await page.goto(base + "/holds");
    await page.locator("article summary", { hasText: "Release" }).click();
    await page.locator("article input[name=why]").fill("there is space");
    await page.locator("article").getByRole("button", { name: "Confirm" }).click();
    await page.locator(".notice", { hasText: "Released" }).waitFor();
    await page.context().close();
  });
  await check("filter and find " + mode, async () => {
    const page = await open({ javaScriptEnabled });
    await page.goto(base + "/jobs");
    await page.getByLabel("Group").fill(jobs.group);
    if (!javaScriptEnabled) await page.getByRole("button", { name: "Apply" }).click();
    await page.waitForURL("**/jobs?group=" + jobs.group);
    await page.getByRole("searchbox").fill(jobs.open.slice(-8));
    await page.getByRole("button", { name: "Find" }).click();
    await page.waitForURL("**/jobs/" + jobs.open);
    await page.context().close();
  });
}

await check("follow a job as it changes", async () => {
  const page = await open({});
  await page.goto(base + "/jobs/" + jobs.followed);
  const other = await open({});
  await other.goto(base + "/jobs/" + jobs.followed);
  await act(other, "hold", "seen by the other page");
  await page.locator("#main", { hasText: "seen by the other page" }).waitFor();
  await page.context().close();
  await other.context().close();
});

await check("keyboard only: skip link, palette, an action", async () => {
  const page = await open({});
  await page.goto(base + "/");
  await page.keyboard.press("Tab");
  assert.equal(await page.evaluate(() => document.activeElement.textContent), "Skip to the content");
  await page.keyboard.press("Enter");
  assert.equal(await page.evaluate(() => document.activeElement.id), "main");
  await page.keyboard.press("Control+k");
  await page.keyboard.type(jobs.open2.slice(-8));
  await Promise.all([page.waitForURL("**/jobs/" + jobs.open2), page.keyboard.press("Enter")]);
  await page.keyboard.press("Control+k");
  await page.keyboard.type("here: hold");
  await page.keyboard.press("Enter");
  await page.keyboard.type("by keyboard");
  await page.keyboard.press("Enter");
  await page.locator(".notice", { hasText: "Done: hold" }).waitFor();
  await page.context().close();
});

await check("bulk: preview, confirm, result", async () => {
  const page = await open({});
  await page.goto(base + "/jobs?state=" + jobs.failedState);
  await page.getByRole("link", { name: "Act on all of them" }).click();
  await page.getByLabel("What to do").selectOption(jobs.bulkEvent);
  await page.getByRole("button", { name: "Preview" }).click();
  assert.match(await text(page), /What would happen/);
  await page.locator("input[name=note]").fill("the receiver is repaired");
  await page.getByRole("checkbox").check();
  await page.getByRole("button", { name: /^Confirm/ }).click();
  await page.locator(".notice", { hasText: "Started: " + jobs.bulkEvent }).waitFor();
  await page.context().close();
});

await check("axe: no serious findings on any page, in each theme", async () => {
  for (const theme of ["light", "dark"]) {
    const page = await open({ colorScheme: theme, bypassCSP: true });
    await page.addInitScript(axe);
    // What does not depend on colors is the same in both themes.
    const only = theme === "light" ? { type: "tag", values: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"] } : { type: "rule", values: ["color-contrast"] };
    const findings = async () => (await page.evaluate((runOnly) => window.axe.run(document, { resultTypes: ["violations"], runOnly }), only))
      .violations.filter((v) => ["serious", "critical"].includes(v.impact));
    for (const path of jobs.pages) {
      await page.goto(base + path);
      assert.deepEqual((await findings()).map((v) => [path, theme, v.id, v.nodes.slice(0, 2).map((n) => n.html.slice(0, 200))]), []);
    }
    // The control: a text that is hard to read is found.
    await page.evaluate((pale) => { const p = document.createElement("p"); p.textContent = "pale"; p.style.color = pale; document.getElementById("main").append(p); }, theme === "light" ? "#bbb" : "#444");
    assert.deepEqual((await findings()).map((v) => v.id), ["color-contrast"]);
    await page.context().close();
  }
});

await check("no page scrolls sideways on a phone", async () => {
  const page = await open({ viewport: { width: 390, height: 844 } });
  for (const path of jobs.pages) {
    await page.goto(base + path);
    const [wide, has] = await page.evaluate(() => [document.documentElement.scrollWidth, document.documentElement.clientWidth]);
    assert.ok(wide <= has, `${path}: ${wide} of ${has}`);
  }
  await page.context().close();
});

await browser.close();
