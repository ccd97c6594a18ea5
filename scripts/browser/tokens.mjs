// Tests of signing in with a token, and of the page about tokens, in a browser: see suitelib.mjs. All is done with the
// keyboard alone.
import assert from "node:assert/strict";
import { base, check, close, everyPage, jobs, open } from "./suitelib.mjs";

const focused = (page) => page.evaluate(() => (document.activeElement.labels?.[0] ?? document.activeElement).textContent.trim());

// tabTo presses Tab until what has a text has the focus.
async function tabTo(page, text) {
  for (let i = 0; i < 80; i++) {
    await page.keyboard.press("Tab");
    if (await focused(page) === text) return;
  }
  assert.fail(`Tab does not reach "${text}" on ${page.url()}`);
}

// signIn signs in on the page to which somebody without a session is led, and opens the page about tokens.
async function signIn(page, who) {
  await page.goto(base + "/jobs");
  await page.waitForURL("**/sign-in?next=*");
  await tabTo(page, "API token");
  await page.keyboard.type(jobs.secrets[who]);
  await Promise.all([page.waitForURL("**/jobs"), page.keyboard.press("Enter")]);
  await tabTo(page, "Tokens");
  await Promise.all([page.waitForURL("**/tokens"), page.keyboard.press("Enter")]);
}

let session;
for (const javaScriptEnabled of [true, false]) {
  for (const who of ["ann", "ada"]) {
    await check(`${who} signs in and reads about tokens ${javaScriptEnabled ? "with" : "without"} the script`, async () => {
      const page = await open({ javaScriptEnabled });
      await signIn(page, who);
      const text = await page.locator("main").innerText();
      assert.equal(await page.locator("h1").innerText(), "Tokens");
      for (const [owner, digits] of Object.entries(jobs.digits)) {
        assert.equal(text.includes(digits), who === "ada" || owner === who, `${who} sees the token of ${owner}`);
      }
      assert.ok(text.includes(jobs.hostile), "a comment is shown as it is");
      for (const secret of Object.values(jobs.secrets)) assert.ok(!(await page.content()).includes(secret), "the page has a token");
      const row = page.getByRole("row").filter({ has: page.getByRole("rowheader", { name: jobs.digits[who] }) });
      assert.equal(await row.locator("time").count(), who === "ada" ? 1 : 2, "the last use, and when it expires");
      session = await page.context().storageState();
      if (!javaScriptEnabled) {
        await tabTo(page, "Sign out");
        await Promise.all([page.waitForURL("**/sign-in*"), page.keyboard.press("Enter")]);
        await page.goto(base + "/tokens");
        await page.waitForURL("**/sign-in?next=*");
      }
      await page.context().close();
    });
  }
  if (javaScriptEnabled) await everyPage(["/tokens", "/sessions", "/sign-in"], { storageState: session });
}
await check("ada revokes the token of ann with the keyboard", async () => {
  const page = await open({});
  await signIn(page, "ada");
  const row = page.getByRole("row").filter({ has: page.getByRole("rowheader", { name: jobs.digits.ann }) });
  await row.getByText("Revoke", { exact: true }).focus();
  await page.keyboard.press("Enter");
  await tabTo(page, "Reason kept in the records");
  await page.keyboard.type("found in a script");
  await tabTo(page, "Confirm: revoke the token");
  await Promise.all([page.waitForEvent("load"), page.keyboard.press("Enter")]);
  assert.ok((await page.content()).includes("The token is revoked"), "a notice");
  assert.equal(await row.count(), 0, "the revoked token is listed");
  const { status } = await page.evaluate(async (token) => {
    const answer = await fetch("/api/v1/session/tokens", { headers: { Authorization: `Bearer ${token}` } });
    return { status: answer.status };
  }, jobs.secrets.ann);
  assert.equal(status, 401, "the revoked token");
  await page.context().close();
});
await check("ada ends the session of ben with the keyboard", async () => {
  const [ben, page] = [await open({}), await open({})];
  await signIn(ben, "ben");
  await signIn(page, "ada");
  await page.goto(base + "/sessions");
  const row = page.getByRole("row").filter({ has: page.getByRole("rowheader", { name: /^ben/ }) });
  assert.equal(await row.count(), 1, "sessions of ben");
  await row.getByText("End", { exact: true }).focus();
  await page.keyboard.press("Enter");
  await tabTo(page, "Reason kept in the records");
  await page.keyboard.type("the laptop is lost");
  await tabTo(page, "Confirm: end the session");
  await Promise.all([page.waitForEvent("load"), page.keyboard.press("Enter")]);
  assert.ok((await page.content()).includes("The session is ended"), "a notice");
  assert.equal(await row.count(), 0, "the session is listed");
  await ben.goto(base + "/tokens");
  await ben.waitForURL("**/sign-in?next=*");
  await ben.context().close();
  await page.context().close();
});
await close();
