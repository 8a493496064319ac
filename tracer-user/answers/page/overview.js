// The whole time at a glance, and which part of it is shown.

import { STATES } from "./slices.js";
import { Painter } from "./draw.js";
import { View } from "./window.js";

/** @typedef {import("./page.js").Page} Page */

/** How busy the threads were, all the time, and which part of it is shown. @param {Page} page @param {number} scale */
export function drawOverview(page, scale) {
    const { overview, model, view, colours } = page;
    const context = /** @type {CanvasRenderingContext2D} */ (overview.getContext("2d"));
    const [wide, high] = [Math.round(overview.clientWidth * scale), Math.round(40 * scale)];
    const left = Math.round(page.left * scale);
    if (wide <= left) {
        return;
    }
    if (page.overviewImage === undefined || overview.width !== wide) {
        [overview.width, overview.height] = [wide, high];
        page.overviewImage = overviewPixels(page, context, wide - left, high);
    }
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.fillStyle = colours.page;
    context.fillRect(0, 0, wide, high);
    context.putImageData(page.overviewImage, left, 0);
    const [from, to] = [view.from / model.end, view.to / model.end];
    context.fillStyle = colours.page;
    context.globalAlpha = 0.6;
    context.fillRect(left, 0, from * (wide - left), high);
    context.fillRect(left + to * (wide - left), 0, (1 - to) * (wide - left), high);
    context.globalAlpha = 1;
    context.strokeStyle = colours.accent;
    context.lineWidth = 2;
    context.strokeRect(left + from * (wide - left) + 1, 1, Math.max((to - from) * (wide - left) - 2, 1), high - 2);
    context.setTransform(scale, 0, 0, scale, 0, 0);
    context.fillStyle = colours.faint;
    context.font = '12px system-ui, "DejaVu Sans", sans-serif';
    context.fillText("CPUs in use", 14, 24);
}

/** @param {Page} page @param {CanvasRenderingContext2D} context @param {number} width @param {number} height */
function overviewPixels(page, context, width, height) {
    const { model, colours } = page;
    const image = context.createImageData(width, height);
    const painter = new Painter(model, new View(model.end), colours);
    painter.into(image);
    const busy = new Float64Array(width);
    const sums = new Float64Array(STATES.length);
    for (const { track } of model.threads) {
        if (track.count === 0) {
            continue;
        }
        let before = 0;
        for (let x = 0; x < width; x++) {
            track.before(((x + 1) / width) * model.end, sums);
            busy[x] += sums[0] - before;
            before = sums[0];
        }
    }
    const most = Math.max(model.cpus.size, 1) * (model.end / width);
    busy.forEach((ns, x) => {
        const part = Math.min(ns / most, 1);
        painter.fill(x, x + 1, Math.round(height * (1 - part)), height, painter.states[0]);
    });
    return image;
}
