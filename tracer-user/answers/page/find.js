// What lies where in the timeline.

import { Slices, firstAfter } from "./slices.js";

/** @typedef {import("./page.js").Page} Page */
/** @typedef {import("./details.js").Selection} Selection */
/** @typedef {import("./draw.js").Row} Row */

/** What is at a time of a row. @param {Page} page @param {Row} row @param {number} at @returns {Selection | null} */
export function findAt(page, row, at) {
    const near = (3 / page.width) * page.view.ns;
    const of = { thread: row.thread, level: row.level, label: row.label };
    if (row.kind === "marks" || row.kind === "faults") {
        const marks = page.model.threads[row.thread][row.kind];
        let index = firstAfter(marks.at, at);
        if (index > 0 && (index === marks.count || at - marks.at[index - 1] < marks.at[index] - at)) {
            index--;
        }
        const found = marks.at[index];
        return Math.abs(found - at) > near ? null : { ...of, kind: row.kind, index, from: found, to: found };
    }
    const slices = row.kind === "state" ? page.model.threads[row.thread].track : row.slices;
    if (slices === undefined || row.kind === "heading" || row.kind === "group") {
        return null;
    }
    let index = slices.find(at);
    if (index < 0) {
        // One that is too short to be at the very pixel.
        const next = firstAfter(slices.from, at);
        const isNext = next < slices.count && slices.from[next] - at <= near;
        index = isNext ? next : next > 0 && at - slices.to[next - 1] <= near ? next - 1 : -1;
    }
    if (index < 0) {
        return null;
    }
    const thread = row.kind === "cpu" ? slices.what[index] : row.thread;
    return { ...of, thread, kind: row.kind, index, from: slices.from[index], to: slices.to[index] };
}

/** @param {Page} page @param {Selection} selection @returns {Slices | undefined} */
function slicesOf(page, selection) {
    const row = page.model.threads[selection.thread];
    switch (selection.kind) {
        case "state":
            return row.track;
        case "calls":
            return row.calls;
        case "spans":
            return row.levels[selection.level];
        default:
            return undefined;
    }
}

/** The interval before or after on the same row. @param {Page} page @param {number} by */
export function stepAlong(page, by) {
    const { selection, model } = page;
    const row = selection === null ? undefined : model.threads[selection.thread];
    if (selection === null || row === undefined || selection.index < 0) {
        page.move(by * 0.15);
        return;
    }
    const index = selection.index + by;
    if (selection.kind === "marks" || selection.kind === "faults") {
        const marks = row[selection.kind];
        if (index >= 0 && index < marks.count) {
            const at = marks.at[index];
            page.select({ ...selection, index, from: at, to: at });
        }
        return;
    }
    const slices = slicesOf(page, selection);
    if (slices !== undefined && index >= 0 && index < slices.count) {
        page.select({ ...selection, index, from: slices.from[index], to: slices.to[index] });
    }
}

/** Who woke the selected interval's thread, where that is a thread that is shown. @param {Page} page @param {Selection} selection */
export function wakeUpOf(page, selection) {
    const { model } = page;
    if (selection.kind !== "state") {
        return null;
    }
    const { track } = model.threads[selection.thread];
    // The wake-up is at the end of a blocked interval, which a runnable one follows, and a running one that.
    for (const index of [selection.index, selection.index - 1, selection.index - 2]) {
        if (index >= 0 && model.header.codes[track.what[index]].end === "thread") {
            const row = model.rowOfTask(track.task[index]);
            return row === undefined ? null : { thread: row.index, at: track.to[index] };
        }
    }
    return null;
}
