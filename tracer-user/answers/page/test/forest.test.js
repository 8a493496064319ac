import assert from "node:assert/strict";
import { test } from "node:test";
import { commonBeginning } from "../forest.js";

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
