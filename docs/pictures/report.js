"use strict";

// Takes a picture of a page of `tracer-user report`, with its slowest span selected: `node report.js PAGE PICTURE`.
//
// Needs `playwright-core` and Debian's chromium.

const path = require("path");
const { chromium } = require("playwright-core");

const SIZE = { width: 1280, height: 800 };
const TIMEOUT_MS = 120_000;

async function main() {
  const [file, picture] = process.argv.slice(2);
  const browser = await chromium.launch({
    executablePath: "/usr/bin/chromium",
    args: ["--no-sandbox", "--disable-gpu"],
    timeout: TIMEOUT_MS,
  });
  try {
    const page = await browser.newPage({ viewport: SIZE });
    page.setDefaultTimeout(TIMEOUT_MS);
    const faults = [];
    page.on("pageerror", (error) => faults.push(String(error)));
    await page.goto(`file://${path.resolve(file)}`);
    await page.waitForFunction(() => document.documentElement.dataset.state === "ready");
    await page.locator("#table-slowest tbody button").first().click();
    // A bit of what was before and after it.
    for (let times = 0; times < 3; times++) await page.keyboard.press("s");
    await page.waitForTimeout(500);
    await page.screenshot({ path: picture });
    if (faults.length > 0) throw new Error(faults.join("\n"));
  } finally {
    await browser.close();
  }
}

main().catch((error) => {
  process.stderr.write(`${error.stack}\n`.slice(0, 4000));
  process.exitCode = 1;
});
