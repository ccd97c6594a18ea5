// Tests of the pages of archives in a browser: see suitelib.mjs.
import assert from "node:assert/strict";
import { base, check, close, everyPage, jobs, open } from "./suitelib.mjs";

await everyPage(jobs.pages);

for (const javaScriptEnabled of [true, false]) {
  await check("find a course, archive it again, read its copies " + (javaScriptEnabled ? "with the script" : "without the script"), async () => {
    const page = await open({ javaScriptEnabled });
    await page.goto(base + "/archive");
    await page.getByRole("link", { name: "maps" }).click();
    await page.waitForURL("**/archive/disk/maps");
    await page.locator("summary", { hasText: "Archive it" }).click();
    await page.locator("details.act input[name=note]").fill("again");
    await Promise.all([page.waitForURL("**/jobs/arc_*"), page.getByRole("button", { name: "Confirm" }).click()]);
    if (javaScriptEnabled) await page.locator("#copies").waitFor(); // the page follows the job
    await page.goto(base + "/jobs/" + jobs.archive);
    assert.match(await page.locator("main").innerText(), /near\s+verified/);
    await page.goto(base + "/jobs/" + jobs.archive + "/copies");
    const row = page.getByRole("row", { name: "far" }).filter({ hasText: jobs.digest });
    assert.match(await row.innerText(), /verified[^]*read back when it was stored/);
    await page.context().close();
  });
}
await close();
