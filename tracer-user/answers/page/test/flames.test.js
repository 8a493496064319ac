import assert from "node:assert/strict";
import { test } from "node:test";
import { flameTotals, flameTree } from "../flames.js";

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
