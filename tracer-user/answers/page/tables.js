// The tables of `tracer-user stat`, which sort, and whose rows lead into the timeline.

import { LISTED } from "./forest.js";
import { Model } from "./rows.js";
import { duration, moment, share, threadWords, visible } from "./words.js";

/**
 * A cell: what is shown, and by what it is sorted.
 * @typedef {{text: string, value: number | string}} Cell
 */

/**
 * Where a row leads.
 * @typedef {{thread?: [number, number], at?: number, from?: number, to?: number, search?: string, slowest?: number}} Target
 */

/** @typedef {{id: string, title: string, columns: string[], rows: Array<{cells: Cell[], target: Target}>, sortedBy: number}} Table */

/** Spans that the table of the slowest has; others that are explained are found in the timeline. */
const MOST_SLOWEST = 100;

/** @param {number | null | undefined} ns @returns {Cell} */
function time(ns) {
    return { text: duration(ns), value: ns ?? -1 };
}

/** @param {number | null | undefined} value @returns {Cell} */
function count(value) {
    return { text: value === null || value === undefined ? "-" : String(value), value: value ?? -1 };
}

/** @param {number} ns @param {number} whole @returns {Cell} */
function part(ns, whole) {
    return { text: share(ns, whole), value: ns };
}

/** @param {string} words @returns {Cell} */
function text(words) {
    return { text: visible(words), value: words };
}

/** Of "futex" and of waiting for a device. @param {any} of @returns {string} */
function mostlyIn(of) {
    const [most] = of.blocked_in;
    if (most === undefined || most.in === null) {
        return "";
    }
    const [at] = most.at;
    const where = at === undefined ? ""
        : `, ${at.innermost ? "at" : "within"} ${at.function} ${share(at.ns, of.blocked_ns)}`;
    return `${most.in}${most.io_wait ? " for a device" : ""} ${share(most.ns, of.blocked_ns)}${where}`;
}

/** What threads did, as in the columns from "running" to "max". @param {any} of @returns {Cell[]} */
function totals(of) {
    return [time(of.running_ns), time(of.runnable_ns), time(of.blocked_ns), time(of.stopped_ns), time(of.unknown_ns),
        count(of.waits.count), count(of.preemptions), count(of.migrations),
        time(of.waits.mean_ns), time(of.waits.p99_ns), time(of.waits.max_ns)];
}

/**
 * All tables that have rows.
 * @param {Model} model
 * @returns {Table[]}
 */
export function tables(model) {
    const { stat, slowest, threads, kinds } = model.header;
    const first = model.shift;
    const names = new Map(threads.map((/** @type {any} */ [pid, tid, name]) => [`${pid}/${tid}`, name]));
    /** A name of its own where another thread has had these ids. @param {any} of @returns {string} */
    const nameOf = (of) => /^[ -~]+$/.test(of.comm ?? "") ? of.comm
        : names.get(`${of.pid}/${of.tid ?? of.pid}`) ?? of.comm;
    /** @param {any} of @returns {Cell} */
    const who = (of) => of.pid === null ? text("others, of which there are too many")
        : text(threadWords(of.pid, of.tid ?? of.pid, nameOf(of)));
    /** @type {Table[]} */
    const all = [
        {
            id: "names",
            title: "Threads by name",
            columns: ["name", "processes", "threads", "running", "runnable", "blocked", "stopped", "unknown", "waits", "forced",
                "migrations", "mean", "p99", "max", "mostly blocked in"],
            rows: (stat.threads.length > LISTED ? stat.by_comm : []).map((/** @type {any} */ of) => ({
                cells: [text(of.comm), count(of.processes), count(of.threads), ...totals(of), text(mostlyIn(of))],
                target: { search: of.comm } })),
            sortedBy: 3,
        },
        {
            id: "threads",
            title: "Threads",
            columns: ["thread", "running", "runnable", "blocked", "stopped", "unknown", "waits", "forced", "migrations",
                "mean", "p99", "max", "until", "mostly blocked in"],
            rows: stat.threads.map((/** @type {any} */ of) => ({
                cells: [who(of), ...totals(of),
                    of.waits.max_at_ns === undefined ? text("") : {
                        text: moment(of.waits.max_at_ns), value: of.waits.max_at_ns },
                    text(mostlyIn(of))],
                target: { thread: [of.pid, of.tid],
                    from: of.waits.max_at_ns === undefined ? undefined
                        : of.waits.max_at_ns - first - of.waits.max_ns,
                    to: of.waits.max_at_ns === undefined ? undefined : of.waits.max_at_ns - first },
            })),
            sortedBy: 1,
        },
        {
            id: "groups",
            title: "Throttled",
            columns: ["by control group (cpu.max)", "throttled"],
            rows: stat.throttled_by.map((/** @type {any} */ of) => ({
                cells: [text(of.group ?? "unknown"), time(of.ns)], target: {} })),
            sortedBy: 1,
        },
        {
            id: "wakeups",
            title: "Woken until running",
            columns: ["up to", "count"],
            rows: stat.wakeup_ranges.map((/** @type {any} */ of) => ({
                cells: [time(of.up_to_ns), count(of.count)], target: {} })),
            sortedBy: -1,
        },
        {
            id: "cpus",
            title: "CPUs",
            columns: ["cpu", "used", "of the time"],
            rows: stat.cpus.map((/** @type {any} */ of) => ({
                cells: [count(of.cpu), time(of.used_ns), part(of.used_ns, stat.span_ns)],
                target: {} })),
            sortedBy: -1,
        },
        {
            id: "slowest",
            title: "Slowest spans",
            columns: ["span", "thread", "at", "took"],
            rows: slowest.slice(0, MOST_SLOWEST).map((/** @type {any} */ of, /** @type {number} */ index) => ({
                cells: [text(kinds[of.kind] ?? ""), text(of.of), { text: moment(of.from_ns), value: of.from_ns }, time(of.ns)],
                target: { slowest: index } })),
            sortedBy: 3,
        },
        {
            id: "spans",
            title: "Spans",
            columns: ["span", "count", "total", "p50", "p95", "p99", "max", "running", "runnable", "blocked", "unpolled",
                "unknown"],
            rows: stat.spans.map((/** @type {any} */ of, /** @type {number} */ index) => ({ of, index }))
                .filter((/** @type {any} */ { of }) => of.took.count > 0)
                .map((/** @type {any} */ { of, index }) => {
                    const { took } = of;
                    const states = [of.running_ns, of.runnable_ns, of.blocked_ns + of.stopped_ns, of.unpolled_ns,
                        of.unknown_ns];
                    return {
                        cells: [text(kinds[index] ?? of.name), count(took.count), time(took.total_ns), time(took.p50_ns),
                            time(took.p95_ns), time(took.p99_ns), time(took.max_ns),
                            ...states.map((ns) => part(ns, took.total_ns))],
                        target: { search: kinds[index] ?? of.name },
                    };
                }),
            sortedBy: 2,
        },
        {
            id: "calls",
            title: "System calls",
            columns: ["system call", "calls", "errors", "total", "mean", "p50", "p99", "max"],
            rows: stat.syscalls.map((/** @type {any} */ of) => ({
                cells: [text(of.name), count(of.count), count(of.errors), time(of.took.total_ns), time(of.took.mean_ns),
                    time(of.took.p50_ns), time(of.took.p99_ns), time(of.took.max_ns)],
                target: { search: of.name } })),
            sortedBy: 3,
        },
        {
            id: "faults",
            title: "Page faults",
            columns: ["thread", "count", "user", "kernel", "write", "fetch", "protection"],
            rows: stat.faults.map((/** @type {any} */ of) => ({
                cells: [who(of), count(of.count), count(of.user), count(of.kernel), count(of.write), count(of.fetch),
                    count(of.protection)],
                target: of.pid === null ? {} : { thread: [of.pid, of.tid] } })),
            sortedBy: 1,
        },
        {
            id: "signals",
            title: "Signals",
            columns: ["to", "signal", "sent", "ignored", "pending", "lost", "taken", "handled", "default"],
            rows: stat.signals.map((/** @type {any} */ of) => ({
                cells: [who(of), text(of.name ?? String(of.signal ?? "-")), count(of.sent.count),
                    count(of.sent.ignored + of.taken.ignored), count(of.sent.pending), count(of.sent.lost),
                    count(of.taken.count), count(of.taken.handled), count(of.taken.default)],
                target: of.pid === null ? {} : { thread: [of.pid, of.pid] } })),
            sortedBy: 2,
        },
        {
            id: "interrupts",
            title: "Interrupts",
            columns: ["interrupt", "cpu", "count", "total", "mean", "max"],
            rows: stat.interrupts.map((/** @type {any} */ of) => ({
                cells: [text(of.kind === null ? "others" : of.kind === "irq" ? `${of.id} ${of.name}` : of.name ?? String(of.id)),
                    count(of.cpu), count(of.count), time(of.took.count > 0 ? of.took.total_ns : null),
                    time(of.took.mean_ns), time(of.took.max_ns)],
                target: {} })),
            sortedBy: 3,
        },
        {
            id: "events",
            title: "Events",
            columns: ["event", "count"],
            rows: stat.events.map((/** @type {any} */ of, /** @type {number} */ index) => ({
                cells: [text(model.header.event_names[index]), count(of.count)],
                target: { search: model.header.event_names[index] } })),
            sortedBy: 1,
        },
    ];
    return all.filter((table) => table.rows.length > 0);
}

/**
 * A table as an element. Its rows lead where `go` goes.
 * @param {Table} table
 * @param {(target: Target) => void} go
 * @returns {HTMLElement}
 */
export function tableElement(table, go) {
    const element = document.createElement("table");
    element.id = `table-${table.id}`;
    const caption = element.createCaption();
    caption.textContent = table.title;
    const head = element.createTHead().insertRow();
    const body = element.createTBody();
    let [by, isDown] = [table.sortedBy, true];
    const fill = () => {
        body.replaceChildren();
        for (const { cells, target } of sorted(table.rows, by, isDown)) {
            const line = body.insertRow();
            cells.forEach((cell, index) => {
                const isFirst = index === 0;
                const of = isFirst ? document.createElement("th") : line.insertCell();
                if (isFirst) {
                    /** @type {HTMLTableCellElement} */ (of).scope = "row";
                    line.append(of);
                }
                of.className = typeof cell.value === "number" && !isFirst ? "figure" : "";
                if (isFirst && Object.keys(target).length > 0) {
                    const button = document.createElement("button");
                    button.type = "button";
                    button.className = "link";
                    button.textContent = cell.text;
                    button.title = "Show it in the timeline";
                    button.addEventListener("click", () => go(target));
                    of.append(button);
                } else {
                    of.textContent = cell.text;
                }
            });
        }
        [...head.cells].forEach((cell, index) => {
            cell.ariaSort = index === by ? (isDown ? "descending" : "ascending") : "none";
        });
    };
    table.columns.forEach((name, index) => {
        const cell = document.createElement("th");
        cell.scope = "col";
        const button = document.createElement("button");
        button.type = "button";
        button.textContent = name;
        button.addEventListener("click", () => {
            // What is of interest is most of it, and the first of names.
            const isText = typeof table.rows[0]?.cells[index]?.value === "string";
            [by, isDown] = [index, by === index ? !isDown : !isText];
            fill();
        });
        cell.append(button);
        head.append(cell);
    });
    fill();
    return element;
}

/**
 * Rows in order of a column; -1: as they are.
 * @param {Table["rows"]} rows
 * @param {number} by
 * @param {boolean} isDown
 */
export function sorted(rows, by, isDown) {
    if (by < 0) {
        return rows;
    }
    const sign = isDown ? -1 : 1;
    return [...rows].sort((a, b) => {
        const [left, right] = [a.cells[by].value, b.cells[by].value];
        return left < right ? -sign : left > right ? sign : 0;
    });
}
