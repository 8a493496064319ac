// A report in a browser, as people use it: prints one object of what it shows.
//
//     NODE_PATH=… node browser.js CHROMIUM REPORT.html FOLDER-FOR-PICTURES

"use strict";

const path = require("node:path");
const { chromium } = require("playwright-core");

const SIZES = [[1600, 1000], [1100, 700], [420, 800]];

/** What a table shows, cell by cell. */
function cells(table) {
    return [...table.tBodies[0].rows].map((row) => [...row.cells].map((cell) => cell.textContent));
}

async function details(page) {
    return page.locator("#details").evaluate((section) => ({
        lines: Object.fromEntries([...section.querySelectorAll("dt")].map((term) => [
            term.textContent, term.nextElementSibling.textContent])),
        words: section.querySelector("pre")?.textContent ?? null,
        options: section.querySelector("code")?.textContent ?? null,
        tables: [...section.querySelectorAll("table")].map((table) => [...table.tBodies[0].rows].map((row) => (
            [...row.cells].map((cell) => cell.textContent)))),
    }));
}

/** What it takes to draw a picture while it is zoomed. */
async function frames(page) {
    return page.evaluate(async () => {
        const { report } = globalThis;
        const took = [];
        const begin = performance.now();
        let before = report.frames;
        while (performance.now() - begin < 1500) {
            const from = performance.now();
            report.zoom(report.view.ns > report.model.end / 1e4 ? 0.9 : 1e9);
            await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
            took.push(performance.now() - from);
        }
        const seconds = (performance.now() - begin) / 1000;
        report.go(0, report.model.end);
        return { per_second: (report.frames - before) / seconds, longest_ms: Math.max(...took) };
    });
}

async function open(browser, file, options, complaints) {
    const context = await browser.newContext(options);
    const page = await context.newPage();
    page.on("console", (message) => complaints.push(message.text()));
    page.on("pageerror", (error) => complaints.push(String(error)));
    page.on("request", (request) => {
        if (!request.url().startsWith("file:")) {
            complaints.push(`asked for ${request.url()}`);
        }
    });
    const begin = performance.now();
    await page.goto(`file://${path.resolve(file)}`);
    await page.waitForFunction(() => (globalThis.report?.frames ?? 0) > 0, null, { timeout: 60_000 });
    return { page, context, first_ms: performance.now() - begin };
}

async function main([executablePath, file, pictures]) {
    const browser = await chromium.launch({ executablePath, args: ["--no-sandbox", "--disable-gpu"] });
    const complaints = [];
    const found = { complaints };
    for (const colorScheme of ["light", "dark"]) {
        for (const [width, height] of SIZES) {
            const opened = await open(browser, file, { colorScheme, viewport: { width, height } }, complaints);
            await opened.page.screenshot({ path: path.join(pictures, `${colorScheme}-${width}.png`) });
            const isWide = await opened.page.evaluate(() => document.documentElement.scrollWidth > innerWidth);
            if (isWide) {
                complaints.push(`${width} pixels are too few`);
            }
            await opened.context.close();
        }
    }
    const { page, first_ms: first } = await open(browser, file, { viewport: { width: 1400, height: 900 } }, complaints);
    found.first_ms = first;
    found.frames = await frames(page);
    found.title = await page.locator("#title").textContent();
    found.about = await page.locator("#about").textContent();
    found.warnings = await page.locator("#warnings").textContent();
    found.images = await page.locator("img, iframe, object, embed, svg").count();
    found.tables = await page.locator("#tables table").evaluateAll((tables) => Object.fromEntries(
        tables.map((table) => [table.id, [...table.tBodies[0].rows].map((row) => [...row.cells].map((cell) => cell.textContent))])));
    // Sorted by a click, by the keyboard too.
    found.sorted = await page.locator("#table-threads").evaluate((table) => {
        table.querySelector("thead th:nth-child(1) button").click();
        const first = [...table.tBodies[0].rows].map((row) => row.cells[0].textContent);
        const order = table.querySelector("thead th").ariaSort;
        return { first, order };
    });
    // From a row to the timeline.
    await page.locator("#table-threads tbody button").first().click();
    found.thread = await details(page);
    if (await page.locator("#table-slowest").count() > 0) {
        await page.locator("#table-slowest tbody button").first().click();
        found.span = await details(page);
        await page.screenshot({ path: path.join(pictures, "span.png") });
    }
    // A part of the time, by the mouse.
    await page.evaluate(() => globalThis.report.go(0, globalThis.report.model.end));
    const box = await page.locator("#timeline").boundingBox();
    const left = await page.evaluate(() => globalThis.report.left);
    const x = (part) => box.x + left + part * (box.width - left);
    await page.mouse.move(x(0.25), box.y + 60);
    await page.mouse.down();
    await page.mouse.move(x(0.5), box.y + 65, { steps: 4 });
    await page.mouse.up();
    found.part = await details(page);
    await page.screenshot({ path: path.join(pictures, "part.png") });
    // Keys.
    const view = () => page.evaluate(() => [globalThis.report.view.from, globalThis.report.view.to]);
    found.keys = [];
    for (const key of ["0", "w", "d", "a", "s", "f"]) {
        await page.keyboard.press(key);
        found.keys.push([key, ...await view()]);
    }
    await page.keyboard.press("Escape");
    await page.keyboard.press("/");
    found.focus = await page.evaluate(() => document.activeElement.id);
    found.end = await page.evaluate(() => globalThis.report.model.end);
    found.keys_help = await page.evaluate(() => {
        document.activeElement.blur();
        return document.getElementById("help").hidden;
    });
    await page.emulateMedia({ media: "print" });
    await page.screenshot({ path: path.join(pictures, "print.png"), fullPage: true });
    await browser.close();
    process.stdout.write(JSON.stringify(found));
}

main(process.argv.slice(2)).catch((error) => {
    console.error(error);
    process.exit(1);
});
