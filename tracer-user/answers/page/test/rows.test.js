import assert from "node:assert/strict";
import { test } from "node:test";
import { Texts } from "../decode.js";
import { carriers } from "../details.js";
import { flameTotals, flameTree } from "../flames.js";
import { commonBeginning } from "../forest.js";

/** Texts, each with its length before it, and where each of them begins. */
function words(texts) {
    const at = [];
    const bytes = [];
    for (const text of texts) {
        at.push(bytes.length);
        const encoded = new TextEncoder().encode(text);
        bytes.push(encoded.length, ...encoded);
    }
    const model = {
        words: new Texts(Uint8Array.from(bytes)),
        wordsAt: (from) => texts[at.indexOf(from)],
    };
    return { at, model };
}

test("a text is found in those that have it, and not across two of them", () => {
    const { at, model } = words(["worker=1", "", "ab", "abc", "WORKER=12", "größe", "c", "work", "er"]);
    const having = (wanted) => {
        const isCarried = carriers(model, wanted);
        return at.flatMap((from, index) => isCarried(from) ? [index] : []);
    };
    assert.deepEqual(having("worker"), [0, 4]);
    assert.deepEqual(having("2"), [4]);
    assert.deepEqual(having("abc"), [3]);
    assert.deepEqual(having("größe"), [5]);
    assert.deepEqual(having("r"), [0, 4, 5, 7, 8]);
    assert.deepEqual(having("nothing"), []);
});

// 0 calls 1, which calls itself and 2; 3 is another thread.
const PATHS = [[5, [0]], [7, [0, 1]], [11, [0, 1, 1]], [13, [0, 1, 1, 2]], [17, [0, 2]], [19, [3, 1]]];

test("paths are a tree, in which each lies within who called it", () => {
    const root = flameTree(PATHS);
    assert.deepEqual([root.ns, root.own], [72, 0]);
    const [first, other] = root.within;
    assert.deepEqual([first.ns, first.own, first.from, first.depth], [53, 5, 0, 1]);
    assert.deepEqual([other.ns, other.own, other.from], [19, 0, 53]);
    const [calls, second] = first.within;
    assert.deepEqual([calls.frame, calls.ns, calls.own, calls.from], [1, 31, 7, 0]);
    assert.deepEqual([second.frame, second.ns, second.from], [2, 17, 31]);
    assert.deepEqual(flameTree([]).within, []);
});

test("one that calls itself counts once, and nothing is lost", () => {
    const totals = flameTotals(flameTree(PATHS));
    assert.deepEqual([...totals].sort(([a], [b]) => a - b), [
        [0, { own: 5, ns: 53 }],
        [1, { own: 7 + 11 + 19, ns: 31 + 19 }],
        [2, { own: 13 + 17, ns: 30 }],
        [3, { own: 0, ns: 19 }],
    ]);
});

test("a beginning that all have is left out up to the end of a word, never a whole label", () => {
    const cases = /** @type {Array<[string[], number]>} */ ([
        [["worker 100/101", "worker 100/102"], 11],
        [["worker 100", "worker 100/101"], 7],
        [["mysqld-io-1 7/8", "mysqld-io-2 7/9"], 10],
        [["worker-a 7", "worker-ab 8"], 7],
        [["one 7", "two 8"], 0],
        [["x 7", "x 8"], 0],
        [["größer 1", "größer 2"], 7],
        [["same 1", "same 1"], 5],
        [["alone 1"], 0],
        [[], 0],
    ]);
    for (const [labels, expected] of cases) {
        assert.equal(commonBeginning(labels), expected, labels.join());
    }
});
