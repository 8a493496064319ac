// The page: what is shown, of which part of the time, and what is selected.

import { Model } from "./rows.js";
import { View } from "./window.js";
import { palette } from "./colours.js";
import { Painter, RULER, drawGaps, drawGrid, drawRuler, layOutRows } from "./draw.js";
import { byId, element } from "./dom.js";
import { duration } from "./words.js";
import { findAt, showTables, wakeUpOf } from "./find.js";
import { forest, groupsOf } from "./forest.js";
import { showFlames } from "./flames.js";
import { KEYS, listen } from "./input.js";
import { drawLabels, drawOverview, drawPath, drawSelection, drawSliceNames } from "./overlay.js";
import { showDetails } from "./panel.js";

/** @typedef {import("./details.js").Selection} Selection */
/** @typedef {import("./draw.js").Row} Row */

/** Threads that were looked for last, and have rows of their own for that. */
const MOST_NEEDED = 20;

/** The row that has the states of each thread that is shown. @param {Row[]} rows */
function rowsByThread(rows) {
    /** @type {Map<number, Row>} */
    const found = new Map();
    for (const row of rows) {
        if (row.kind === "state") {
            found.set(row.thread, row);
        }
        row.members.forEach((member) => row.kind === "group" && found.set(member.index, row));
    }
    return found;
}

/** The page, once its data is there. */
export class Page {
    /** @param {Model} model */
    constructor(model) {
        this.model = model;
        this.view = new View(model.end);
        /** @type {Set<string>} */
        this.turned = new Set();
        /** Threads that were looked for: they have a row where their group is open. @type {Set<number>} */
        this.needed = new Set();
        this.nodes = forest(model, this.needed);
        this.rows = layOutRows(model, this.nodes, this.turned);
        this.rowOfThread = rowsByThread(this.rows);
        /** @type {Selection | null} */
        this.selection = null;
        /** Which of the slowest spans is drawn. */
        this.path = -1;
        /** @type {{from: number, to: number} | null} */
        this.mark = null;
        /** @type {{hits: import("./details.js").Hit[], count: number}} */
        this.found = { hits: [], count: 0 };
        this.hit = -1;
        this.pointer = { x: 0, isInside: false };
        this.isDue = false;
        this.frames = 0;
        /** @type {Array<{draw: () => void}>} */
        this.flames = [];
        this.isDark = false;
        this.wasDark = false;
        this.colours = palette(false);
        /** @type {ImageData | undefined} */
        this.image = undefined;
        /** @type {ImageData | undefined} */
        this.overviewImage = undefined;
        this.scroller = byId("scroller");
        this.canvas = /** @type {HTMLCanvasElement} */ (byId("timeline"));
        this.context = /** @type {CanvasRenderingContext2D} */ (this.canvas.getContext("2d", { alpha: false }));
        this.overview = /** @type {HTMLCanvasElement} */ (byId("overview"));
        this.setTheme(matchMedia("(prefers-color-scheme: dark)").matches);
        this.say();
        listen(this);
        showTables(this);
        this.flames = showFlames(this);
        this.resize();
    }

    /** Where the timeline begins: left of it are the names of rows. */
    get left() {
        return Math.min(Math.max(Math.round(this.canvas.clientWidth * 0.2), 110), 260);
    }

    get width() {
        return Math.max(this.canvas.clientWidth - this.left, 1);
    }

    say() {
        const { header } = this.model;
        byId("title").textContent = header.log;
        const { stat } = header;
        byId("about").textContent = `${duration(stat.span_ns)} from the first event to the end, `
            + `${stat.threads.length} threads, ${stat.lost} events lost${header.but_for}. Recorded ${header.date} on ${header.system}. `
            + `Times are since the start of the log.`;
        const warnings = [];
        if (header.missing_events !== null) {
            warnings.push(header.missing_events);
        }
        if (this.model.gaps.length > 0) {
            warnings.push("Where it is hatched, events were lost: what happened there is not known.");
        }
        if (header.left_out > 0) {
            warnings.push(`${header.left_out} intervals, spans and events are not shown: there are too many different threads or types.`);
        }
        if (header.without_words > 0) {
            warnings.push(`Of ${header.without_words} events only the times are stored here; \`tracer-user read\` shows what they carry.`);
        }
        byId("warnings").textContent = warnings.join("\n");
        const list = document.createElement("dl");
        for (const [keys, words] of KEYS) {
            const line = document.createElement("div");
            const term = document.createElement("dt");
            term.append(element("kbd", keys));
            line.append(term, element("dd", words));
            list.append(line);
        }
        byId("help").append(list);
    }

    /** @param {boolean} isDark */
    setTheme(isDark) {
        this.isDark = isDark;
        document.documentElement.dataset.theme = isDark ? "dark" : "light";
        this.colours = palette(isDark);
        byId("theme").textContent = isDark ? "Light" : "Dark";
        const names = ["running", "runnable: waits for a CPU", "blocked", "blocked for a device", "stopped", "unknown"];
        byId("legend").replaceChildren(...names.map((name, state) => {
            const item = element("li", name);
            const sample = document.createElement("span");
            sample.style.background = this.colours.states[state];
            item.prepend(sample);
            return item;
        }));
        this.overviewImage = undefined;
        this.draw();
        this.drawFlames();
    }

    /** They change when colours or the width do. */
    drawFlames() {
        for (const graph of this.flames) {
            graph.draw();
        }
    }

    /** A position on the canvas as a time. @param {number} x */
    time(x) {
        return Math.round(this.view.time(Math.min(Math.max(x - this.left, 0), this.width), this.width));
    }

    /** @param {number} from @param {number} to */
    selectTime(from, to) {
        this.path = -1;
        this.selection = { kind: "time", thread: -1, index: -1, level: 0, from, to, label: "" };
    }

    /** @param {number} factor */
    zoom(factor) {
        const isAt = this.pointer.isInside && this.pointer.x >= 0;
        const at = isAt ? this.view.time(this.pointer.x, this.width) : (this.view.from + this.view.to) / 2;
        this.view.zoom(factor, at);
        this.draw();
    }

    /** @param {number} part */
    move(part) {
        this.view.move(part);
        this.draw();
    }

    /** @param {number} from @param {number} to */
    go(from, to) {
        this.view.show(from, to);
        this.draw();
    }

    fit() {
        const { selection } = this;
        if (selection !== null) {
            const ns = Math.max(selection.to - selection.from, 1000);
            this.go(selection.from - ns * 0.1, selection.to + ns * 0.1);
        }
    }

    /** Shows what is selected, nearer where it is too short to be seen. */
    approach() {
        const { selection, view } = this;
        if (selection === null || selection.kind === "time") {
            return;
        }
        const ns = Math.max((selection.to - selection.from) * 20, 100_000);
        if (ns < view.ns) {
            const middle = (selection.from + selection.to) / 2;
            this.go(middle - ns / 2, middle + ns / 2);
        }
    }

    toggleMark() {
        const { selection, mark } = this;
        const isSame = mark !== null && selection !== null && mark.from === selection.from && mark.to === selection.to;
        this.mark = selection === null || isSame ? null : { from: selection.from, to: selection.to };
        this.draw();
    }

    /** @param {number} y */
    rowAt(y) {
        const top = y - RULER + this.scroller.scrollTop;
        return y < RULER ? undefined : this.rows.find((one) => one.top <= top && top < one.top + one.height + 2);
    }

    /** @param {number} x @param {number} y */
    click(x, y) {
        this.scroller.focus({ preventScroll: true });
        const row = this.rowAt(y);
        if (row === undefined) {
            this.select(null);
        } else if (row.kind === "heading" || row.kind === "group" || (row.group !== "" && x < this.left)) {
            this.turn(row.group);
            this.layOut();
        } else {
            this.select(findAt(this, row, this.time(x)));
        }
    }

    /** @param {Selection | null} selection */
    select(selection) {
        this.selection = selection;
        this.path = -1;
        if (selection !== null && selection.kind === "spans") {
            const row = this.model.threads[selection.thread];
            const shift = this.model.shift;
            this.path = this.model.header.slowest.findIndex((/** @type {any} */ one) => one.tid === row.tid
                && one.pid === row.pid && one.from_ns - shift === selection.from
                && one.ns === selection.to - selection.from
                && one.kind === row.levels[selection.level].what[selection.index]);
        }
        if (selection !== null && (selection.to < this.view.from || selection.from > this.view.to)) {
            const ns = this.view.ns;
            this.view.show(selection.from - ns / 2, selection.from + ns / 2);
        }
        showDetails(this);
        this.draw();
    }

    /** Who woke the selected interval's thread, where that is a thread that is shown. @param {Selection} selection */
    wakeUp(selection) {
        return wakeUpOf(this, selection);
    }

    /** Opens a group, or closes it. @param {string} group */
    turn(group) {
        if (!this.turned.delete(group)) {
            this.turned.add(group);
        }
    }

    /** Opens all groups that a thread is in. @param {number} thread */
    open(thread) {
        this.needed.delete(thread);
        this.needed.add(thread);
        for (const first of [...this.needed].slice(0, -MOST_NEEDED)) {
            this.needed.delete(first);
        }
        this.nodes = forest(this.model, this.needed);
        for (const node of groupsOf(this.nodes, thread)) {
            if (node.isOpen === this.turned.has(node.group)) {
                this.turn(node.group);
            }
        }
        this.layOut();
    }

    layOut() {
        this.rows = layOutRows(this.model, this.nodes, this.turned);
        this.rowOfThread = rowsByThread(this.rows);
        this.resize();
    }

    resize() {
        const last = this.rows.at(-1);
        const height = last === undefined ? 0 : last.top + last.height + 8;
        byId("stage").style.height = `${height + RULER}px`;
        this.overviewImage = undefined;
        this.draw();
        this.drawFlames();
    }

    /** Draws, once, before the next picture. */
    draw() {
        if (!this.isDue) {
            this.isDue = true;
            requestAnimationFrame(() => {
                this.isDue = false;
                this.paint();
            });
        }
    }

    paint() {
        const scale = devicePixelRatio || 1;
        const { canvas, context, colours, view, model } = this;
        const height = this.scroller.clientHeight;
        canvas.style.height = `${height}px`;
        const [wide, high] = [Math.round(canvas.clientWidth * scale), Math.round(height * scale)];
        if (canvas.width !== wide || canvas.height !== high) {
            [canvas.width, canvas.height] = [wide, high];
        }
        const left = Math.round(this.left * scale);
        if (wide <= left || high <= 0) {
            return;
        }
        if (this.image === undefined || this.image.width !== wide - left || this.image.height !== high) {
            this.image = context.createImageData(wide - left, high);
        }
        const scroll = this.scroller.scrollTop;
        const shown = this.rows.filter((row) => row.top + row.height > scroll && row.top < scroll + height);
        this.paintRows(this.image, shown, scroll, scale);
        context.setTransform(1, 0, 0, 1, 0, 0);
        context.fillStyle = colours.page;
        context.fillRect(0, 0, left, high);
        context.putImageData(this.image, left, 0);
        context.setTransform(scale, 0, 0, scale, 0, 0);
        context.font = '12px system-ui, "DejaVu Sans", sans-serif';
        context.textBaseline = "middle";
        const overlay = { context, view, colours, left: this.left, width: this.width, height };
        context.save();
        context.beginPath();
        context.rect(this.left, 0, this.width, height);
        context.clip();
        drawGrid(overlay, model.shift);
        drawSliceNames(this, overlay, shown, scroll);
        drawGaps(overlay, model.gaps);
        drawSelection(this, overlay, scroll);
        drawPath(this, overlay, scroll);
        context.restore();
        drawLabels(this, overlay, shown, scroll);
        drawRuler(overlay, model.shift);
        drawOverview(this, scale);
        this.frames++;
    }

    /** @param {ImageData} image @param {Row[]} rows @param {number} scroll @param {number} scale */
    paintRows(image, rows, scroll, scale) {
        const painter = new Painter(this.model, this.view, this.colours);
        painter.into(image);
        for (const row of rows) {
            const top = Math.round((row.top - scroll + RULER) * scale);
            const bottom = Math.round((row.top + row.height - scroll + RULER) * scale);
            if (row.kind === "heading") {
                painter.fill(0, image.width, top, bottom, painter.band);
            } else if (row.kind === "group") {
                painter.together(row.members.map((member) => member.track), top, bottom);
            } else if (row.kind === "state") {
                painter.track(this.model.threads[row.thread].track, top, bottom);
            } else if (row.kind === "marks" || row.kind === "faults") {
                painter.marks(this.model.threads[row.thread][row.kind].at, top, bottom, scale);
            } else if (row.kind === "messages") {
                painter.marks(this.model.nodes[row.node].marks.at, top, bottom, scale);
            } else if (row.slices !== undefined) {
                painter.slicesOf(row.slices, top, bottom);
            }
        }
    }
}
