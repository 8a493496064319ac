// Colours that people who see fewer of them can distinguish too: those of Okabe and Ito, which differ
// in lightness as well. In memory a pixel is alpha, blue, green, red.

/**
 * @typedef {object} Palette
 * @property {string} page
 * @property {string} ink
 * @property {string} faint
 * @property {string} line
 * @property {string} band
 * @property {string} mark
 * @property {string} accent
 * @property {string[]} states in the order of STATES
 * @property {string[]} slices
 */

/** @type {Palette} */
const LIGHT = {
    page: "#ffffff",
    ink: "#1b1f24",
    faint: "#59636e",
    line: "#d5dae0",
    band: "#eef1f4",
    mark: "#0b3d91",
    accent: "#0b57d0",
    states: ["#009e73", "#e69f00", "#c3cbd4", "#b5709b", "#d55e00", "#f2e6e6"],
    slices: ["#56b4e9", "#f0e442", "#7fc9b0", "#f3b56b", "#c9a3d6", "#9fb7d9", "#d9c58b", "#a9d18e"],
};

/** @type {Palette} */
const DARK = {
    page: "#15181c",
    ink: "#e8ebee",
    faint: "#9aa5b1",
    line: "#363d45",
    band: "#20252b",
    mark: "#a9c7ff",
    accent: "#7cb0ff",
    states: ["#1fc796", "#f0b429", "#46515d", "#c98bb4", "#e8743b", "#3a2b2b"],
    slices: ["#3b86b8", "#a89c2a", "#3f8f75", "#b07a3c", "#8a689a", "#5f7ca5", "#8f7f4d", "#6b9453"],
};

/** @param {boolean} isDark @returns {Palette} */
export function palette(isDark) {
    return isDark ? DARK : LIGHT;
}

/** A colour as a pixel in memory. @param {string} colour @returns {number} */
export function pixel(colour) {
    const value = parseInt(colour.slice(1), 16);
    const [red, green, blue] = [value >> 16, (value >> 8) & 255, value & 255];
    return ((255 << 24) | (blue << 16) | (green << 8) | red) >>> 0;
}

/** How light a colour is, 0 to 1, as people see it. @param {string} colour @returns {number} */
export function lightness(colour) {
    const value = parseInt(colour.slice(1), 16);
    const parts = [value >> 16, (value >> 8) & 255, value & 255].map((part) => {
        const linear = part / 255;
        return linear <= 0.04045 ? linear / 12.92 : ((linear + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2];
}
