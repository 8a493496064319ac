import assert from "node:assert/strict";
import { test } from "node:test";
import { lightness, palette, pixel } from "../colours.js";
import { View, ticks } from "../window.js";
import { fitted, rulerWords } from "../draw.js";
import { duration, moment, share, threadWords, visible } from "../words.js";

/** A colour as people see it whose eyes lack one kind of cone (Viénot, Brettel and Mollon, 1999). */
function seenBy(kind, colour) {
    const value = parseInt(colour.slice(1), 16);
    const rgb = [value >> 16, (value >> 8) & 255, value & 255].map((part) => (part / 255) ** 2.2);
    const rows = kind === "protan"
        ? [[0.11238, 0.88762, 0], [0.11238, 0.88762, 0], [0.00401, -0.00401, 1]]
        : [[0.29275, 0.70725, 0], [0.29275, 0.70725, 0], [-0.02234, 0.02234, 1]];
    return rows.map((row) => row.reduce((sum, part, index) => sum + part * rgb[index], 0))
        .map((part) => Math.max(part, 0) ** (1 / 2.2));
}

test("states differ for those who see fewer colours too", () => {
    for (const isDark of [false, true]) {
        const { states } = palette(isDark);
        for (const kind of ["protan", "deutan"]) {
            states.forEach((one, index) => states.slice(index + 1).forEach((other) => {
                const [a, b] = [seenBy(kind, one), seenBy(kind, other)];
                const far = Math.hypot(...a.map((part, at) => part - b[at]));
                assert.ok(far > 0.11, `${kind}: ${one} and ${other} differ by ${far}`);
            }));
        }
    }
});

test("text is easy to read", () => {
    for (const isDark of [false, true]) {
        const { page, ink, faint, accent, band } = palette(isDark);
        for (const [text, behind] of [[ink, page], [faint, page], [accent, page], [ink, band]]) {
            const [low, high] = [lightness(text), lightness(behind)].sort((a, b) => a - b);
            assert.ok((high + 0.05) / (low + 0.05) >= 4.5, `${text} on ${behind}`);
        }
    }
});

test("a pixel is in the order of memory", () => {
    assert.equal(pixel("#010203"), 0xff030201);
});

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

test("durations have four digits, as those of stat", () => {
    const expected = [
        [0, "0 ns"], [999, "999 ns"], [1000, "1.000 us"], [12_345, "12.34 us"], [123_456_789, "123.4 ms"],
        [9_009_999_999, "9.009 s"], [12_345_000_000_000, "12345 s"], [null, "-"],
    ];
    for (const [ns, words] of expected) {
        assert.equal(duration(ns), words);
    }
});

test("shares are of the whole", () => {
    assert.deepEqual([share(995, 1000), share(614, 1000), share(4, 1000), share(1, 0)], ["100 %", "61 %", "0.4 %", "-"]);
});

test("moments have all digits", () => {
    assert.deepEqual([moment(0), moment(1_234_567_890), moment(59_999_999_999)],
        ["0.000000000", "1.234567890", "59.999999999"]);
});

test("a name is seen as it is", () => {
    assert.equal(threadWords(1, 2, visible("a\u202eb\u0000<b>")), "a\\u{202e}b\\u{0}<b> 1/2");
    assert.equal(threadWords(7, 7, ""), "7");
});
