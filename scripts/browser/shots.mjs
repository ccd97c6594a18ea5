// Takes screenshots of pages: node shots.mjs FOLDER THEMES WIDTHS NAME=PATH... The standard input is JSON with the token
// of the user who signs in, if it is not empty.
import { readFileSync } from "node:fs";
import { base, launch } from "./browser.mjs";

const [folder, themes, widths, ...pages] = process.argv.slice(2);
const { token } = JSON.parse(readFileSync(0, "utf8"));
const browser = await launch();
for (const theme of themes.split(",")) {
  for (const width of widths.split(",").map(Number)) {
    const context = await browser.newContext({ colorScheme: theme, viewport: { width, height: width < 600 ? 844 : 860 }, timezoneId: "UTC", locale: "en-GB" });
    if (token) await context.request.post(base + "/sign-in", { form: { token, next: "/" } });
    const page = await context.newPage();
    for (const one of pages) {
      const [name, path] = [one.slice(0, one.indexOf("=")), one.slice(one.indexOf("=") + 1)];
      await page.goto(base + path, { waitUntil: "load" });
      await page.screenshot({ path: `${folder}/${name}-${theme}-${width}.png`, fullPage: process.env.FULL === "1" });
    }
    await context.close();
  }
}
await browser.close();
