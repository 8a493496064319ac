// Elements of the page.

/** @param {string} id @returns {HTMLElement} */
export function byId(id) {
    const found = document.getElementById(id);
    if (found === null) {
        throw new Error(`the page has no ${id}`);
    }
    return found;
}

/** An element with a text. @param {string} tag @param {string} text @returns {HTMLElement} */
export function element(tag, text) {
    const made = document.createElement(tag);
    made.textContent = text;
    return made;
}

/** @param {string} title @param {string[]} columns @param {string[][]} rows */
export function simpleTable(title, columns, rows) {
    const made = document.createElement("table");
    made.createCaption().textContent = title;
    const head = made.createTHead().insertRow();
    for (const column of columns) {
        const cell = element("th", column);
        /** @type {HTMLTableCellElement} */ (cell).scope = "col";
        head.append(cell);
    }
    const body = made.createTBody();
    for (const row of rows) {
        const line = body.insertRow();
        row.forEach((text, index) => {
            const cell = line.insertCell();
            cell.textContent = text;
            cell.className = index > 0 ? "figure" : "";
        });
    }
    return made;
}
