import assert from "node:assert/strict";
import { test } from "node:test";
import { Texts } from "../decode.js";
import { carriers } from "../details.js";

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
