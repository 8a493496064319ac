// What people do: keys, the mouse, a finger.

import { describe, statesAt } from "./details.js";
import { byId } from "./dom.js";
import { findAt, nextHit, searchFor, stepAlong } from "./find.js";
import { showDetails } from "./panel.js";

/** @typedef {import("./page.js").Page} Page */

/** The keys, for people. */
export const KEYS = [
    ["W, S", "zoom in, out, at the pointer"],
    ["A, D", "move left, right"],
    ["wheel", "scroll; with Ctrl zoom, with Shift move"],
    ["drag", "select a part of the time; with Shift, move"],
    ["click", "select what is there; on a name with an arrow, open or close it"],
    ["F", "show what is selected as large as possible"],
    ["M", "mark what is selected, or take the mark away"],
    ["← →", "the interval before, after"],
    ["/", "search; Enter and Shift+Enter go to the next, the one before"],
    ["0", "show all"],
    ["Esc", "close this, or select nothing"],
    ["?", "these keys"],
];

/** @param {Page} page */
export function listen(page) {
    const on = (/** @type {string} */ id, /** @type {() => void} */ what) => byId(id).addEventListener("click", what);
    on("zoom-in", () => page.zoom(0.5));
    on("zoom-out", () => page.zoom(2));
    on("all", () => page.go(0, page.model.end));
    on("theme", () => page.setTheme(!page.isDark));
    on("keys", () => toggleHelp(page));
    const box = /** @type {HTMLInputElement} */ (byId("search"));
    box.addEventListener("input", () => searchFor(page, box.value));
    box.addEventListener("keydown", (event) => {
        if (event.key === "Enter") {
            nextHit(page, event.shiftKey ? -1 : 1);
            event.preventDefault();
        } else if (event.key === "Escape") {
            page.scroller.focus();
        }
        event.stopPropagation();
    });
    document.addEventListener("keydown", (event) => onKey(page, event));
    page.scroller.addEventListener("wheel", (event) => onWheel(page, event), { passive: false });
    page.scroller.addEventListener("scroll", () => page.draw());
    listenToPointer(page);
    addEventListener("resize", () => page.resize());
    addEventListener("beforeprint", () => {
        page.wasDark = page.isDark;
        page.setTheme(false);
        page.paint();
    });
    addEventListener("afterprint", () => page.setTheme(page.wasDark));
}

/** @param {Page} page */
function listenToPointer(page) {
    /** @type {{x: number, y: number, from: number, to: number, isMove: boolean, isFar: boolean} | null} */
    let drag = null;
    const { canvas } = page;
    canvas.addEventListener("pointerdown", (event) => {
        const isMove = event.shiftKey || event.button === 1 || event.pointerType === "touch";
        drag = { x: event.offsetX, y: event.offsetY, from: page.view.from, to: page.view.to, isMove, isFar: false };
        canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointermove", (event) => {
        page.pointer = { x: event.offsetX - page.left, isInside: true };
        if (drag === null) {
            canvas.title = tip(page, event.offsetX, event.offsetY);
            return;
        }
        drag.isFar ||= Math.abs(event.offsetX - drag.x) > 4;
        if (!drag.isFar) {
            return;
        }
        if (drag.isMove) {
            const ns = ((drag.x - event.offsetX) / page.width) * (drag.to - drag.from);
            page.view.show(drag.from + ns, drag.to + ns);
        } else {
            page.selectTime(page.time(Math.min(drag.x, event.offsetX)), page.time(Math.max(drag.x, event.offsetX)));
        }
        page.draw();
    });
    canvas.addEventListener("pointerup", (event) => {
        if (drag !== null && !drag.isFar) {
            page.click(event.offsetX, event.offsetY);
        } else if (drag !== null && !drag.isMove) {
            showDetails(page);
        }
        drag = null;
    });
    canvas.addEventListener("pointerleave", () => {
        page.pointer.isInside = false;
    });
    const { overview } = page;
    const move = (/** @type {PointerEvent} */ event) => {
        if (event.buttons > 0 || event.type === "pointerdown") {
            const at = ((event.offsetX - page.left) / page.width) * page.model.end;
            page.go(at - page.view.ns / 2, at + page.view.ns / 2);
        }
    };
    overview.addEventListener("pointerdown", move);
    overview.addEventListener("pointermove", move);
}

/** @param {Page} page @param {KeyboardEvent} event */
function onKey(page, event) {
    const isTyping = event.target instanceof HTMLInputElement;
    if (isTyping || event.ctrlKey || event.metaKey || event.altKey) {
        return;
    }
    const isOnTimeline = document.activeElement === page.scroller || document.activeElement === document.body;
    /** @type {Record<string, () => void>} */
    const actions = {
        w: () => page.zoom(0.7),
        s: () => page.zoom(1 / 0.7),
        a: () => page.move(-0.15),
        d: () => page.move(0.15),
        f: () => page.fit(),
        m: () => page.toggleMark(),
        "/": () => byId("search").focus(),
        "?": () => toggleHelp(page),
        0: () => page.go(0, page.model.end),
        escape: () => (byId("help").hidden ? page.select(null) : toggleHelp(page)),
    };
    if (isOnTimeline) {
        actions.arrowleft = () => stepAlong(page, -1);
        actions.arrowright = () => stepAlong(page, 1);
    }
    const action = actions[event.key.toLowerCase()];
    if (action !== undefined) {
        action();
        event.preventDefault();
    }
}

/** What is at a position, for people. @param {Page} page @param {number} x @param {number} y */
function tip(page, x, y) {
    const row = page.rowAt(y);
    if (row === undefined) {
        return "";
    }
    if (row.kind === "group" && x >= page.left) {
        return [row.whole, ...statesAt(row.members.map((member) => member.track), page.time(x))].join("\n");
    }
    const found = x < page.left ? null : findAt(page, row, page.time(x));
    if (found === null) {
        return x < page.left ? row.whole : "";
    }
    return describe(page.model, found).map(([name, words]) => `${name}: ${words}`).join("\n");
}

/** @param {Page} page */
function toggleHelp(page) {
    const help = byId("help");
    help.hidden = !help.hidden;
    byId("keys").ariaExpanded = String(!help.hidden);
}

/** @param {Page} page @param {WheelEvent} event */
function onWheel(page, event) {
    const unit = event.deltaMode === 1 ? 30 : 1;
    if (event.ctrlKey) {
        page.zoom(Math.exp(event.deltaY * unit * 0.0025));
    } else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
        page.move(((event.shiftKey ? event.deltaY || event.deltaX : event.deltaX) * unit) / page.width);
    } else {
        return;
    }
    event.preventDefault();
}
