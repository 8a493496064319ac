// The flame graphs of a report in a browser: prints what is shown of each, as one list.
//
//     NODE_PATH=… node flames.js REPORT.html FOLDER-FOR-PICTURES

"use strict";

const path = require("node:path");
const { blank, launch, open } = require("./browser.js");

async function main([file, pictures]) {
    const browser = await launch();
    const complaints = [];
    const { page } = await open(browser, file, {}, complaints);
    const few = await blank(page);
    await page.screenshot({ path: path.join(pictures, "few.png") });
    await page.locator("#flames").scrollIntoViewIfNeeded();
    const shown = await page.locator("#flames > div").evaluateAll((all) => all.map((box) => ({
        title: box.querySelector("h2").textContent,
        said: box.querySelector("p").textContent,
        painted: new Set(box.querySelector("canvas").getContext("2d").getImageData(0, 0, 600, 40).data).size,
        functions: [...box.querySelector("table").tBodies[0].rows].map((row) => [...row.cells].map((cell) => cell.textContent)),
    })));
    const data = await page.evaluate(() => globalThis.report.model.header.flames);
    // The second row is what is called by the root first: it is shown alone, and then all again.
    const canvas = page.locator("#flames canvas").first();
    const said = page.locator("#flames p").first();
    await canvas.click({ position: { x: 5, y: 25 } });
    const zoomed = await said.textContent();
    await canvas.click({ position: { x: 5, y: 25 } });
    await page.locator("#flames").screenshot({ path: path.join(pictures, "flames.png") });
    await browser.close();
    process.stdout.write(JSON.stringify({ shown, data, blank: few, zoomed, complaints }));
}

main(process.argv.slice(2)).catch((error) => {
    console.error(error);
    process.exit(1);
});
