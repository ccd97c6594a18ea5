// Tests of the pages of ingest in a browser: see suitelib.mjs.
import assert from "node:assert/strict";
import { base, check, close, everyPage, jobs, open } from "./suitelib.mjs";

for (const javaScriptEnabled of [true, false]) {
  await check("share a batch by a link, read it without an account, revoke the link " + (javaScriptEnabled ? "with the script" : "without the script"), async () => {
    const page = await open({ javaScriptEnabled });
    await page.goto(base + "/jobs/" + jobs.batch);
    await page.locator("summary", { hasText: "Share it by a link" }).click();
    const note = "for a reader " + javaScriptEnabled;
    await page.locator("form[action$='/shares'] input[name=note]").fill(note);
    await page.getByRole("button", { name: "Confirm: make a link" }).click();
    const address = await page.locator("main .command code").innerText(), link = new URL(address).pathname;
    assert.equal(address, base + link, "the address is whole");
    assert.equal(await page.getByRole("button", { name: "Copy the link" }).isVisible(), javaScriptEnabled);
    const other = await open({ javaScriptEnabled });
    await other.goto(base + link);
    assert.match(await other.locator("main").innerText(), /You read this by a link/);
    assert.deepEqual(await other.context().cookies(), []);
    await page.goto(base + "/jobs/" + jobs.batch);
    const one = page.locator(".cards li", { hasText: note });
    await one.locator("summary").click();
    await one.getByRole("button", { name: /revoke/ }).click();
    await page.locator(".notice", { hasText: "revoked" }).waitFor();
    await other.goto(base + link);
    assert.match(await other.locator("main").innerText(), /leads to nothing/);
    await page.context().close();
    await other.context().close();
  });
}

await everyPage(jobs.pages.concat(jobs.plain));
await close();
