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
  const page = await open({}), fetched = [];
  page.on("request", (r) => { if (r.resourceType() === "fetch") fetched.push(r.headers()["stagepost-refresh"]); });
  await page.goto(base + "/jobs/" + jobs.followed);
  const other = await open({});
  await other.goto(base + "/jobs/" + jobs.followed);
  await act(other, "hold", "seen by the other page");
  await page.locator("#main", { hasText: "seen by the other page" }).waitFor();
  assert.ok(fetched.length > 0 && fetched.every((f) => f === "1"), "what the page fetches by itself says so");
  await page.context().close();
  await other.context().close();
});

await check("a notice about a state that is over has its time", async () => {
  const page = await open({}), other = await open({});
  await page.goto(base + "/jobs/" + jobs.followed);
  await act(page, "release", "it goes on");
  const notice = page.locator(".notice");
  assert.equal(await notice.innerText(), "Done: release");
  await other.goto(base + "/jobs/" + jobs.followed);
  await act(other, "hold", "not yet");
  await page.locator("#main", { hasText: "not yet" }).waitFor();
  assert.match(await notice.innerText(), /^At .*: Done: release$/);
  await page.context().close();
  await other.context().close();
});

await check("save the filters as a view, use it, delete it", async () => {
  const page = await open({});
  await page.goto(base + "/jobs");
  await page.getByLabel("Group").fill(jobs.group);
  await page.waitForURL("**/jobs?group=" + jobs.group);
  await page.getByLabel("Name of a view").fill(jobs.hostile);
  await page.getByRole("button", { name: "Save this view" }).click();
  const view = page.getByRole("link", { name: jobs.hostile, exact: true });
  assert.equal(await view.getAttribute("aria-current"), "true");
  await page.goto(base + "/jobs");
  assert.equal(await view.getAttribute("aria-current"), null);
  await view.click();
  await page.waitForURL("**/jobs?group=" + jobs.group);
  assert.equal(await page.getByLabel("Group").inputValue(), jobs.group);
  await page.getByRole("button", { name: "Delete the view" }).click();
  assert.equal(await view.count(), 0);
  await page.reload();
  assert.equal(await view.count(), 0);
  await page.context().close();
  const plain = await open({ javaScriptEnabled: false });
  await plain.goto(base + "/jobs");
  assert.equal(await plain.getByRole("button", { name: "Save this view" }).count(), 0, "nothing saves a view without the script");
  await plain.context().close();
});

await check("colors that the system forces leave the symbols of states and the mark of the present page", async () => {
  const page = await open({ forcedColors: "active" });
  await page.goto(base + "/jobs/" + jobs.failed);
  const [symbol, ground] = await page.locator(".facts .badge").first().evaluate((b) => [getComputedStyle(b, "::before").backgroundColor, getComputedStyle(b).backgroundColor]);
  assert.notEqual(symbol, ground);
  await page.goto(base + "/jobs");
  const mark = await page.locator(".side a[aria-current]").evaluate((a) => { const s = getComputedStyle(a); return s.outlineStyle + " " + s.outlineColor; });
  assert.match(mark, /^solid rgb\(/);
  await page.context().close();
});

await check("the page states when it is not up to date", async () => {
  const page = await open({ expected: /status of 4\d\d|net::ERR_FAILED/ });
  const bar = page.getByRole("alert");
  await page.clock.install();
  const read = () => page.clock.runFor(16000); // the pause between two readings, and more
  const away = (what) => page.route(what, (route) => route.abort());
  await page.goto(base + "/jobs");
  await away("**/jobs*");
  for (let i = 0; i < 2; i++) await Promise.all([page.waitForEvent("requestfailed"), read()]);
  await bar.filter({ hasText: /^Not up to date since .*: the server does not answer\.$/ }).waitFor();
  await page.unroute("**/jobs*");
  await read();
  await bar.waitFor({ state: "hidden" });
  await away("**/jobs*");
  await page.getByLabel("Group").fill(jobs.group);
  await page.clock.runFor(300);
  await bar.filter({ hasText: "the server does not answer" }).waitFor();
  await page.unroute("**/jobs*");
  await read(); // the filter acts as soon as the server answers
  await page.waitForURL("**/jobs?group=" + jobs.group);
  await bar.waitFor({ state: "hidden" });
  await page.getByLabel("Tag").fill("a".repeat(5000));
  await page.clock.runFor(300);
  await bar.filter({ hasText: "tag is longer than 4096 bytes" }).waitFor();
  await page.getByLabel("Tag").fill("");
  await page.clock.runFor(300);
  await bar.waitFor({ state: "hidden" });
  await page.route("**/jobs*", (route) => route.fulfill({ status: 303, headers: { Location: "/sign-in?next=%2Fjobs" } }));
  await read();
  await bar.filter({ hasText: "You are signed out." }).waitFor();
  assert.equal(await bar.getByRole("link").getAttribute("href"), "/sign-in?next=" + encodeURIComponent("/jobs?group=" + jobs.group));
  await page.unroute("**/jobs*");
  await read();
  await bar.waitFor({ state: "hidden" });
  await page.route("**/events*", (route) => route.fulfill({ status: 401, body: "" })); // the stream ends
  const closed = () => page.waitForResponse((r) => r.url().includes("/events") && r.status() === 401);
  await Promise.all([closed(), page.goto(base + "/jobs/" + jobs.followed)]);
  await page.clock.runFor(1000);
  await away("**/jobs/" + jobs.followed);
  for (let i = 0; i < 2; i++) await Promise.all([page.waitForEvent("requestfailed"), closed(), page.clock.runFor(6000)]);
  await bar.filter({ hasText: "the server does not answer" }).waitFor();
  await page.unroute("**/jobs/" + jobs.followed);
  await page.unroute("**/events*");
  await page.clock.runFor(6000);
  await bar.waitFor({ state: "hidden" });
  await page.context().close();
});

await check("follow the log of a job, and search in it, with and without the script", async () => {
  const send = async (what, body) => (await fetch(base + "/api/v1/worker/" + what, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) })).json();
  const { jobs: claimed } = await send("claim", { worker: "porter", n: 1000, from: [{ kind: "test.letter", state: "Posted" }] });
  const { epoch } = claimed.find((c) => c.id === jobs.logged);
  const log = (n, text) => send("update", { worker: "porter", reports: [{ job: jobs.logged, epoch, log: [{ n, text }] }] });
  const page = await open({});
  await page.goto(base + "/jobs/" + jobs.logged);
  const lines = page.locator("#lines"), fetched = [];
  page.on("request", (r) => { if (r.resourceType() === "fetch") fetched.push(r.headers()["stagepost-refresh"]); });
  await page.locator("details.act summary", { hasText: "priority" }).click();
  await page.locator("details.act[open] input[name=note]").fill("begun");
  await log(1, `the carriage leaves ${jobs.hostile}`);
  await lines.getByText("the carriage leaves").waitFor();
  await log(2, "the bridge is open");
  await lines.getByText("the bridge is open").waitFor();
  assert.equal(await page.locator("details.act[open] input[name=note]").inputValue(), "begun", "what was begun stays");
  assert.ok(fetched.length > 0 && fetched.every((f) => f === "1"), "the lines that follow are no use of a session");
  await page.getByLabel("Lines that contain").fill("BRIDGE");
  await lines.getByText("the carriage leaves").waitFor({ state: "detached" });
  assert.ok(fetched.includes(undefined), "a search is a use");
  await log(3, "the bridge is closed");
  await lines.getByText("the bridge is closed").waitFor();
  await log(4, "the carriage waits");
  await page.getByLabel("Lines that contain").fill("");
  await lines.getByText("the carriage waits").waitFor();
  await page.context().close();
  const plain = await open({ javaScriptEnabled: false });
  await plain.goto(base + "/jobs/" + jobs.logged);
  assert.match(await plain.locator("#lines").innerText(), /the carriage waits/);
  await plain.getByLabel("Lines that contain").fill("closed");
  await plain.getByRole("button", { name: "Search" }).click();
  await plain.waitForURL("**/jobs/" + jobs.logged + "?text=closed#log");
  assert.doesNotMatch(await plain.locator("#lines").innerText(), /carriage/);
  await Promise.all([plain.waitForEvent("download"), plain.getByRole("link", { name: "Download" }).click()]);
  await plain.context().close();
  await send("report", { worker: "porter", reports: claimed.map((c) => ({ job: c.id, epoch: c.epoch, wait: { code: "desk", sentence: "it waits for a clerk" } })) });
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
