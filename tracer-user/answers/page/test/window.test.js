import assert from "node:assert/strict";
import { test } from "node:test";
import { View, ticks } from "../window.js";
import { fitted, rulerWords } from "../draw.js";

test("the time at the pointer stays where it is, and nothing outside is shown", () => {
    const view = new View(1e9);
    for (const [factor, part] of [[0.5, 0.25], [0.1, 0.9], [0.5, 0.5]]) {
        const at = view.time(part * 1000, 1000);
        view.zoom(factor, at);
        assert.ok(Math.abs(view.x(at, 1000) - part * 1000) < 1e-3);
    }
    view.zoom(1e9, 123);
    assert.deepEqual([view.from, view.to], [0, 1e9]);
    view.zoom(1e-12, 5e8);
    assert.equal(view.ns, 100);
    view.move(-1e12);
    assert.deepEqual([view.from, view.to], [0, 100]);
});

test("a ruler has round times that differ", () => {
    for (const [from, to] of [[0, 1e9], [123, 456], [5e9, 5e9 + 1e4], [0, 3600e9]]) {
        const { times, step } = ticks(from, to, 10);
        assert.ok(times.length >= 3 && times.length <= 11, `${times.length}`);
        const words = times.map((at) => rulerWords(at, step));
        assert.equal(new Set(words).size, times.length, words.join(" "));
    }
});

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
