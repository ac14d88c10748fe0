// SPDX-License-Identifier: Apache-2.0
// The chat page: keeps the conversation, shows it, and streams answers into it.
import {answer, firstModel} from './api.js';
import {markdown} from './markdown.js';

const byId = (id) => document.getElementById(id);
const page = {
  scroll: byId('scroll'), welcome: byId('welcome'), messages: byId('messages'),
  composer: byId('composer'), input: byId('input'), send: byId('send'), stop: byId('stop'),
  model: byId('model'), settings: byId('settings'),
};

let conversation = [];  // of {role, content}, as the server takes them
let running = null;     // the AbortController of the answer on its way

// Settings live in the browser; the key only as long as its tab.

const fields = {temperature: byId('temperature'), maxTokens: byId('max-tokens'), system: byId('system')};
const apiKey = byId('api-key');

function savedSettings() {
  try {
    return JSON.parse(localStorage.getItem('hasten.settings')) ?? {};
  } catch {
    return {};  // another page of this address has written there
  }
}

function loadSettings() {
  const saved = savedSettings();
  fields.temperature.value = saved.temperature ?? 0.7;
  fields.maxTokens.value = saved.maxTokens ?? '';
  fields.system.value = saved.system ?? '';
  apiKey.value = sessionStorage.getItem('hasten.apiKey') ?? '';
  showTemperature();
}

function saveSettings() {
  const values = Object.entries(fields).map(([name, field]) => [name, field.value]);
  localStorage.setItem('hasten.settings', JSON.stringify(Object.fromEntries(values)));
  sessionStorage.setItem('hasten.apiKey', apiKey.value);
}

function showTemperature() {
  byId('temperature-value').textContent = Number(fields.temperature.value).toFixed(2);
}

function makeRequest() {
  const system = fields.system.value.trim();
  const request = {
    messages: [...(system ? [{role: 'system', content: system}] : []), ...conversation],
    temperature: Number(fields.temperature.value),
  };
  const maxTokens = Number(fields.maxTokens.value);
  if (maxTokens >= 1) request.max_tokens = Math.floor(maxTokens);
  return request;
}

// Theme

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
}

function toggleTheme() {
  const theme = document.documentElement.dataset.theme === 'dark' ? 'light' : 'dark';
  localStorage.setItem('hasten.theme', theme);
  setTheme(theme);
}

// Conversation

function make(name, className, ...children) {
  const node = document.createElement(name);
  node.className = className;
  node.append(...children);
  return node;
}

function makeButton(label, action) {
  const button = make('button', '', label);
  button.type = 'button';
  button.addEventListener('click', action);
  return button;
}

function atBottom() {
  return page.scroll.scrollHeight - page.scroll.scrollTop - page.scroll.clientHeight < 60;
}

function scrollDown() {
  page.scroll.scrollTop = page.scroll.scrollHeight;
}

// As most models write a call that they want made; the last one may still be on its way.
const TOOL_CALL = /<tool_call>([^]*?)(?:<\/tool_call>|$)/g;

function callBox(call) {
  return make('p', 'call', 'Function call', make('code', '', call));
}

/** A call in words: this page offers no functions, but some models call one nevertheless. */
function callInWords(text) {
  try {
    const {name, arguments: values} = JSON.parse(text);
    if (typeof name === 'string') return `${name}(${JSON.stringify(values ?? {})})`;
  } catch {
    // Not complete yet, or not JSON: as it is.
  }
  return text.trim();
}

/** The blocks of an answer: Markdown, with a box for each call in its text and behind it. */
function blocks(content, calls) {
  const nodes = [];
  let end = 0;
  for (const match of content.matchAll(TOOL_CALL)) {
    nodes.push(...markdown(content.slice(end, match.index)), callBox(callInWords(match[1])));
    end = match.index + match[0].length;
  }
  return [...nodes, ...markdown(content.slice(end)),
    ...calls.map(({name, values}) => callBox(`${name}(${values})`))];
}

/** One answer on the page, while it grows and after. */
class AnswerView {
  constructor() {
    this.content = '';
    this.reasoning = '';
    this.calls = [];  // of {name, values: text}, which the server has told from the content
    this.text = make('div', 'text');
    this.footer = make('div', 'footer');
    this.item = make('li', 'assistant running', this.text, this.footer);
    this.pieces = 0;
    this.tokens = 0;  // as the server counts them, once it has said so
    page.messages.append(this.item);
  }

  add({content, reasoning, calls, usage}) {
    if (content || reasoning || calls.length > 0) {
      this.lastTime = performance.now();
      this.firstTime ??= this.lastTime;
      this.pieces++;
    }
    this.content += content;
    this.reasoning += reasoning;
    for (const {index, function: piece} of calls) {
      const call = this.calls[index] ??= {name: '', values: ''};
      call.name += piece.name ?? '';
      call.values += piece.arguments ?? '';
    }
    if (usage) this.tokens = usage.completion_tokens;
    this.frame ??= requestAnimationFrame(() => this.draw());
  }

  draw() {
    this.frame = undefined;
    const follow = atBottom();
    this.text.replaceChildren(...blocks(this.content, this.calls));
    if (this.reasoning) this.drawReasoning();
    this.footer.replaceChildren(this.speed());
    if (follow) scrollDown();
  }

  drawReasoning() {
    if (!this.thought) {
      this.thought = make('p', '');
      this.item.prepend(make('details', '', make('summary', '', 'Reasoning'), this.thought));
    }
    this.thought.textContent = this.reasoning;
  }

  /** How many tokens there are, and how fast they came; an answer that came in one read has no speed. */
  speed() {
    const count = this.tokens || this.pieces;
    if (!count) return '';
    const tokens = count === 1 ? '1 token' : `${count} tokens`;
    const seconds = (this.lastTime - this.firstTime) / 1000;
    if (!(seconds > 0) || count < 2) return tokens;
    return `${((count - 1) / seconds).toFixed(1)} tokens/s · ${tokens}`;
  }

  /** `note`: why it ended early, if it did. */
  finish(note) {
    cancelAnimationFrame(this.frame);
    this.item.classList.remove('running');
    this.draw();
    const copy = makeButton('Copy', async () => {
      await navigator.clipboard.writeText(this.content);
      copy.textContent = 'Copied';
      setTimeout(() => { copy.textContent = 'Copy'; }, 1500);
    });
    if (this.content) this.footer.append(copy);
    if (note) this.footer.append(note);
  }

  fail(message, retry) {
    this.finish('');
    const again = makeButton('Try again', () => {
      if (running) return;  // one answer at a time
      this.item.remove();
      retry();
    });
    const box = make('p', 'error', message);
    box.setAttribute('role', 'alert');
    this.footer.before(box);
    this.footer.append(again);
    scrollDown();
  }
}

function explain(error) {
  if (error.status === 401 && apiKey.value) return 'The server does not know this API key. You can change it in the settings.';
  if (error.status === 401) return 'This server needs an API key. You can enter it in the settings.';
  if (error.status === 429) return 'The server is busy. Please try again in a moment.';
  if (error instanceof TypeError) return 'The server cannot be reached. Is it still running?';
  return error.message;
}

const FINISH_NOTES = {length: 'The answer reached its longest length.'};

async function respond() {
  const chat = conversation;  // a new chat begins another one
  const view = new AnswerView();
  const controller = new AbortController();
  running = controller;
  updateButtons();
  scrollDown();
  let note = '';
  try {
    for await (const piece of answer(makeRequest(), apiKey.value, controller.signal)) {
      view.add(piece);
      note = FINISH_NOTES[piece.finish] ?? note;
    }
    chat.push({role: 'assistant', content: view.content});
    view.finish(note);
  } catch (error) {
    if (controller.signal.aborted) {
      chat.push({role: 'assistant', content: view.content});
      view.finish('Stopped.');
    } else {
      view.fail(explain(error), respond);
    }
  } finally {
    if (running === controller) running = null;
    updateButtons();
  }
}

function say(text) {
  page.welcome.hidden = true;
  conversation.push({role: 'user', content: text});
  page.messages.append(make('li', 'user', text));
  respond();
}

function stop() {
  running?.abort();
}

function newChat() {
  stop();
  conversation = [];
  page.messages.replaceChildren();
  page.welcome.hidden = false;
  page.input.focus();
}

// Composer

function fitInput() {
  page.input.style.height = 'auto';
  page.input.style.height = `${page.input.scrollHeight + 2}px`;
  updateButtons();
}

function updateButtons() {
  page.send.hidden = running !== null;
  page.stop.hidden = running === null;
  page.send.disabled = page.input.value.trim() === '';
}

function submit(event) {
  event?.preventDefault();
  const text = page.input.value.trim();
  if (text === '' || running) return;
  page.input.value = '';
  fitInput();
  say(text);
}

function showModel() {
  firstModel(apiKey.value).then(
    (model) => { page.model.textContent = `${model.id} · ${model.max_model_len.toLocaleString('en')} tokens of context`; },
    (error) => { page.model.textContent = explain(error); });
}

page.composer.addEventListener('submit', submit);
page.input.addEventListener('input', fitInput);
page.input.addEventListener('keydown', (event) => {
  if (event.key === 'Enter' && !event.shiftKey && !event.isComposing) submit(event);
});
document.addEventListener('keydown', (event) => {
  if (event.key === 'Escape' && !page.settings.open) stop();
});
page.stop.addEventListener('click', stop);
byId('new-chat').addEventListener('click', newChat);
byId('theme').addEventListener('click', toggleTheme);
byId('open-settings').addEventListener('click', () => page.settings.showModal());
fields.temperature.addEventListener('input', showTemperature);
page.settings.addEventListener('close', () => {
  saveSettings();
  showModel();
});
for (const suggestion of byId('suggestions').children) {
  suggestion.addEventListener('click', () => { if (!running) say(suggestion.textContent); });
}

const dark = window.matchMedia('(prefers-color-scheme: dark)').matches;
setTheme(localStorage.getItem('hasten.theme') ?? (dark ? 'dark' : 'light'));
loadSettings();
showModel();
updateButtons();
