// SPDX-License-Identifier: Apache-2.0
// A small part of Markdown as DOM nodes. Text becomes text nodes only, never HTML, so that nothing a
// model writes can run.

// `code`, **strong**, *emphasis*, [text](https://…): the first that matches where they begin. Bounded,
// so that a long line of openings without an end is read in linear time.
const INLINE = /`([^`]{1,2000})`|\*\*([^*]{1,2000}(?:\*[^*]{1,500}){0,8})\*\*|\*([^*\s][^*]{0,2000})\*|\[([^[\]]{1,500})\]\((https?:\/\/[^\s)]{1,1000})\)/g;

function element(name, children) {
  const node = document.createElement(name);
  node.append(...children);
  return node;
}

function link(text, address) {
  const node = element('a', [text]);
  node.href = address;
  node.target = '_blank';
  node.rel = 'noopener noreferrer';
  return node;
}

function inline(text) {
  const nodes = [];
  let end = 0;
  for (const match of text.matchAll(INLINE)) {
    nodes.push(text.slice(end, match.index));
    const [whole, code, strong, emphasis, label, address] = match;
    if (code !== undefined) nodes.push(element('code', [code]));
    else if (strong !== undefined) nodes.push(element('strong', inline(strong)));
    else if (emphasis !== undefined) nodes.push(element('em', inline(emphasis)));
    else nodes.push(link(label, address));
    end = match.index + whole.length;
  }
  nodes.push(text.slice(end));
  return nodes;
}

// A paragraph keeps the line breaks that the model wrote.
function paragraph(lines) {
  const nodes = [];
  for (const line of lines) {
    if (nodes.length > 0) nodes.push(document.createElement('br'));
    nodes.push(...inline(line));
  }
  return element('p', nodes);
}

const BULLET = /^\s*[-*+]\s+(.*)$/;
const NUMBER = /^\s*\d+[.)]\s+(.*)$/;
const HEADING = /^(#{1,6})\s+(.*)$/;
const FENCE = /^\s*```/;

/** The blocks of `text` as an array of nodes. An open code fence reaches to the end. */
export function markdown(text) {
  const blocks = [];
  const lines = text.split('\n');
  let i = 0;
  const takeWhile = (accept) => {
    const taken = [];
    while (i < lines.length && accept(lines[i])) taken.push(lines[i++]);
    return taken;
  };
  const list = (name, pattern) =>
    element(name, takeWhile((line) => pattern.test(line))
      .map((line) => element('li', inline(line.match(pattern)[1]))));
  const isPlain = (line) =>
    line.trim() !== '' && ![BULLET, NUMBER, HEADING, FENCE].some((pattern) => pattern.test(line));

  while (i < lines.length) {
    const line = lines[i];
    if (line.trim() === '') {
      i++;
    } else if (FENCE.test(line)) {
      i++;
      const code = takeWhile((inner) => !FENCE.test(inner)).join('\n');
      i++;
      blocks.push(element('pre', [element('code', [code])]));
    } else if (HEADING.test(line)) {
      const [, marks, title] = line.match(HEADING);
      i++;
      blocks.push(element(`h${Math.min(marks.length + 2, 5)}`, inline(title)));
    } else if (BULLET.test(line)) {
      blocks.push(list('ul', BULLET));
    } else if (NUMBER.test(line)) {
      blocks.push(list('ol', NUMBER));
    } else {
      blocks.push(paragraph(takeWhile(isPlain)));
    }
  }
  return blocks;
}
