// What is drawn over the pixels of the timeline: names, what is selected, arrows, paths; and the overview above it.

import { wakeUpOf } from "./find.js";
import { Painter, RULER, drawNames, drawText } from "./draw.js";
import { lightness } from "./colours.js";
import { Model } from "./rows.js";
import { STATES } from "./slices.js";
import { View } from "./window.js";

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
        // Its lane has the name of the node.
        node: (what) => model.header.kinds[what].replace(/^\S+ /, ""),
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
            const isThread = row.kind === "state" || row.kind === "group" || row.kind === "node";
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

/** How busy the threads were, all the time, and which part of it is shown. @param {Page} page @param {number} scale */
export function drawOverview(page, scale) {
    const { overview, model, view, colours } = page;
    const context = /** @type {CanvasRenderingContext2D} */ (overview.getContext("2d"));
    const [wide, high] = [Math.round(overview.clientWidth * scale), Math.round(40 * scale)];
    const left = Math.round(page.left * scale);
    if (wide <= left) {
        return;
    }
    if (page.overviewImage === undefined || overview.width !== wide) {
        [overview.width, overview.height] = [wide, high];
        page.overviewImage = overviewPixels(page, context, wide - left, high);
    }
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.fillStyle = colours.page;
    context.fillRect(0, 0, wide, high);
    context.putImageData(page.overviewImage, left, 0);
    const [from, to] = [view.from / model.end, view.to / model.end];
    context.fillStyle = colours.page;
    context.globalAlpha = 0.6;
    context.fillRect(left, 0, from * (wide - left), high);
    context.fillRect(left + to * (wide - left), 0, (1 - to) * (wide - left), high);
    context.globalAlpha = 1;
    context.strokeStyle = colours.accent;
    context.lineWidth = 2;
    context.strokeRect(left + from * (wide - left) + 1, 1, Math.max((to - from) * (wide - left) - 2, 1), high - 2);
    context.setTransform(scale, 0, 0, scale, 0, 0);
    context.fillStyle = colours.faint;
    context.font = '12px system-ui, "DejaVu Sans", sans-serif';
    context.fillText("CPUs in use", 14, 24);
}

/** @param {Page} page @param {CanvasRenderingContext2D} context @param {number} width @param {number} height */
function overviewPixels(page, context, width, height) {
    const { model, colours } = page;
    const image = context.createImageData(width, height);
    const painter = new Painter(model, new View(model.end), colours);
    painter.into(image);
    const busy = new Float64Array(width);
    const sums = new Float64Array(STATES.length);
    for (const { track } of model.threads) {
        if (track.count === 0) {
            continue;
        }
        let before = 0;
        for (let x = 0; x < width; x++) {
            track.before(((x + 1) / width) * model.end, sums);
            busy[x] += sums[0] - before;
            before = sums[0];
        }
    }
    const most = Math.max(model.cpus.size, 1) * (model.end / width);
    busy.forEach((ns, x) => {
        const part = Math.min(ns / most, 1);
        painter.fill(x, x + 1, Math.round(height * (1 - part)), height, painter.states[0]);
    });
    return image;
}
