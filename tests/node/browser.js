// A report in a browser, as people use it: prints one object of what it shows.
//
//     NODE_PATH=… node browser.js REPORT.html FOLDER-FOR-PICTURES

"use strict";

const fs = require("node:fs");
const path = require("node:path");
const { chromium } = require("playwright-core");
const axe = require("axe-core");

/** A large screen, a small one, a telephone. */
const SIZES = [[1600, 1000], [1100, 700], [420, 800]];

/** The machine may be busy. */
const MOST_MS = 120_000;

/** Debian's browser. */
function browserPath() {
    const folders = (process.env.PATH ?? "").split(":");
    const found = folders.map((folder) => path.join(folder, "chromium")).find((file) => fs.existsSync(file));
    if (found === undefined) {
        throw new Error("no chromium; run: cargo xtask setup --test");
    }
    return found;
}

/** Starts the browser. */
function launch() {
    return chromium.launch({
        executablePath: browserPath(), args: ["--no-sandbox", "--disable-gpu"], timeout: MOST_MS,
    });
}

/** Opens the page. What it asks for, refuses or complains of is noted. */
async function open(browser, file, options, complaints) {
    const context = await browser.newContext({ viewport: { width: 1400, height: 900 }, ...options });
    context.setDefaultTimeout(MOST_MS);
    const page = await context.newPage();
    page.on("console", (message) => complaints.push(message.text()));
    page.on("pageerror", (error) => complaints.push(String(error)));
    page.on("dialog", (dialog) => {
        complaints.push(`dialog: ${dialog.message()}`);
        dialog.dismiss();
    });
    page.on("request", (request) => {
        if (request.url() !== `file://${path.resolve(file)}`) {
            complaints.push(`asked for ${request.url()}`);
        }
    });
    await page.goto(`file://${path.resolve(file)}`);
    await page.waitForFunction(() => document.documentElement.dataset.state === "ready"
        && (globalThis.report === undefined || globalThis.report.frames > 0));
    return { page, context };
}

/** What is said about what is selected. */
function details(page) {
    return page.locator("#details").evaluate((section) => ({
        lines: Object.fromEntries([...section.querySelectorAll("dt")].map((term) => [
            term.textContent, term.nextElementSibling.textContent])),
        words: section.querySelector("pre")?.textContent ?? null,
        options: section.querySelector("code")?.textContent ?? null,
        buttons: [...section.querySelectorAll("button")].map((button) => button.textContent),
        tables: Object.fromEntries([...section.querySelectorAll("table")].map((table) => [
            table.caption.textContent, [...table.tBodies[0].rows].map((row) => [...row.cells].map((cell) => cell.textContent))])),
    }));
}

/** All tables: headings and cells. */
function tables(page) {
    return page.locator("#tables table").evaluateAll((all) => Object.fromEntries(all.map((table) => [table.id, {
        title: table.caption.textContent,
        columns: [...table.tHead.rows[0].cells].map((cell) => cell.textContent),
        rows: [...table.tBodies[0].rows].map((row) => [...row.cells].map((cell) => cell.textContent)),
    }])));
}

/** Every size and colour scheme: nothing is wider than the window, and no reader is shut out. */
async function looks(browser, file, pictures, found) {
    found.too_wide = [];
    found.barriers = [];
    found.layouts = [];
    for (const colorScheme of ["light", "dark"]) {
        for (const [width, height] of SIZES) {
            const options = { colorScheme, viewport: { width, height } };
            const { page, context } = await open(browser, file, options, found.complaints);
            await page.screenshot({ path: path.join(pictures, `${colorScheme}-${width}.png`) });
            found.layouts.push(await layout(page));
            if (await page.evaluate(() => document.documentElement.scrollWidth > innerWidth)) {
                found.too_wide.push(`${colorScheme} ${width}`);
            }
            await context.close();
        }
        // The checker is a script that the page's own policy would not let in.
        const { page, context } = await open(browser, file, { colorScheme, bypassCSP: true }, found.complaints);
        await page.keyboard.press("?");
        await page.locator("#table-slowest tbody button").first().click();
        await page.evaluate(axe.source);
        const { violations, passes } = await page.evaluate(() => globalThis.axe.run());
        found.barriers.push(...violations.map(({ id, nodes }) => `${id}: ${nodes[0].html} ${nodes[0].failureSummary}`));
        found.checks = passes.length;
        await context.close();
    }
}

/** How much of the timeline is empty. */
function blank(page) {
    return page.evaluate(() => {
        const { report } = globalThis;
        const last = report.rows.at(-1);
        return report.scroller.clientHeight - (last.top + last.height + 24);
    });
}

/** How much of the details of a selected interval is seen, of how much there is. */
async function layout(page) {
    await page.evaluate(() => scrollTo(0, 0));
    await page.evaluate(() => {
        const { report } = globalThis;
        const thread = report.model.threads.findIndex((row) => row.track.count > 0);
        const { from, to } = report.model.threads[thread].track;
        report.select({ kind: "state", thread, index: 0, level: 0, from: from[0], to: to[0], label: "" });
    });
    const box = await page.locator("#details dl").boundingBox();
    const { height } = page.viewportSize();
    await page.evaluate(() => globalThis.report.select(null));
    return { details: box.height, seen: Math.min(box.y + box.height, height) - Math.max(box.y, 0) };
}

/** Every hit of a search, by the keyboard alone. */
async function hits(page, words, most) {
    await page.keyboard.press("Escape");
    await page.locator("#scroller").focus();
    await page.keyboard.press("/");
    await page.keyboard.press("Control+A");
    await page.keyboard.type(words);
    const found = [];
    for (let index = 0; index < most; index++) {
        await page.keyboard.press("Enter");
        found.push((await details(page)).lines);
    }
    const said = await page.locator("#hits").textContent();
    const shown = await page.evaluate(() => {
        const { view, selection } = globalThis.report;
        return { from: view.from, to: view.to, at: selection.from };
    });
    await page.keyboard.press("Escape");
    return { said, found, shown };
}

/** A part of the time, by the mouse. */
async function part(page, from, to) {
    await page.evaluate(() => globalThis.report.go(0, globalThis.report.model.end));
    const box = await page.locator("#timeline").boundingBox();
    const left = await page.evaluate(() => globalThis.report.left);
    const x = (share) => box.x + left + share * (box.width - left);
    await page.mouse.move(x(from), box.y + 60);
    await page.mouse.down();
    await page.mouse.move(x(to), box.y + 65, { steps: 4 });
    await page.mouse.up();
    return details(page);
}

/** What is said of what the pointer is at, and what is selected by a click there: of some rows. */
async function tips(page) {
    const box = await page.locator("#timeline").boundingBox();
    const found = [];
    for (let y = 30; y < Math.min(box.height, 300); y += 20) {
        await page.mouse.move(box.x + box.width * 0.7, box.y + y);
        const tip = await page.locator("#timeline").getAttribute("title");
        await page.evaluate(() => globalThis.report.select(null));
        if (!tip) {
            continue;
        }
        await page.mouse.click(box.x + box.width * 0.7, box.y + y);
        found.push({ tip, lines: (await details(page)).lines });
    }
    return found;
}

/** What the keys do with what is shown. */
async function keys(page) {
    await page.locator("#scroller").focus();
    const done = [];
    for (const key of ["0", "w", "w", "w", "w", "d", "a", "s", "f", "m", "Escape", "m", "?", "?", "?", "Escape"]) {
        await page.keyboard.press(key);
        done.push([key, await page.evaluate(() => {
            const { view, selection, mark } = globalThis.report;
            return {
                from: view.from,
                to: view.to,
                has_selection: selection !== null,
                mark,
                help: !document.getElementById("help").hidden,
            };
        })]);
    }
    return done;
}

/** A table, by the keyboard: from its heading on. */
async function sorting(page, id) {
    const heading = page.locator(`#${id} thead button`).first();
    await heading.focus();
    const read = () => page.locator(`#${id}`).evaluate((table) => ({
        first: [...table.tBodies[0].rows].map((row) => row.cells[0].textContent),
        order: table.tHead.rows[0].cells[0].ariaSort,
    }));
    await page.keyboard.press("Enter");
    const up = await read();
    await page.keyboard.press("Space");
    return { up, down: await read() };
}

/** The intervals of a thread's states, one by one, with the keys. */
async function intervals(page, most) {
    await page.locator("#table-threads tbody button").first().click();
    const found = [];
    for (let index = 0; index < most; index++) {
        const { lines, buttons } = await details(page);
        const arrow = await page.evaluate(() => {
            const { report } = globalThis;
            const wake = report.wakeUp(report.selection);
            return wake && { thread: report.model.threads[wake.thread].label, at: wake.at + report.model.shift };
        });
        found.push({ lines, buttons, arrow });
        await page.keyboard.press("ArrowLeft");
    }
    return found;
}

async function main([file, pictures]) {
    const browser = await launch();
    const found = { complaints: [] };
    await looks(browser, file, pictures, found);
    const { page, context } = await open(browser, file, {}, found.complaints);
    await context.grantPermissions(["clipboard-read", "clipboard-write"]);
    found.title = await page.locator("#title").textContent();
    found.about = await page.locator("#about").textContent();
    found.warnings = await page.locator("#warnings").textContent();
    found.elements = await page.evaluate(() => {
        const counts = {};
        for (const { localName } of document.querySelectorAll("*")) {
            counts[localName] = (counts[localName] ?? 0) + 1;
        }
        return counts;
    });
    found.tables = await tables(page);
    found.heard = await page.locator("#table-threads").ariaSnapshot();
    found.spans = [];
    const slowest = page.locator("#table-slowest tbody button");
    for (let index = 0; index < Math.min(await slowest.count(), 10); index++) {
        await slowest.nth(index).click();
        found.spans.push(await details(page));
    }
    await page.screenshot({ path: path.join(pictures, "span.png") });
    found.tips = await tips(page);
    found.hits = await hits(page, "onerror", 20);
    found.intervals = await intervals(page, 30);
    await page.screenshot({ path: path.join(pictures, "interval.png") });
    found.part = await part(page, 0.25, 0.5);
    await page.screenshot({ path: path.join(pictures, "part.png") });
    await page.locator("#details button", { hasText: "Copy" }).click();
    await page.locator("#details button", { hasText: "Copied" }).waitFor();
    found.copied = await page.evaluate(() => navigator.clipboard.readText());
    found.end = await page.evaluate(() => globalThis.report.model.end);
    found.keys = await keys(page);
    found.sorting = await sorting(page, "table-threads");
    await page.emulateMedia({ media: "print" });
    await page.evaluate(() => dispatchEvent(new Event("beforeprint")));
    await page.screenshot({ path: path.join(pictures, "print.png"), fullPage: true });
    fs.writeFileSync(path.join(pictures, "print.pdf"), await page.pdf());
    await browser.close();
    process.stdout.write(JSON.stringify(found));
}

module.exports = { blank, launch, open };

if (require.main === module) {
    main(process.argv.slice(2)).catch((error) => {
        console.error(error);
        process.exit(1);
    });
}
