// Tests of the pages of compute in a browser: see suitelib.mjs.
import assert from "node:assert/strict";
import { base, check, close, everyPage, jobs, open } from "./suitelib.mjs";

const main = (page) => page.locator("main").innerText();

for (const javaScriptEnabled of [true, false]) {
  const mode = javaScriptEnabled ? "with the script" : "without the script";
  await check("find a job, read its output, download its result " + mode, async () => {
    const page = await open({ javaScriptEnabled, acceptDownloads: true });
    await page.goto(base + "/compute");
    await page.getByRole("textbox", { name: "Title" }).fill(jobs.title);
    if (!javaScriptEnabled) await page.getByRole("button", { name: "Apply" }).click();
    await page.waitForURL("**/compute?name=*");
    await page.getByRole("link", { name: jobs.title }).click();
    await page.waitForURL("**/jobs/" + jobs.done);
    assert.match(await page.locator("pre.output").first().innerText(), /3 text\.txt/);
    const [file] = await Promise.all([page.waitForEvent("download"), page.getByRole("link", { name: "counts.txt" }).click()]);
    assert.equal(file.suggestedFilename(), "counts.txt");
    await page.context().close();
  });
  await check("send a job with files " + mode, async () => {
    const page = await open({ javaScriptEnabled });
    await page.goto(base + "/compute");
    await page.getByRole("link", { name: "New compute job" }).click();
    await page.getByRole("textbox", { name: "Title" }).fill("Made by the form");
    await page.getByRole("combobox", { name: "Service" }).selectOption("wide");
    await page.getByRole("textbox", { name: /^Command/ }).fill("wc -c data.bin");
    await page.locator("input[type=file]").setInputFiles([{ name: "data.bin", mimeType: "application/octet-stream", buffer: Buffer.alloc(100000, 7) }]);
    // The first piece of the upload is refused for the moment: the script asks how far it came, and goes on.
    let lost = 0;
    if (javaScriptEnabled) await page.route("**/api/v1/compute/uploads/*", (r) => r.request().method() === "PATCH" && lost++ === 0 ? r.fulfill({ status: 423 }) : r.continue());
    await Promise.all([page.waitForURL("**/jobs/cmp_*"), page.getByRole("button", { name: "Send" }).click()]);
    assert.equal(lost, javaScriptEnabled ? 2 : 0);
    assert.match(await main(page), /Made by the form/);
    assert.match(await main(page), /data\.bin/);
    await page.context().close();
  });
  await check("a refusal states why, and keeps the form " + mode, async () => {
    const page = await open({ javaScriptEnabled });
    await page.goto(base + "/compute/new");
    await page.getByRole("textbox", { name: "Title" }).fill("Too large");
    await page.getByRole("combobox", { name: "Service" }).selectOption("small");
    await page.getByRole("textbox", { name: /^Command/ }).fill("true");
    await page.locator("summary", { hasText: "Limits" }).click();
    await page.getByLabel("Memory").fill("2GiB");
    await page.getByRole("button", { name: "Send" }).click();
    await page.getByRole("alert").waitFor();
    assert.match(await page.getByRole("alert").innerText(), /memory 2 GiB is more than the 1 GiB/);
    assert.equal(await page.getByRole("textbox", { name: "Title" }).inputValue(), "Too large");
    await page.context().close();
  });
}

await check("drop files on the form by mouse, and remove one", async () => {
  const page = await open({});
  await page.goto(base + "/compute/new");
  const dropped = await page.evaluateHandle(() => {
    const t = new DataTransfer();
    t.items.add(new File(["x"], "one.txt"));
    t.items.add(new File(["y"], "<img src=x onerror=alert(1)>"));
    return t;
  });
  await page.dispatchEvent(".drop", "drop", { dataTransfer: dropped });
  assert.equal(await page.locator(".chosen li").count(), 2);
  const send = page.getByRole("button", { name: "Send" }), remove = page.getByRole("button", { name: "Remove one.txt" });
  const ground = (b) => b.evaluate((e) => getComputedStyle(e).backgroundColor);
  assert.notEqual(await ground(remove), await ground(send), "to remove a file is not the main action");
  const long = await page.evaluateHandle(() => {
    const t = new DataTransfer();
    t.items.add(new File(["z"], "long".repeat(50) + ".txt"));
    return t;
  });
  await page.dispatchEvent(".drop", "drop", { dataTransfer: long });
  assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= document.documentElement.clientWidth), "a long name");
  await page.getByRole("button", { name: /^Remove long/ }).click();
  await remove.click();
  assert.equal(await page.locator(".chosen li").count(), 1);
  await page.context().close();
});

await check("follow the output as it is written", async () => {
  const page = await open({});
  await page.goto(base + "/jobs/" + jobs.evil);
  await fetch(base + "/test/write", { method: "POST" });
  await page.locator("pre.output", { hasText: "written later" }).waitFor();
  await page.context().close();
});

await check("output that begins anew replaces that of before", async () => {
  const page = await open({});
  const anew = { stream: "stdout", offset: 0, text: "of another attempt\n" };
  await page.route("**/logs?stream=stdout*", (r) => r.fulfill({ contentType: "text/event-stream",
    body: `event: output\ndata: ${JSON.stringify(anew)}\n\nevent: end\ndata: {}\n\n` }));
  await page.goto(base + "/jobs/" + jobs.evil);
  const output = page.locator("pre.output", { hasText: "of another attempt" });
  await output.waitFor();
  assert.equal(await output.textContent(), anew.text);
  await page.context().close();
});

await everyPage(jobs.pages);
await close();
