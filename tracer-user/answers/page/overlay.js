// What is drawn over the pixels of the timeline: names, what is selected, arrows, paths.

import { wakeUpOf } from "./find.js";
import { RULER, drawNames, drawText } from "./draw.js";
import { lightness } from "./colours.js";
import { Model } from "./rows.js";

/** @typedef {import("./page.js").Page} Page */
/** @typedef {import("./details.js").Selection} Selection */
/** @typedef {import("./draw.js").Row} Row */
/** @typedef {import("./draw.js").Overlay} Overlay */

const FONT = '12px system-ui, "DejaVu Sans", sans-serif';
const SMALL = '10px system-ui, "DejaVu Sans", sans-serif';

/** @param {Page} page @param {Overlay} overlay @param {Row[]} rows @param {number} scroll */
export function drawSliceNames(page, overlay, rows, scroll) {
    const { model, colours } = page;
    /** @type {Record<string, (what: number) => string>} */
    const names = {
        state: (what) => stateName(model, what),
        spans: (what) => model.header.kinds[what],
        calls: (what) => model.header.calls[what],
        cpu: (what) => model.threads[what].label,
        irq: (what) => model.header.interrupts[what][2] ?? "",
    };
    const inks = colours.states.map(inkOn);
    for (const row of rows) {
        const isState = row.kind === "state";
        const slices = isState ? model.threads[row.thread].track : row.slices;
        if (slices !== undefined) {
            overlay.context.font = row.height < 13 ? SMALL : FONT;
            const ink = (/** @type {number} */ what) => isState ? inks[model.states[what]] : colours.ink;
            drawNames(overlay, slices, row.top - scroll + RULER, row.height, names[row.kind], ink, isState);
        }
    }
    overlay.context.font = FONT;
}

/** What is written into an interval: what people look for in it. @param {Model} model @param {number} what */
function stateName(model, what) {
    const one = model.header.codes[what];
    return one.state === "blocked" ? one.in ?? "blocked" : one.state === "unknown" ? "" : one.state;
}

/** What can be read on a colour. @param {string} colour */
function inkOn(colour) {
    return lightness(colour) > 0.18 ? "#15181c" : "#ffffff";
}

/** @param {Page} page @param {Overlay} overlay @param {Row[]} rows @param {number} scroll */
export function drawLabels(page, { context, colours, left }, rows, scroll) {
    context.fillStyle = colours.line;
    context.fillRect(left - 1, 0, 1, page.scroller.clientHeight);
    for (const row of rows) {
        const top = row.top - scroll + RULER;
        const sign = row.group === "" ? "" : row.isOpen ? "▾ " : "▸ ";
        if (row.kind === "heading") {
            context.fillStyle = colours.band;
            context.fillRect(0, top, left + page.width, row.height);
            context.fillStyle = colours.ink;
            drawText(context, `${sign}${row.label}`, 8, top + row.height / 2, page.width);
        } else {
            const isThread = row.kind === "state" || row.kind === "group";
            const isSelected = page.selection !== null && row.kind === "state" && row.thread === page.selection.thread;
            context.fillStyle = isSelected ? colours.accent : isThread || row.kind === "cpu" ? colours.ink : colours.faint;
            const begin = sign !== "" ? 8 : isThread || row.kind === "cpu" || row.kind === "irq" ? 14 : 24;
            drawText(context, `${sign}${row.label}`, begin, top + row.height / 2, left - begin - 6);
        }
    }
}

/** Where the row is that has the states of a thread; `null` where it is not shown. @param {Page} page @param {number} thread @param {number} scroll */
function rowTop(page, thread, scroll) {
    const row = page.rowOfThread.get(thread);
    return row === undefined ? null : { top: row.top - scroll + RULER, height: row.height };
}

/** @param {Page} page @param {Overlay} overlay @param {number} scroll */
export function drawSelection(page, { context, view, colours, left, width, height }, scroll) {
    const { selection, mark } = page;
    const box = (/** @type {{from: number, to: number}} */ part, /** @type {string} */ colour, /** @type {number} */ alpha) => {
        const from = left + view.x(part.from, width);
        const to = Math.max(left + view.x(part.to, width), from + 1);
        context.globalAlpha = alpha;
        context.fillStyle = colour;
        context.fillRect(from, RULER, to - from, height - RULER);
        context.globalAlpha = 1;
        context.fillRect(from, RULER, 1, height - RULER);
        context.fillRect(to - 1, RULER, 1, height - RULER);
    };
    if (mark !== null) {
        box(mark, colours.states[4], 0.12);
    }
    if (selection === null) {
        return;
    }
    box(selection, colours.accent, 0.1);
    const row = page.rows.find((one) => one.kind === selection.kind && one.level === selection.level
        && (one.kind === "cpu" || one.kind === "irq" ? one.label === selection.label : one.thread === selection.thread));
    if (row !== undefined) {
        const from = left + view.x(selection.from, width);
        const to = left + view.x(selection.to, width);
        context.strokeStyle = colours.ink;
        context.lineWidth = 2;
        context.strokeRect(from - 1, row.top - scroll + RULER - 1, Math.max(to - from, 1) + 2, row.height + 2);
        context.lineWidth = 1;
    }
    const waker = wakeUpOf(page, selection);
    const [source, target] = [waker === null ? null : rowTop(page, waker.thread, scroll), rowTop(page, selection.thread, scroll)];
    if (waker !== null && source !== null && target !== null) {
        drawArrow(page, context, left + view.x(waker.at, width), source.top + source.height / 2, target.top + target.height / 2);
    }
}

/** From who woke to who was woken. @param {Page} page @param {CanvasRenderingContext2D} context @param {number} x @param {number} from @param {number} to */
function drawArrow(page, context, x, from, to) {
    const tip = from < to ? -1 : 1;
    context.strokeStyle = page.colours.ink;
    context.fillStyle = page.colours.ink;
    context.lineWidth = 1.5;
    context.beginPath();
    context.arc(x, from, 3, 0, 7);
    context.fill();
    context.beginPath();
    context.moveTo(x, from);
    context.lineTo(x, to);
    context.stroke();
    context.beginPath();
    context.moveTo(x, to);
    context.lineTo(x - 4, to + tip * 8);
    context.lineTo(x + 4, to + tip * 8);
    context.fill();
    context.lineWidth = 1;
}

/** The critical path of the selected span, through the threads. @param {Page} page @param {Overlay} overlay @param {number} scroll */
export function drawPath(page, { context, view, colours, left, width }, scroll) {
    const { model } = page;
    const one = model.header.slowest[page.path];
    if (one === undefined) {
        return;
    }
    context.strokeStyle = colours.ink;
    context.fillStyle = colours.ink;
    context.lineWidth = 2;
    let last = -1;
    for (const segment of one.segments) {
        const row = model.rowOf(segment.pid, segment.tid);
        const at = row === undefined ? null : rowTop(page, row.index, scroll);
        if (at === null) {
            last = -1;
            continue;
        }
        const from = left + view.x(segment.from_ns - model.shift, width);
        const to = left + view.x(segment.from_ns + segment.ns - model.shift, width);
        const y = at.top + at.height - 3;
        if (last >= 0 && Math.abs(last - y) > 1) {
            context.beginPath();
            context.moveTo(from, last);
            context.lineTo(from, y);
            context.stroke();
        }
        context.fillRect(from, y - 1, Math.max(to - from, 1), 3);
        last = y;
    }
    context.lineWidth = 1;
}
