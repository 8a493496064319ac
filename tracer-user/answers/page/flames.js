// Flame graphs: where in their code threads spent their time.

import { drawText } from "./draw.js";
import { element, byId, simpleTable } from "./dom.js";
import { duration, share } from "./words.js";

/** @typedef {import("./page.js").Page} Page */

/**
 * A function, or a thread, within those that called it.
 * @typedef {object} Flame
 * @property {number} frame which frame
 * @property {number} ns with all that it called
 * @property {number} own without
 * @property {number} depth
 * @property {number} from where it begins, in nanoseconds
 * @property {Flame[]} within
 */

/** How high a function is, in pixels of the page. */
const HEIGHT = 17;

/** Rows of the table of functions. */
const MOST_FUNCTIONS = 50;

/**
 * Paths of frames as a tree; those of the same name beside each other are one.
 * @param {Array<[number, number[]]>} paths nanoseconds, and frames, the outermost first
 * @returns {Flame}
 */
export function flameTree(paths) {
    /** @type {Flame} */
    const root = { frame: -1, ns: 0, own: 0, depth: 0, from: 0, within: [] };
    for (const [ns, frames] of paths) {
        let at = root;
        at.ns += ns;
        for (const frame of frames) {
            let next = at.within.find((one) => one.frame === frame);
            if (next === undefined) {
                next = { frame, ns: 0, own: 0, depth: at.depth + 1, from: 0, within: [] };
                at.within.push(next);
            }
            next.ns += ns;
            at = next;
        }
        at.own += ns;
    }
    const waiting = [root];
    for (let at = waiting.pop(); at !== undefined; at = waiting.pop()) {
        let { from } = at;
        for (const one of at.within) {
            one.from = from;
            from += one.ns;
            waiting.push(one);
        }
    }
    return root;
}

/**
 * How long each frame took: by itself, and with what it called. One that calls itself counts once.
 * @param {Flame} root
 * @returns {Map<number, {own: number, ns: number}>}
 */
export function flameTotals(root) {
    /** @type {Map<number, {own: number, ns: number}>} */
    const totals = new Map();
    /** @type {number[]} */
    const above = [];
    /** @type {Array<[Flame, boolean]>} */
    const waiting = [[root, false]];
    for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
        const [at, isDone] = next;
        if (isDone) {
            above.pop();
            continue;
        }
        if (at.frame >= 0) {
            const total = totals.get(at.frame) ?? { own: 0, ns: 0 };
            total.own += at.own;
            total.ns += above.includes(at.frame) ? 0 : at.ns;
            totals.set(at.frame, total);
        }
        above.push(at.frame);
        waiting.push([at, true], ...at.within.map((/** @type {Flame} */ one) => /** @type {[Flame, boolean]} */ ([one, false])));
    }
    return totals;
}

/** One graph, on a canvas of its own. */
class FlameGraph {
    /** @param {Page} page @param {any} data */
    constructor(page, data) {
        this.page = page;
        this.data = data;
        this.root = flameTree(data.paths);
        this.shown = this.root;
        this.canvas = document.createElement("canvas");
        this.canvas.className = "flames";
        this.canvas.ariaHidden = "true";
        this.words = element("p", "");
        this.words.role = "status";
        this.all = element("button", "Show all");
        this.all.addEventListener("click", () => this.show(this.root));
        this.canvas.addEventListener("click", (event) => {
            const found = this.find(event.offsetX, event.offsetY);
            if (found !== null) {
                this.show(found === this.shown ? this.root : found);
            }
        });
        this.canvas.addEventListener("pointermove", (event) => {
            this.words.textContent = this.say(this.find(event.offsetX, event.offsetY) ?? this.shown);
        });
    }

    /** @param {Flame} flame */
    name(flame) {
        return flame.frame < 0 ? "all" : this.data.frames[flame.frame][0];
    }

    /** @param {Flame} flame */
    say(flame) {
        return `${this.name(flame)}: ${duration(flame.ns)}, ${share(flame.ns, this.root.ns)}`;
    }

    /** @param {Flame} flame */
    show(flame) {
        this.shown = flame;
        this.words.textContent = this.say(flame);
        this.draw();
    }

    /** How deep it is below what is shown. */
    get depth() {
        let deepest = 0;
        const waiting = [this.root];
        for (let at = waiting.pop(); at !== undefined; at = waiting.pop()) {
            deepest = Math.max(deepest, at.depth);
            waiting.push(...at.within);
        }
        return deepest + 1;
    }

    /** What is at a position. @param {number} x @param {number} y @returns {Flame | null} */
    find(x, y) {
        const depth = Math.floor(y / HEIGHT);
        const ns = this.shown.from + (x / this.canvas.clientWidth) * this.shown.ns;
        let at = this.root;
        while (at.depth < depth) {
            const next = at.within.find((one) => one.from <= ns && ns < one.from + one.ns);
            if (next === undefined) {
                return null;
            }
            at = next;
        }
        return at;
    }

    draw() {
        const scale = devicePixelRatio || 1;
        const { canvas, shown, page: { colours } } = this;
        const [width, height] = [canvas.clientWidth, this.depth * HEIGHT];
        canvas.style.height = `${height}px`;
        [canvas.width, canvas.height] = [Math.round(width * scale), Math.round(height * scale)];
        const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
        context.setTransform(scale, 0, 0, scale, 0, 0);
        context.font = '12px system-ui, "DejaVu Sans", sans-serif';
        context.textBaseline = "middle";
        const waiting = [this.root];
        for (let at = waiting.pop(); at !== undefined; at = waiting.pop()) {
            const from = Math.max(((at.from - shown.from) / shown.ns) * width, 0);
            const to = Math.min(((at.from + at.ns - shown.from) / shown.ns) * width, width);
            // What is narrower is not seen, nor what lies above it.
            if (to - from < 0.5) {
                continue;
            }
            const kind = at.frame < 0 ? "" : this.data.frames[at.frame][1];
            context.fillStyle = at.frame < 0 ? colours.band : flameColour(colours, kind, this.name(at));
            context.fillRect(from, at.depth * HEIGHT, Math.max(to - from - 0.5, 0.5), HEIGHT - 1);
            context.fillStyle = colours.ink;
            drawText(context, this.name(at), from + 3, at.depth * HEIGHT + HEIGHT / 2, to - from - 6);
            waiting.push(...at.within);
        }
    }

    /** @returns {HTMLElement} */
    element() {
        const box = document.createElement("div");
        const line = element("p", "");
        line.append(this.all);
        const functions = [...flameTotals(this.root)].filter(([frame]) => this.data.frames[frame][1] !== "thread")
            .sort(([, a], [, b]) => b.own - a.own).slice(0, MOST_FUNCTIONS);
        const rows = functions.map(([frame, { own, ns }]) => [
            this.data.frames[frame][0], duration(own), share(own, this.root.ns), duration(ns), share(ns, this.root.ns)]);
        box.append(element("h2", this.data.title), this.words, this.canvas, line,
            simpleTable("Functions, those that took most time themselves", ["function", "itself", "of all", "with what it called", "of all"], rows));
        return box;
    }
}

/** Of one kind, in one of two shades: those beside each other differ. @param {import("./colours.js").Palette} colours @param {string} kind @param {string} name */
function flameColour(colours, kind, name) {
    const first = { kernel: 3, inlined: 2, thread: 5, mark: 4 }[/** @type {"kernel"} */ (kind)] ?? 0;
    let sum = 0;
    for (let index = 0; index < name.length; index++) {
        sum = (sum * 31 + name.charCodeAt(index)) % 997;
    }
    return colours.slices[(first + (sum % 2) * 4) % colours.slices.length];
}

/** Shows the graphs, where there are stacks. @param {Page} page @returns {Array<{draw: () => void}>} */
export function showFlames(page) {
    const graphs = (page.model.header.flames ?? []).map((/** @type {any} */ data) => new FlameGraph(page, data));
    const section = byId("flames");
    section.hidden = graphs.length === 0;
    section.replaceChildren(...graphs.map((/** @type {FlameGraph} */ graph) => graph.element()));
    for (const graph of graphs) {
        graph.show(graph.root);
    }
    return graphs;
}
