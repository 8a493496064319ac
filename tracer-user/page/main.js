// The page: what is shown where, and what people do with it.

import { decode } from "./decode.js";
import { Model, STATES, Slices, firstAfter } from "./rows.js";
import { View } from "./window.js";
import { palette } from "./colours.js";
import { Painter, RULER, drawGaps, drawNames, drawRuler, drawText, layOutRows } from "./draw.js";
import { MOST_HITS, callsBetween, describe, options, search, totalsBetween } from "./details.js";
import { tableElement, tables } from "./tables.js";
import { duration, moment, share } from "./words.js";

/** The keys, for people. */
const KEYS = [
    ["W, S", "zoom in, out, at the pointer"],
    ["A, D", "move left, right"],
    ["wheel", "scroll; with Ctrl zoom, with Shift move"],
    ["drag", "select a part of the time; with Shift, move"],
    ["click", "select what is there; a second click on a process closes it"],
    ["F", "show what is selected as large as possible"],
    ["M", "mark what is selected, or take the mark away"],
    ["← →", "the interval before, after"],
    ["/", "search; Enter and Shift+Enter go to the next, the one before"],
    ["0", "show all"],
    ["Esc", "select nothing"],
    ["?", "these keys"],
];

/** @param {string} id @returns {HTMLElement} */
function byId(id) {
    const found = document.getElementById(id);
    if (found === null) {
        throw new Error(`the page has no ${id}`);
    }
    return found;
}

/** An element with a text. @param {string} tag @param {string} text @returns {HTMLElement} */
function element(tag, text) {
    const made = document.createElement(tag);
    made.textContent = text;
    return made;
}

/** @typedef {import("./details.js").Selection} Selection */
/** @typedef {import("./draw.js").Row} Row */

/** The page, once its data is there. */
class Page {
    /** @param {Model} model */
    constructor(model) {
        this.model = model;
        this.view = new View(model.end);
        /** @type {Set<string>} */
        this.closed = new Set(model.cpus.size > 16 ? ["cpus"] : []);
        this.rows = layOutRows(model, this.closed);
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
        this.listen();
        this.showTables();
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
        byId("about").textContent = `${duration(stat.span_ns)} from the first event to the last, `
            + `${stat.threads.length} threads, ${stat.lost} events lost. Recorded ${header.date} on ${header.system}. `
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
    }

    listen() {
        const on = (/** @type {string} */ id, /** @type {() => void} */ what) => byId(id).addEventListener("click", what);
        on("zoom-in", () => this.zoom(0.5));
        on("zoom-out", () => this.zoom(2));
        on("all", () => this.go(0, this.model.end));
        on("theme", () => this.setTheme(!this.isDark));
        on("keys", () => this.toggleHelp());
        const box = /** @type {HTMLInputElement} */ (byId("search"));
        box.addEventListener("input", () => this.search(box.value));
        box.addEventListener("keydown", (event) => {
            if (event.key === "Enter") {
                this.next(event.shiftKey ? -1 : 1);
                event.preventDefault();
            } else if (event.key === "Escape") {
                this.scroller.focus();
            }
            event.stopPropagation();
        });
        document.addEventListener("keydown", (event) => this.key(event));
        this.scroller.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
        this.scroller.addEventListener("scroll", () => this.draw());
        this.listenToPointer();
        addEventListener("resize", () => this.resize());
        addEventListener("beforeprint", () => {
            this.wasDark = this.isDark;
            this.setTheme(false);
            this.paint();
        });
        addEventListener("afterprint", () => this.setTheme(this.wasDark ?? false));
    }

    listenToPointer() {
        /** @type {{x: number, y: number, from: number, to: number, isMove: boolean, isFar: boolean} | null} */
        let drag = null;
        const { canvas } = this;
        canvas.addEventListener("pointerdown", (event) => {
            const isMove = event.shiftKey || event.button === 1 || event.pointerType === "touch";
            drag = { x: event.offsetX, y: event.offsetY, from: this.view.from, to: this.view.to, isMove, isFar: false };
            canvas.setPointerCapture(event.pointerId);
        });
        canvas.addEventListener("pointermove", (event) => {
            this.pointer = { x: event.offsetX - this.left, isInside: true };
            if (drag === null) {
                return;
            }
            drag.isFar ||= Math.abs(event.offsetX - drag.x) > 4;
            if (!drag.isFar) {
                return;
            }
            if (drag.isMove) {
                const ns = ((drag.x - event.offsetX) / this.width) * (drag.to - drag.from);
                this.view.show(drag.from + ns, drag.to + ns);
            } else {
                this.selectTime(this.time(Math.min(drag.x, event.offsetX)), this.time(Math.max(drag.x, event.offsetX)));
            }
            this.draw();
        });
        canvas.addEventListener("pointerup", (event) => {
            if (drag !== null && !drag.isFar) {
                this.click(event.offsetX, event.offsetY);
            } else if (drag !== null && !drag.isMove) {
                this.showDetails();
            }
            drag = null;
        });
        canvas.addEventListener("pointerleave", () => {
            this.pointer.isInside = false;
        });
        const { overview } = this;
        const move = (/** @type {PointerEvent} */ event) => {
            if (event.buttons > 0 || event.type === "pointerdown") {
                const at = ((event.offsetX - this.left) / this.width) * this.model.end;
                this.go(at - this.view.ns / 2, at + this.view.ns / 2);
            }
        };
        overview.addEventListener("pointerdown", move);
        overview.addEventListener("pointermove", move);
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

    /** @param {KeyboardEvent} event */
    key(event) {
        const isTyping = event.target instanceof HTMLInputElement;
        if (isTyping || event.ctrlKey || event.metaKey || event.altKey) {
            return;
        }
        const isOnTimeline = document.activeElement === this.scroller || document.activeElement === document.body;
        /** @type {Record<string, () => void>} */
        const actions = {
            w: () => this.zoom(0.7),
            s: () => this.zoom(1 / 0.7),
            a: () => this.move(-0.15),
            d: () => this.move(0.15),
            f: () => this.fit(),
            m: () => this.toggleMark(),
            "/": () => byId("search").focus(),
            "?": () => this.toggleHelp(),
            0: () => this.go(0, this.model.end),
            escape: () => this.select(null),
        };
        if (isOnTimeline) {
            actions.arrowleft = () => this.step(-1);
            actions.arrowright = () => this.step(1);
        }
        const action = actions[event.key.toLowerCase()];
        if (action !== undefined) {
            action();
            event.preventDefault();
        }
    }

    toggleHelp() {
        const help = byId("help");
        help.hidden = !help.hidden;
        byId("keys").ariaExpanded = String(!help.hidden);
    }

    /** @param {WheelEvent} event */
    wheel(event) {
        const unit = event.deltaMode === 1 ? 30 : 1;
        if (event.ctrlKey) {
            this.zoom(Math.exp(event.deltaY * unit * 0.0025));
        } else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
            this.move(((event.shiftKey ? event.deltaY || event.deltaX : event.deltaX) * unit) / this.width);
        } else {
            return;
        }
        event.preventDefault();
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

    toggleMark() {
        const { selection, mark } = this;
        const isSame = mark !== null && selection !== null && mark.from === selection.from && mark.to === selection.to;
        this.mark = selection === null || isSame ? null : { from: selection.from, to: selection.to };
        this.draw();
    }

    /** The interval before or after on the same row. @param {number} by */
    step(by) {
        const { selection, model } = this;
        const row = selection === null ? undefined : model.threads[selection.thread];
        if (selection === null || row === undefined || selection.index < 0) {
            this.move(by * 0.15);
            return;
        }
        const index = selection.index + by;
        if (selection.kind === "marks") {
            if (index >= 0 && index < row.marks.count) {
                const at = row.marks.at[index];
                this.select({ ...selection, index, from: at, to: at });
            }
            return;
        }
        const slices = this.slicesOf(selection);
        if (slices !== undefined && index >= 0 && index < slices.count) {
            this.select({ ...selection, index, from: slices.from[index], to: slices.to[index] });
        }
    }

    /** @param {Selection} selection @returns {Slices | undefined} */
    slicesOf(selection) {
        const row = this.model.threads[selection.thread];
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

    /** @param {number} x @param {number} y */
    click(x, y) {
        this.scroller.focus({ preventScroll: true });
        const top = y - RULER + this.scroller.scrollTop;
        const row = y < RULER ? undefined : this.rows.find((one) => one.top <= top && top < one.top + one.height + 2);
        if (row === undefined) {
            this.select(null);
        } else if (row.kind === "heading") {
            if (!this.closed.delete(row.group)) {
                this.closed.add(row.group);
            }
            this.layOut();
        } else {
            this.select(this.at(row, this.time(x)));
        }
    }

    /** What is at a time of a row. @param {Row} row @param {number} at @returns {Selection | null} */
    at(row, at) {
        const near = (3 / this.width) * this.view.ns;
        const of = { thread: row.thread, level: row.level, label: row.label };
        if (row.kind === "marks") {
            const { marks } = this.model.threads[row.thread];
            let index = firstAfter(marks.at, at);
            if (index > 0 && (index === marks.count || at - marks.at[index - 1] < marks.at[index] - at)) {
                index--;
            }
            const found = marks.at[index];
            return Math.abs(found - at) > near ? null : { ...of, kind: "marks", index, from: found, to: found };
        }
        const slices = row.kind === "state" ? this.model.threads[row.thread].track : row.slices;
        if (slices === undefined || row.kind === "heading") {
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
        this.showDetails();
        this.draw();
    }

    /** Shows the row of what is selected. @param {Selection} selection */
    reveal(selection) {
        const row = this.model.threads[selection.thread];
        if (row !== undefined && this.closed.delete(`process ${row.pid}`)) {
            this.layOut();
        }
        const kind = selection.kind === "time" ? "state" : selection.kind;
        const shown = this.rows.find((one) => one.kind === kind && one.thread === selection.thread && one.level === selection.level);
        if (shown === undefined) {
            return;
        }
        const height = this.scroller.clientHeight - RULER;
        if (shown.top < this.scroller.scrollTop || shown.top + 40 > this.scroller.scrollTop + height) {
            this.scroller.scrollTop = Math.max(shown.top - height / 3, 0);
        }
    }

    showDetails() {
        const { model, selection } = this;
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
        what.append(list, this.copyButton(options(model, selection.from, selection.to)));
        this.pushLinks(what, selection);
        details.append(what);
        if (this.path >= 0) {
            const why = document.createElement("div");
            why.append(element("h2", "Why it took so long"), element("pre", model.header.slowest[this.path].words));
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
            details.append(...this.statistics(selection.from, selection.to));
        }
    }

    /** @param {HTMLElement} to @param {Selection} selection */
    pushLinks(to, selection) {
        const { model } = this;
        if (selection.kind !== "state") {
            return;
        }
        const { track } = model.threads[selection.thread];
        const waker = this.wakeUp(selection);
        if (waker !== null) {
            const button = element("button", `Go to ${model.threads[waker.thread].label}, who woke it`);
            button.addEventListener("click", () => {
                const index = model.threads[waker.thread].track.find(waker.at - 1);
                const of = model.threads[waker.thread].track;
                if (index >= 0) {
                    const found = { ...selection, thread: waker.thread, index, from: of.from[index], to: of.to[index] };
                    this.reveal(found);
                    this.select(found);
                }
            });
            to.append(button);
        }
        void track;
    }

    /** Who woke the selected interval's thread, where that is a thread that is shown. @param {Selection} selection */
    wakeUp(selection) {
        const { model } = this;
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

    /** @param {string} text */
    copyButton(text) {
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

    /** What happened in a part of the time. @param {number} from @param {number} to @returns {HTMLElement[]} */
    statistics(from, to) {
        const { model } = this;
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

    showTables() {
        const all = tables(this.model);
        byId("contents").replaceChildren(...all.map((table) => {
            const link = /** @type {HTMLAnchorElement} */ (element("a", table.title));
            link.href = `#table-${table.id}`;
            return link;
        }));
        byId("tables").replaceChildren(...all.map((table) => {
            const box = document.createElement("div");
            box.append(tableElement(table, (target) => this.follow(target)));
            return box;
        }));
    }

    /** @param {import("./tables.js").Target} target */
    follow(target) {
        const { model } = this;
        byId("title").scrollIntoView();
        this.scroller.focus({ preventScroll: true });
        if (target.slowest !== undefined) {
            this.showSlowest(target.slowest);
        } else if (target.thread !== undefined) {
            const row = model.rowOf(...target.thread);
            if (row === undefined) {
                return;
            }
            const [from, to] = [target.from ?? 0, target.to ?? model.end];
            const index = target.to === undefined ? -1 : row.track.find(Math.max(target.to - 1, 0));
            /** @type {Selection} */
            const selection = { kind: index < 0 ? "time" : "state", thread: row.index, index, level: 0, from, to, label: row.label };
            this.reveal(selection);
            this.select(selection);
            this.fit();
        } else if (target.search !== undefined) {
            /** @type {HTMLInputElement} */ (byId("search")).value = target.search;
            this.search(target.search);
            this.next(1);
        }
    }

    /** @param {number} index */
    showSlowest(index) {
        const { model } = this;
        const one = model.header.slowest[index];
        const row = model.rowOf(one.pid, one.tid);
        const from = one.from_ns - model.shift;
        if (row === undefined) {
            return;
        }
        for (let level = 0; level < row.levels.length; level++) {
            const slices = row.levels[level];
            for (let at = firstAfter(slices.from, from) - 1; at >= 0 && slices.from[at] === from; at--) {
                if (slices.to[at] === from + one.ns && slices.what[at] === one.kind) {
                    /** @type {Selection} */
                    const selection = { kind: "spans", thread: row.index, index: at, level, from, to: from + one.ns, label: "" };
                    this.reveal(selection);
                    this.select(selection);
                    this.fit();
                    return;
                }
            }
        }
    }

    /** @param {string} typed */
    search(typed) {
        this.found = search(this.model, typed);
        this.hit = -1;
        this.sayHits();
        this.draw();
    }

    sayHits() {
        const { count, hits } = this.found;
        const words = /** @type {HTMLInputElement} */ (byId("search")).value.trim() === "" ? ""
            : count === 0 ? "nothing" : this.hit < 0 ? `${count} found` : `${this.hit + 1} of ${count}`;
        byId("hits").textContent = count > hits.length ? `${words}, the first ${MOST_HITS} of which can be reached` : words;
    }

    /** Goes to another hit. @param {number} by */
    next(by) {
        const { hits } = this.found;
        if (hits.length === 0) {
            return;
        }
        this.hit = (this.hit + by + hits.length) % hits.length;
        const { selection } = hits[this.hit];
        this.reveal(selection);
        this.select(selection);
        this.sayHits();
    }

    layOut() {
        this.rows = layOutRows(this.model, this.closed);
        this.resize();
    }

    resize() {
        const last = this.rows.at(-1);
        const height = last === undefined ? 0 : last.top + last.height + 8;
        const visible = this.scroller.clientHeight;
        byId("stage").style.height = `${Math.max(height + RULER, visible)}px`;
        this.overviewImage = undefined;
        this.draw();
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
        this.drawSliceNames(overlay, shown, scroll);
        drawGaps(overlay, model.gaps);
        this.drawSelection(overlay, scroll);
        this.drawPath(overlay, scroll);
        context.restore();
        this.drawLabels(overlay, shown, scroll);
        drawRuler(overlay, model.shift);
        this.drawOverview(scale);
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
            } else if (row.kind === "state") {
                painter.track(this.model.threads[row.thread].track, top, bottom);
            } else if (row.kind === "marks") {
                painter.marks(this.model.threads[row.thread].marks.at, top, bottom, scale);
            } else if (row.slices !== undefined) {
                painter.slicesOf(row.slices, top, bottom);
            }
        }
    }

    /** @param {import("./draw.js").Overlay} overlay @param {Row[]} rows @param {number} scroll */
    drawSliceNames(overlay, rows, scroll) {
        const { model } = this;
        /** @type {Record<string, (what: number) => string>} */
        const names = {
            spans: (what) => model.header.kinds[what],
            calls: (what) => model.header.calls[what],
            cpu: (what) => model.threads[what].label,
            irq: (what) => model.header.interrupts[what][2] ?? "",
        };
        for (const row of rows) {
            if (row.slices !== undefined) {
                overlay.context.font = row.height < 13 ? '10px system-ui, "DejaVu Sans", sans-serif' : '12px system-ui, "DejaVu Sans", sans-serif';
                drawNames(overlay, row.slices, row.top - scroll + RULER, row.height, names[row.kind], this.colours.ink);
            }
        }
        overlay.context.font = '12px system-ui, "DejaVu Sans", sans-serif';
    }

    /** @param {import("./draw.js").Overlay} overlay @param {Row[]} rows @param {number} scroll */
    drawLabels({ context, colours, left }, rows, scroll) {
        context.fillStyle = colours.line;
        context.fillRect(left - 1, 0, 1, this.scroller.clientHeight);
        for (const row of rows) {
            const top = row.top - scroll + RULER;
            if (row.kind === "heading") {
                context.fillStyle = colours.band;
                context.fillRect(0, top, left + this.width, row.height);
                context.fillStyle = colours.ink;
                const sign = this.closed.has(row.group) ? "▸" : "▾";
                drawText(context, `${sign} ${row.label}`, 8, top + row.height / 2, this.width);
            } else {
                const isSelected = this.selection !== null && row.kind === "state" && row.thread === this.selection.thread;
                context.fillStyle = isSelected ? colours.accent : row.kind === "state" || row.kind === "cpu" ? colours.ink : colours.faint;
                drawText(context, row.label, row.kind === "state" || row.kind === "cpu" || row.kind === "irq" ? 14 : 24,
                    top + row.height / 2, left - 30);
            }
        }
    }

    /** Where the state row of a thread is; `null` where it is not shown. @param {number} thread @param {number} scroll */
    rowTop(thread, scroll) {
        const row = this.rows.find((one) => one.kind === "state" && one.thread === thread);
        return row === undefined ? null : { top: row.top - scroll + RULER, height: row.height };
    }

    /** @param {import("./draw.js").Overlay} overlay @param {number} scroll */
    drawSelection({ context, view, colours, left, width, height }, scroll) {
        const { selection, mark } = this;
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
        const row = this.rows.find((one) => one.kind === selection.kind && one.level === selection.level
            && (one.kind === "cpu" || one.kind === "irq" ? one.label === selection.label : one.thread === selection.thread));
        if (row !== undefined) {
            const from = left + view.x(selection.from, width);
            const to = left + view.x(selection.to, width);
            context.strokeStyle = colours.ink;
            context.lineWidth = 2;
            context.strokeRect(from - 1, row.top - scroll + RULER - 1, Math.max(to - from, 1) + 2, row.height + 2);
            context.lineWidth = 1;
        }
        const waker = this.wakeUp(selection);
        const [source, target] = [waker === null ? null : this.rowTop(waker.thread, scroll), this.rowTop(selection.thread, scroll)];
        if (waker !== null && source !== null && target !== null) {
            this.drawArrow(context, left + view.x(waker.at, width), source.top + source.height / 2, target.top + target.height / 2);
        }
    }

    /** From who woke to who was woken. @param {CanvasRenderingContext2D} context @param {number} x @param {number} from @param {number} to */
    drawArrow(context, x, from, to) {
        const tip = from < to ? -1 : 1;
        context.strokeStyle = this.colours.ink;
        context.fillStyle = this.colours.ink;
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

    /** The critical path of the selected span, through the threads. @param {import("./draw.js").Overlay} overlay @param {number} scroll */
    drawPath({ context, view, colours, left, width }, scroll) {
        const { model } = this;
        const one = model.header.slowest[this.path];
        if (one === undefined) {
            return;
        }
        context.strokeStyle = colours.ink;
        context.fillStyle = colours.ink;
        context.lineWidth = 2;
        let last = -1;
        for (const segment of one.segments) {
            const row = model.rowOf(segment.pid, segment.tid);
            const at = row === undefined ? null : this.rowTop(row.index, scroll);
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

    /** How busy the threads were, all the time, and which part of it is shown. @param {number} scale */
    drawOverview(scale) {
        const { overview, model, view, colours } = this;
        const context = /** @type {CanvasRenderingContext2D} */ (overview.getContext("2d"));
        const [wide, high] = [Math.round(overview.clientWidth * scale), Math.round(40 * scale)];
        const left = Math.round(this.left * scale);
        if (wide <= left) {
            return;
        }
        if (this.overviewImage === undefined || overview.width !== wide) {
            [overview.width, overview.height] = [wide, high];
            this.overviewImage = this.overviewPixels(context, wide - left, high);
        }
        context.setTransform(1, 0, 0, 1, 0, 0);
        context.fillStyle = colours.page;
        context.fillRect(0, 0, wide, high);
        context.putImageData(this.overviewImage, left, 0);
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

    /** @param {CanvasRenderingContext2D} context @param {number} width @param {number} height */
    overviewPixels(context, width, height) {
        const { model, colours } = this;
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
}

/** @param {string} title @param {string[]} columns @param {string[][]} rows */
function simpleTable(title, columns, rows) {
    const made = document.createElement("table");
    made.createCaption().textContent = title;
    const head = made.createTHead().insertRow();
    for (const column of columns) {
        const cell = element("th", column);
        /** @type {HTMLTableCellElement} */ (cell).scope = "col";
        head.append(cell);
    }
    const body = made.createTBody();
    for (const row of rows) {
        const line = body.insertRow();
        row.forEach((text, index) => {
            const cell = line.insertCell();
            cell.textContent = text;
            cell.className = index > 0 ? "figure" : "";
        });
    }
    return made;
}

/** Reads the data and shows it. */
async function start() {
    const data = byId("data");
    try {
        const { header, columns } = await decode(data.textContent ?? "");
        data.remove();
        const page = new Page(new Model(header, columns));
        // For those who look at it from the outside, as tests do.
        Object.assign(globalThis, { report: page });
    } catch (error) {
        byId("title").textContent = "This report cannot be shown";
        byId("about").textContent = `${error}. It needs a browser of 2023 or later, and the whole file.`;
    }
    document.documentElement.dataset.state = "ready";
}

await start();
