"use strict";

// Takes a picture of a trace in Perfetto's user interface: `node perfetto.js UI TRACE PICTURE SQL`.
//
// UI is the folder of the interface as it is published. SQL gives the columns `id` of the slice to select, and `first`
// and `last` for the time that is shown. Needs `playwright-core` and Debian's chromium. Everything is served on
// loopback, and nothing is asked of the network.

const fs = require("fs");
const http = require("http");
const path = require("path");
const { chromium } = require("playwright-core");

const KINDS = { ".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".json": "application/json",
  ".png": "image/png", ".svg": "image/svg+xml", ".wasm": "application/wasm", ".woff2": "font/woff2" };
const SIZE = { width: 1280, height: 820 };
const TIMEOUT_MS = 300_000;

/** Serves the interface, and the trace as `/trace`. */
async function serve(folder, trace) {
  const server = http.createServer((request, response) => {
    const asked = path.normalize(decodeURIComponent(new URL(request.url, "http://localhost").pathname));
    const file = asked === "/trace" ? trace : path.join(folder, asked === "/" ? "index.html" : asked);
    if (!fs.existsSync(file)) {
      response.writeHead(404).end();
      return;
    }
    response.writeHead(200, { "Content-Type": KINDS[path.extname(file)] ?? "application/octet-stream" });
    fs.createReadStream(file).pipe(response);
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  return server;
}

/** In the page: shows processes with their threads, the time between `first` and `last`, and what is known of a slice. */
async function show(sql) {
  const { trace } = globalThis.app;
  const found = await trace.engine.query(sql);
  const { id, first, last } = found.firstRow({ id: 0, first: 0n, last: 0n });
  for (const node of trace.workspaces.currentWorkspace.flatTracks) {
    if (/^\/process_\d+$/.test(node.uri)) node.expand();
  }
  trace.selection.selectSqlEvent("slice", id, { scrollToSelection: true });
  trace.timeline.setViewportTime(first, last);
}

async function main() {
  const [folder, trace, picture, sql] = process.argv.slice(2);
  const server = await serve(folder, trace);
  const home = `http://127.0.0.1:${server.address().port}`;
  const browser = await chromium.launch({ executablePath: "/usr/bin/chromium", args: ["--no-sandbox"] });
  try {
    const page = await browser.newPage({ viewport: SIZE });
    const faults = [];
    page.on("pageerror", (error) => faults.push(String(error)));
    await page.goto(`${home}/#!/?url=${home}/trace`);
    const isLoaded = () => globalThis.app?.trace?.workspaces?.currentWorkspace.flatTracks.length > 0;
    await page.waitForFunction(isLoaded, null, { timeout: TIMEOUT_MS });
    await page.waitForTimeout(4000);
    await page.keyboard.press("Control+b");
    await page.evaluate(show, sql);
    await page.waitForTimeout(4000);
    // Down to the arguments of the slice.
    await page.mouse.move(SIZE.width / 4, SIZE.height - 100);
    await page.mouse.wheel(0, 1000);
    await page.waitForTimeout(1000);
    await page.screenshot({ path: picture });
    if (faults.length > 0) throw new Error(faults.join("\n"));
  } finally {
    await browser.close();
    server.close();
  }
}

main().catch((error) => {
  process.stderr.write(`${error.stack}\n`.slice(0, 4000));
  process.exitCode = 1;
});
