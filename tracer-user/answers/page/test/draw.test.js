import assert from "node:assert/strict";
import { test } from "node:test";
import { fitted } from "../draw.js";

/** Capitals and the ellipsis are twelve pixels wide, other letters six. @param {string} text */
const measure = (text) => [...text].reduce((sum, letter) => sum + (/[A-Z…]/.test(letter) ? 12 : 6), 0);

test("a text is never wider than its space, and an ellipsis has a letter before it", () => {
    for (const text of ["MMMMMMMM", "read", "WaitForWorkersToFinish", "x", ""]) {
        for (let width = 0; width < 120; width++) {
            const shown = fitted(text, width, measure);
            assert.ok(measure(shown) <= width, `${text} in ${width}: ${shown}`);
            assert.notEqual(shown, "…");
        }
        assert.equal(fitted(text, 1000, measure), text);
    }
    assert.equal(fitted("MMMMMMMM", 37, measure), "MM…");
});
