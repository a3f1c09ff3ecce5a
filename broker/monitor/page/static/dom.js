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
