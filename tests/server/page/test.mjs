// SPDX-License-Identifier: Apache-2.0
// The chat page in a real browser: sends, streams, stops, changes its theme, explains errors, and
// shows text as text.
import assert from 'node:assert/strict';
import {after, before, test} from 'node:test';
import {chromium} from 'playwright-core';
import {isFake, startServer} from './server_process.mjs';

let server;
let browser;
let page;
const problems = [];  // of the page: exceptions, console errors, requests to elsewhere

before(async () => {
  server = await startServer();
  browser = await chromium.launch({
    executablePath: process.env.HASTEN_CHROMIUM,
    args: ['--headless', '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run',
           '--disable-background-networking', '--disable-component-update', '--disable-sync'],
  });
  page = await browser.newPage({viewport: {width: 1100, height: 800}, colorScheme: 'light'});
  page.on('pageerror', (error) => problems.push(String(error)));
  page.on('console', (message) => {
    if (message.type() === 'error') problems.push(message.text());
  });
  page.on('request', (request) => {
    if (!request.url().startsWith(server.url)) problems.push(`request to ${request.url()}`);
  });
  page.setDefaultTimeout(120_000);  // a loaded machine is slow, not wrong
  await page.goto(server.url);
  if (!isFake) {  // a model may tell long stories
    await page.evaluate(() => localStorage.setItem('hasten.settings', '{"maxTokens": 16}'));
    await page.reload();
  }
});
after(async () => {
  await browser.close();
  await server.stop();
});

const lastAnswer = () => page.locator('#messages > .assistant').last();
const picture = (name) => page.screenshot({path: `${name}.png`});

async function say(text) {
  await page.getByLabel('Message').fill(text);
  await page.keyboard.press('Enter');
}
async function answered() {
  await page.locator('#messages > .assistant.running').waitFor({state: 'detached'});
}

test('greets and names the model', async () => {
  await page.getByRole('heading', {name: 'What shall we talk about?'}).waitFor();
  await page.locator('#model', {hasText: 'tokens of context'}).waitFor();
  assert.equal(await page.getByLabel('Message').evaluate((input) => input === document.activeElement), true);
  await picture('welcome');
});

test('fits on a phone', async () => {
  for (const width of [360, 390, 480]) {
    await page.setViewportSize({width, height: 700});
    assert.equal(await page.evaluate(() => document.documentElement.scrollWidth), width);
    for (const name of ['Settings', 'New chat', 'Send']) {
      const box = await page.getByRole('button', {name}).boundingBox();
      assert.ok(box.x >= 0 && box.x + box.width <= width, `${name} at ${width}: ${JSON.stringify(box)}`);
    }
    await picture(`phone-${width}`);
  }
  await page.setViewportSize({width: 1100, height: 800});
});

test('streams an answer', async () => {
  await say('Tell me a story about a fox.');
  await lastAnswer().locator('.text > *').first().waitFor();
  await answered();
  const text = await lastAnswer().locator('.text').innerText();
  assert.ok(text.trim().length > 0);
  if (isFake) assert.equal(text, 'Hello, world!');
  await lastAnswer().getByText(/\d tokens?/).waitFor();  // without a speed where all came in one read
  assert.equal(await page.locator('#messages > .user').innerText(), 'Tell me a story about a fox.');
  await picture('answered');
});

test('shows the answer while it grows, and stops it', {skip: !isFake && 'needs an endless answer'}, async () => {
  await say('count 500');
  await lastAnswer().getByText('w3').waitFor();
  await picture('streaming');
  const early = (await lastAnswer().locator('.text').innerText()).length;
  await page.waitForFunction((length) => document.querySelector('#messages > .running .text').innerText.length > length, early);
  await page.getByRole('button', {name: 'Stop'}).click();
  await answered();
  await lastAnswer().getByText('Stopped.').waitFor();
  await lastAnswer().getByText('tokens/s').waitFor();
  const stopped = await lastAnswer().locator('.text').innerText();
  await page.waitForTimeout(200);
  assert.equal(await lastAnswer().locator('.text').innerText(), stopped);
  assert.ok(!stopped.includes('w499'));

  await say('forever');
  await lastAnswer().getByText('again').waitFor();
  await page.keyboard.press('Escape');
  await lastAnswer().getByText('Stopped.').waitFor();
});

test('shows reasoning apart', {skip: !isFake && 'needs the fake engine\'s answer'}, async () => {
  await say('think');
  await answered();
  assert.equal(await lastAnswer().locator('.text').innerText(), 'It is 42.');
  await lastAnswer().getByText('Reasoning').click();
  await lastAnswer().getByText('Hmm, so.').waitFor();
});

test('shows a function call as a box', async () => {
  const content = 'Well.\n<tool_call>\n{"name": "get_weather", "arguments": {"city": "Rome"}}\n</tool_call>\n<tool_call>\n{"na';
  await page.route('**/v1/chat/completions', (route) => route.fulfill({
    contentType: 'text/event-stream',
    body: `data: ${JSON.stringify({choices: [{delta: {content}, finish_reason: 'stop'}]})}\n\ndata: [DONE]\n\n`,
  }));
  await say('What is the weather?');
  await answered();
  await page.unroute('**/v1/chat/completions');
  assert.equal(await lastAnswer().locator('.text').innerHTML(),
      '<p>Well.</p>' +
      '<p class="call">Function call<code class="">get_weather({"city":"Rome"})</code></p>' +
      '<p class="call">Function call<code class="">{"na</code></p>');
  await picture('call');
});

test('shows the calls that the server has read as boxes', {skip: !isFake && 'needs the fake engine\'s answer'}, async () => {
  await say('tool');
  await answered();
  assert.equal(await lastAnswer().locator('.text').innerHTML(),
      '<p class="call">Function call<code class="">get_weather({"city":"Paris"})</code></p>');
});

test('keeps what is written as text, and draws Markdown as nodes', async () => {
  await say('<img src=x onerror="document.title=\'broken\'">');
  await answered();
  assert.equal(await page.locator('#messages img').count(), 0);
  const html = await page.evaluate(async () => {
    const {markdown} = await import('./markdown.js');
    const box = document.createElement('div');
    box.append(...markdown('# A\n**b** *c* `<d>`\n\n- e\n- [f](https://g.example)\n\n1. h\n\n```js\n<script>\n```\n[x](javascript:alert(1)) <img src=x onerror=alert(1)>'));
    return box.innerHTML;
  });
  assert.equal(html,
      '<h3>A</h3><p><strong>b</strong> <em>c</em> <code>&lt;d&gt;</code></p>' +
      '<ul><li>e</li><li><a href="https://g.example" target="_blank" rel="noopener noreferrer">f</a></li></ul>' +
      '<ol><li>h</li></ol><pre><code>&lt;script&gt;</code></pre>' +
      '<p>[x](javascript:alert(1)) &lt;img src=x onerror=alert(1)&gt;</p>');
  assert.equal(await page.title(), 'hasten');
});

test('draws hostile lines quickly', async () => {
  const lines = ['[', '[a](https://b', '*', '**a*b', '`'].map((piece) => piece.repeat(200_000 / piece.length));
  const seconds = await page.evaluate(async (texts) => {
    const {markdown} = await import('./markdown.js');
    const start = performance.now();
    texts.forEach(markdown);
    return (performance.now() - start) / 1000;
  }, lines);
  assert.ok(seconds < 10, `${seconds} s`);
});

test('changes the theme and remembers it', async () => {
  const theme = () => page.evaluate(() => document.documentElement.dataset.theme);
  assert.equal(await theme(), 'light');
  await page.getByRole('button', {name: 'Light or dark'}).click();
  assert.equal(await theme(), 'dark');
  await picture('dark');
  await page.reload();
  assert.equal(await theme(), 'dark');
});

test('opens though its settings are not what it wrote', async () => {
  const settings = await page.evaluate(() => localStorage.getItem('hasten.settings') ?? '{}');
  for (const junk of ['null', '{"temperature":']) {
    await page.evaluate((text) => localStorage.setItem('hasten.settings', text), junk);
    await page.reload();
    await page.locator('#model', {hasText: 'tokens of context'}).waitFor();
    assert.equal(await page.locator('#temperature-value').textContent(), '0.70');
  }
  await page.evaluate((text) => localStorage.setItem('hasten.settings', text), settings);
  await page.reload();
});

test('sends the settings, by keyboard alone', async () => {
  await page.getByRole('button', {name: 'Settings'}).focus();
  await page.keyboard.press('Enter');
  await page.getByLabel('Temperature').fill('0');
  await page.getByLabel('Longest answer, in tokens').fill('2');
  await page.getByLabel('System prompt').fill('Be brief.');
  await picture('settings');
  await page.getByRole('button', {name: 'Done'}).press('Enter');
  const request = page.waitForRequest('**/v1/chat/completions');
  await say('Hello');
  const body = (await request).postDataJSON();
  assert.deepEqual(body.messages, [{role: 'system', content: 'Be brief.'}, {role: 'user', content: 'Hello'}]);
  assert.equal(body.temperature, 0);
  assert.equal(body.max_tokens, 2);
  await answered();
  await lastAnswer().getByText('The answer reached its longest length.').waitFor();
});

test('starts a new chat', async () => {
  await page.getByRole('button', {name: 'New chat'}).click();
  assert.equal(await page.locator('#messages > *').count(), 0);
  await page.getByRole('heading', {name: 'What shall we talk about?'}).waitFor();
});

test('leaves an unfinished answer out of a new chat', {skip: !isFake && 'needs an endless answer'}, async () => {
  await page.evaluate(() => localStorage.removeItem('hasten.settings'));
  await page.reload();
  await say('forever');
  await lastAnswer().getByText('again').waitFor();
  await page.getByRole('button', {name: 'New chat'}).click();
  await page.getByRole('button', {name: 'Send'}).waitFor();
  const request = page.waitForRequest('**/v1/chat/completions');
  await say('Hello');
  assert.deepEqual((await request).postDataJSON().messages, [{role: 'user', content: 'Hello'}]);
  await answered();
});

test('explains an error and tries again', async () => {
  assert.deepEqual(problems, []);
  await page.route('**/v1/chat/completions', (route) => route.fulfill(
      {status: 429, contentType: 'application/json', body: '{"error": {"message": "busy"}}'}));
  await say('Hello');
  await page.getByRole('alert').getByText('The server is busy.').waitFor();
  await picture('error');
  await page.unroute('**/v1/chat/completions');
  if (isFake) {  // not beside another answer, which would be left without its Stop
    await say('forever');
    await page.getByRole('button', {name: 'Try again'}).click();
    assert.equal(await page.locator('#messages > .running').count(), 1);
    await page.getByRole('button', {name: 'Stop'}).click();
    await answered();
  }
  await page.getByRole('button', {name: 'Try again'}).click();
  await answered();
  assert.equal(await page.getByRole('alert').count(), 0);
  assert.ok((await lastAnswer().locator('.text').innerText()).length > 0);
});
