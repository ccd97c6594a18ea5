// A browser of this machine, for the tests and the screenshots of the pages.
import { chromium } from "playwright-core";

export const base = process.env.STAGEPOST_URL;

export function launch() {
  return chromium.launch({
    executablePath: process.env.CHROMIUM || "/usr/bin/chromium",
    args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"],
  });
}
