import assert from "node:assert/strict";
import { test } from "node:test";
import { lightness, palette, pixel } from "../colours.js";

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
