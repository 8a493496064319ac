// A report of very many threads in a browser: prints one object of which rows there are, before and
// after some of them are opened.
//
//     NODE_PATH=… node storm.js REPORT.html FOLDER-FOR-PICTURES

"use strict";

const path = require("node:path");
const { launch, open } = require("./browser.js");

/** The rows that are there, and how high that is. */
function rows(page) {
    return page.evaluate(() => {
        const { report } = globalThis;
        const threads = report.rows.flatMap((row) => row.kind === "group" ? row.members.map((member) => member.index)
            : row.kind === "state" ? [row.thread] : []);
        return {
            rows: report.rows.map((row) => row.whole),
            labels: report.rows.map((row) => row.label),
            threads: new Set(threads).size,
            whole: document.documentElement.scrollHeight,
            timeline: document.getElementById("stage").scrollHeight,
        };
    });
}

/** Where the name of a row is in the window. */
async function nameOf(page, label) {
    const box = await page.locator("#timeline").boundingBox();
    const y = await page.evaluate((wanted) => {
        const { report } = globalThis;
        const row = report.rows.find((one) => one.whole === wanted);
        return row.top - report.scroller.scrollTop + 24 + row.height / 2;
    }, label);
    return { x: box.x + 40, y: box.y + y, middle: box.x + box.width / 2 };
}

async function main([file, pictures]) {
    const browser = await launch();
    const complaints = [];
    const { page } = await open(browser, file, { viewport: { width: 1400, height: 900 } }, complaints);
    const found = { complaints, screen: 900, first: await rows(page) };
    await page.screenshot({ path: path.join(pictures, "storm.png"), fullPage: true });
    const at = await nameOf(page, "sed (1000 processes)");
    await page.mouse.move(at.x + 300, at.y);
    found.tip = await page.locator("#timeline").getAttribute("title");
    await page.mouse.click(at.x, at.y);
    found.opened = await rows(page);
    const child = await nameOf(page, "sed 1001");
    await page.mouse.move(child.x, child.y);
    found.whole = await page.locator("#timeline").getAttribute("title");
    await page.screenshot({ path: path.join(pictures, "storm-open.png") });
    const again = await nameOf(page, "sed (1000 processes)");
    await page.mouse.click(again.x, again.y);
    found.closed = await rows(page);
    found.last = await page.evaluate(() => globalThis.report.model.threads.filter((row) => row.name === "sed").at(-1).label);
    await page.keyboard.press("/");
    await page.keyboard.type(found.last);
    await page.keyboard.press("Enter");
    found.found = await rows(page);
    found.names = await page.locator("#table-names tbody tr").evaluateAll((all) => all.map((row) =>
        [...row.cells].map((cell) => cell.textContent)));
    await page.screenshot({ path: path.join(pictures, "storm-found.png") });
    await browser.close();
    process.stdout.write(JSON.stringify(found));
}

main(process.argv.slice(2)).catch((error) => {
    console.error(error);
    process.exit(1);
});
