// What a report's page holds, read by the page's own modules: prints one object.
//
//     node report.js FOLDER-OF-MODULES REPORT.html

"use strict";

const fs = require("node:fs");
const path = require("node:path");
const { pathToFileURL } = require("node:url");

async function main([folder, file]) {
    const module = (name) => import(pathToFileURL(path.resolve(folder, name)));
    const { decode } = await module("decode.js");
    const { Model } = await module("rows.js");
    const { STATES } = await module("slices.js");
    const { layOutRows } = await module("draw.js");
    const html = fs.readFileSync(file, "utf8");
    const [, data] = /<script type="text\/plain" id="data">([^<]*)<\/script>/.exec(html);
    const { header, columns, words } = await decode(data);
    const model = new Model(header, columns, words);
    const threads = model.threads.map((row) => {
        const totals = row.track.between(0, model.end);
        const halves = [row.track.between(0, Math.floor(model.end / 3)), row.track.between(Math.floor(model.end / 3), model.end)];
        return {
            pid: row.pid,
            tid: row.tid,
            name: row.name,
            totals: Object.fromEntries(STATES.map((state, index) => [state, totals[index]])),
            parts: STATES.map((_, index) => halves[0][index] + halves[1][index]),
            intervals: Array.from({ length: row.track.count }, (_, index) => [
                row.track.from[index], row.track.to[index], header.codes[row.track.what[index]].state,
                header.codes[row.track.what[index]].end, row.track.cpu[index], header.tasks[row.track.task[index] - 1]?.[1] ?? 0]),
            calls: Array.from({ length: row.calls.count }, (_, index) => [
                header.calls[row.calls.what[index]], row.calls.to[index] - row.calls.from[index], row.returned[index]]),
            marks: [row.marks, row.faults].flatMap((marks) => Array.from({ length: marks.count }, (_, index) => [
                marks.at[index] + header.first_ns, header.types[marks.type[index]][0], model.wordsOf(marks, index)])),
        };
    });
    const { spans } = model;
    process.stdout.write(JSON.stringify({
        header,
        threads,
        cpus: [...model.cpus].map(([cpu, runs]) => ({
            cpu, used_ns: Array.from({ length: runs.count }, (_, index) => runs.to[index] - runs.from[index]).reduce((a, b) => a + b, 0) })),
        spans: Array.from({ length: spans.count }, (_, index) => ({
            kind: header.kinds[spans.kind[index]], ns: spans.to[index] - spans.from[index] })),
        nodes: model.nodes.map(({ label, levels, marks }) => ({
            label,
            callbacks: levels.flatMap((slices) => Array.from({ length: slices.count }, (_, index) => [
                header.kinds[slices.what[index]], slices.from[index], slices.to[index]])),
            messages: Array.from({ length: marks.count }, (_, index) => header.types[marks.type[index]][0]),
        })),
        lanes: layOutRows(model, [], new Set()).filter((row) => row.kind === "node").map((row) => row.label),
        interrupts: [...model.interrupts].map(([name, runs]) => ({ name, count: runs.count })),
        gaps: model.gaps,
        rows: spans.count,
    }));
}

main(process.argv.slice(2)).catch((error) => {
    console.error(error);
    process.exit(1);
});
