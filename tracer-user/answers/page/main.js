// Reads the data, and shows the page.

import { decode } from "./decode.js";
import { byId } from "./dom.js";
import { Model } from "./rows.js";
import { Page } from "./page.js";

/** Reads the data and shows it. */
async function start() {
    const data = byId("data");
    try {
        const { header, columns, words } = await decode(data.textContent ?? "");
        data.remove();
        const page = new Page(new Model(header, columns, words));
        // For those who look at it from the outside, as tests do.
        Object.assign(globalThis, { report: page });
    } catch (error) {
        byId("title").textContent = "This report cannot be shown";
        byId("about").textContent = `${error}. It needs a browser of 2023 or later, and the whole file.`;
    }
    document.documentElement.dataset.state = "ready";
}

await start();
