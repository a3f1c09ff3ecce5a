// Makes elements. Text is only ever set as text: no name, subject or payload becomes markup.

/** Make an element: h("p", { class: "dim" }, "text", child). Functions become event handlers. */
export function h(tag, attributes = {}, ...children) {
  return dress(document.createElement(tag), attributes, children);
}

/** Make an element of SVG. */
export function s(tag, attributes = {}, ...children) {
  return dress(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

function dress(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name, value);
    else if (value !== undefined && value !== false) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== undefined && child !== null && child !== false));
  return element;
}

/** A list of facts: [[name, text]]. */
export function factsList(facts) {
  return h("dl", { class: "facts-list" }, facts.map(([name, text]) => h("div", {}, h("dt", {}, name), h("dd", { title: text }, text))));
}

/** Make a bar from 0 to 100, of SVG: the page's policy allows no style attributes. */
export function makeMeter() {
  const rect = s("rect", { height: 8, width: 0 });
  return { meter: s("svg", { viewBox: "0 0 100 8", preserveAspectRatio: "none", class: "meter" }, rect), rect };
}

/** Set an element's text, if it differs. */
export function write(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** Fetch a page of the broker as JSON; throws an Error whose text a person can read. */
export async function ask(path, { signal, headers } = {}) {
  let answer;
  try {
    answer = await fetch(path, { signal, headers, cache: "no-store" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Error("the broker does not answer");
  }
  const text = await answer.text();
  let page;
  try {
    page = JSON.parse(text);
  } catch {
    throw new Error(`the answer is no JSON (status ${answer.status})`);
  }
  if (!answer.ok) throw new Error(page.error || `status ${answer.status}`);
  return page;
}

/** Ask for a page again and again, while it is wanted; returns what stops it. */
export function poll(path, seconds, show) {
  let timer = 0;
  const stopping = new AbortController();
  const once = async () => {
    if (!document.hidden && !poll.paused) {
      try {
        show(await ask(typeof path === "function" ? path() : path, { signal: stopping.signal }), "");
      } catch (error) {
        if (error.name === "AbortError") return;
        show(null, error.message);
      }
    }
    if (!stopping.signal.aborted) timer = setTimeout(once, seconds * 1000);
  };
  once();
  return () => {
    stopping.abort();
    clearTimeout(timer);
  };
}
poll.paused = false;
