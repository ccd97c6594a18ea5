// Tests of the pages of every server in a browser: see suitelib.mjs.
import assert from "node:assert/strict";
import { base, check, close, everyPage, jobs, open } from "./suitelib.mjs";

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

await everyPage(jobs.pages);
await close();
