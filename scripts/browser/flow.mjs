// Tests of the pages of flows in a browser: see suitelib.mjs.
import assert from "node:assert/strict";
import { base, check, close, everyPage, jobs, open } from "./suitelib.mjs";

await check("the tree of a flow is read and folded by keyboard", async () => {
  const page = await open({});
  await page.goto(base + "/jobs/" + jobs.failed);
  const root = page.locator(".tree summary").first();
  assert.match(await page.locator(".tree").innerText(), /two\s+FAILURE/);
  await root.focus();
  await page.keyboard.press("Enter");
  assert.equal(await page.locator(".tree li li").first().isVisible(), false);
  await page.context().close();
});

await everyPage(jobs.pages);

for (const javaScriptEnabled of [true, false]) {
  await check(javaScriptEnabled ? "send the signal that a flow waits for, and follow it" : "read what came of it without the script", async () => {
    const page = await open({ javaScriptEnabled });
    await page.goto(base + "/jobs/" + jobs.open);
    const box = page.locator("details.act", { hasText: "Send the signal" });
    if (javaScriptEnabled) { // the script shows what happened since
      await box.locator("summary").click();
      await box.getByLabel("Value").fill("yes");
      await box.getByRole("button").click();
      await page.locator("#main", { hasText: "3 of 3 tasks done" }).waitFor();
    } else {
      assert.match(await page.locator(".tree").innerText(), /result: yes/);
    }
    await page.context().close();
  });
}
await close();
