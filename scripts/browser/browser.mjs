// A browser of this machine, for the tests and the screenshots of the pages.
import { createRequire } from "node:module";

// The packages are in bin/, beside what is built (make browser-packages).
export const require = createRequire(new URL("../../bin/browser/", import.meta.url));
const { chromium } = require("playwright-core");

export const base = process.env.STAGEPOST_URL;

export function launch() {
  return chromium.launch({
    executablePath: process.env.CHROMIUM || "/usr/bin/chromium",
    args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"],
  });
}
