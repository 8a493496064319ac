// What is shown of what is selected.

import { byId, element, simpleTable } from "./dom.js";
import { callsBetween, describe, options, totalsBetween } from "./details.js";
import { reveal, wakeUpOf } from "./find.js";
import { STATES } from "./slices.js";
import { duration, moment, share } from "./words.js";

/** @typedef {import("./page.js").Page} Page */
/** @typedef {import("./details.js").Selection} Selection */

/** @param {Page} page */
export function showDetails(page) {
    const { model, selection } = page;
    const details = byId("details");
    details.replaceChildren();
    if (selection === null) {
        return;
    }
    const what = document.createElement("div");
    what.append(element("h2", "Selected"));
    const list = document.createElement("dl");
    for (const [name, words] of describe(model, selection)) {
        list.append(element("dt", name), element("dd", words));
    }
    what.append(list, copyButton(options(model, selection.from, selection.to)));
    pushLinks(page, what, selection);
    details.append(what);
    if (page.path >= 0) {
        const why = document.createElement("div");
        why.append(element("h2", "Why it took so long"), element("pre", model.header.slowest[page.path].words));
        details.append(why);
    } else if (selection.kind === "spans") {
        const why = document.createElement("div");
        const at = `--at ${moment(selection.from + model.shift)}s`;
        why.append(element("h2", "Why it took so long"),
            element("p", `Its critical path is not in this page, which has those of the ${model.header.slowest.length} slowest spans.`),
            element("p", `tracer-user why LOG ${at}`));
        details.append(why);
    }
    if (selection.kind === "time") {
        details.append(...statistics(page, selection.from, selection.to));
    }
}

/** @param {Page} page @param {HTMLElement} to @param {Selection} selection */
function pushLinks(page, to, selection) {
    const { model } = page;
    if (selection.kind !== "state") {
        return;
    }
    const waker = wakeUpOf(page, selection);
    if (waker !== null) {
        const button = element("button", `Go to ${model.threads[waker.thread].label}, who woke it`);
        button.addEventListener("click", () => {
            const index = model.threads[waker.thread].track.find(waker.at - 1);
            const of = model.threads[waker.thread].track;
            if (index >= 0) {
                const found = { ...selection, thread: waker.thread, index, from: of.from[index], to: of.to[index] };
                reveal(page, found);
                page.select(found);
            }
        });
        to.append(button);
    }
}

/** @param {string} text */
function copyButton(text) {
    const line = document.createElement("p");
    line.append(element("code", text), " ");
    const button = element("button", "Copy");
    button.addEventListener("click", async () => {
        try {
            await navigator.clipboard.writeText(text);
            button.textContent = "Copied";
        } catch {
            // A page from disk may not write there: what is selected can be copied.
            getSelection()?.selectAllChildren(/** @type {Node} */ (line.firstChild));
            button.textContent = document.execCommand("copy") ? "Copied" : "Selected";
        }
    });
    line.append(button);
    return line;
}

/** What happened in a part of the time. @param {Page} page @param {number} from @param {number} to @returns {HTMLElement[]} */
function statistics(page, from, to) {
    const { model } = page;
    const totals = totalsBetween(model, from, to);
    const threads = document.createElement("div");
    threads.append(simpleTable("Threads then", ["thread", ...STATES], totals.slice(0, 50).map(({ row, totals: of }) => [
        row.label, ...[...of].map((ns) => ns === 0 ? "" : `${duration(ns)} ${share(ns, to - from)}`)])));
    if (totals.length > 50) {
        threads.append(element("p", `and ${totals.length - 50} other threads, that ran less`));
    }
    const calls = callsBetween(model, from, to);
    if (calls.length === 0) {
        return [threads];
    }
    const made = document.createElement("div");
    made.append(simpleTable("System calls that returned then", ["system call", "calls", "took"],
        calls.slice(0, 30).map((call) => [call.name, String(call.count), duration(call.ns)])));
    return [threads, made];
}
