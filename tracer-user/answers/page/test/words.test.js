import assert from "node:assert/strict";
import { test } from "node:test";
import { duration, moment, share, threadWords, visible } from "../words.js";

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
