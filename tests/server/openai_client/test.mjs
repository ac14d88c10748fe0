// SPDX-License-Identifier: Apache-2.0
// The official OpenAI client against the server: what it parses is what its users will see.
import assert from 'node:assert/strict';
import {after, before, test} from 'node:test';
import OpenAI from 'openai';
import {isFake, startServer} from './server_process.mjs';

const messages = [{role: 'user', content: 'Tell me a story about a fox.'}];
let server;
let client;
let model;

before(async () => {
  server = await startServer();
  client = new OpenAI({baseURL: `${server.url}/v1`, apiKey: 'none', maxRetries: 0});
  model = (await client.models.list()).data[0].id;
});
after(async () => {
  assert.equal(await server.stop(), 0);
});

test('lists and shows models', async () => {
  const found = await client.models.retrieve(model);
  assert.equal(found.id, model);
  assert.ok(found.max_model_len > 0);
  await assert.rejects(client.models.retrieve('no-such-model'), OpenAI.NotFoundError);
});

test('chats', async () => {
  const reply = await client.chat.completions.create({model, messages, max_completion_tokens: 16, temperature: 0});
  const choice = reply.choices[0];
  assert.equal(choice.message.role, 'assistant');
  assert.ok(choice.message.content.length > 0);
  assert.ok(['stop', 'length'].includes(choice.finish_reason));
  assert.equal(reply.usage.total_tokens, reply.usage.prompt_tokens + reply.usage.completion_tokens);
  if (isFake) assert.equal(choice.message.content, 'Hello, world!');
});

test('streams the same text as it answers whole', async () => {
  const request = {model, messages, max_tokens: 16, temperature: 0, seed: 1};
  const whole = await client.chat.completions.create(request);
  const stream = await client.chat.completions.create({...request, stream: true, stream_options: {include_usage: true}});
  let text = '';
  let finish = null;
  let usage = null;
  const ids = new Set();
  for await (const chunk of stream) {
    ids.add(chunk.id);
    if (chunk.usage) {
      usage = chunk.usage;
      assert.deepEqual(chunk.choices, []);
      continue;
    }
    text += chunk.choices[0].delta.content ?? '';
    finish = chunk.choices[0].finish_reason ?? finish;
  }
  assert.equal(text, whole.choices[0].message.content);
  assert.equal(finish, whole.choices[0].finish_reason);
  assert.deepEqual(usage, whole.usage);
  assert.equal(ids.size, 1);
});

test('accumulates a stream with the client\'s own helper', async () => {
  const runner = client.chat.completions.stream({model, messages, max_tokens: 8, temperature: 0});
  let pieces = 0;
  runner.on('content', () => pieces++);
  const final = await runner.finalChatCompletion();
  assert.equal(final.choices[0].message.role, 'assistant');
  assert.ok(pieces > 0);
});

test('gives n answers with logprobs', async () => {
  const reply = await client.chat.completions.create(
      {model, messages, max_tokens: 4, n: 2, logprobs: true, top_logprobs: 2, seed: 7});
  assert.deepEqual(reply.choices.map((choice) => choice.index), [0, 1]);
  for (const choice of reply.choices) {
    for (const token of choice.logprobs.content) {
      assert.ok(token.logprob <= 0);
      assert.equal(token.top_logprobs.length, 2);
    }
  }
});

test('completes text', async () => {
  const reply = await client.completions.create({model, prompt: ['Once upon a time', 'The fox'], max_tokens: 4, logprobs: 1});
  assert.equal(reply.object, 'text_completion');
  assert.deepEqual(reply.choices.map((choice) => choice.index), [0, 1]);
  const {tokens, token_logprobs, top_logprobs, text_offset} = reply.choices[0].logprobs;
  assert.equal(tokens.length, token_logprobs.length);
  assert.equal(tokens.length, top_logprobs.length);
  assert.equal(text_offset[0], 0);
  let text = '';
  for await (const chunk of await client.completions.create({model, prompt: 'Once', max_tokens: 4, stream: true})) {
    text += chunk.choices[0].text;
  }
  assert.ok(text.length > 0);
});

test('calls tools', {skip: !isFake && 'needs the fake engine\'s answer'}, async () => {
  const tools = [{type: 'function', function: {name: 'get_weather', parameters: {type: 'object', properties: {city: {type: 'string'}}}}}];
  const request = {model, messages: [{role: 'user', content: 'tool'}], tools};
  const whole = await client.chat.completions.create(request);
  assert.equal(whole.choices[0].finish_reason, 'tool_calls');
  const final = await client.chat.completions.stream(request).finalChatCompletion();
  for (const reply of [whole, final]) {
    const call = reply.choices[0].message.tool_calls[0];
    assert.equal(call.function.name, 'get_weather');
    assert.deepEqual(JSON.parse(call.function.arguments), {city: 'Paris'});
  }
});

test('raises the errors that the client knows', async () => {
  const create = (change) => client.chat.completions.create({model, messages, ...change});
  await assert.rejects(create({temperature: -1}), (error) => {
    assert.ok(error instanceof OpenAI.BadRequestError);
    assert.equal(error.param, 'temperature');
    assert.equal(error.type, 'invalid_request_error');
    return true;
  });
  await assert.rejects(create({model: 'gpt-4'}), (error) => {
    assert.ok(error instanceof OpenAI.NotFoundError);
    assert.equal(error.code, 'model_not_found');
    return true;
  });
  await assert.rejects(create({messages: [{role: 'user', content: 'a '.repeat(200_000)}]}), (error) => {
    assert.equal(error.status, 400);
    assert.equal(error.code, 'context_length_exceeded');
    return true;
  });
});

test('raises a stream\'s error', {skip: !isFake && 'needs the fake engine\'s failure'}, async () => {
  const stream = await client.chat.completions.create({model, messages: [{role: 'user', content: 'break'}], stream: true});
  await assert.rejects(async () => {
    for await (const chunk of stream) assert.ok(chunk.id);
  }, OpenAI.APIError);
});

test('ends a generation when the client leaves', async () => {
  const stream = await client.chat.completions.create(
      {model, messages: [{role: 'user', content: 'forever'}], stream: true, max_tokens: 100_000, ignore_eos: true});
  for await (const chunk of stream) {
    if (chunk.choices[0].delta.content) break;  // which aborts the request
  }
  const running = async () => {
    const text = await (await fetch(`${server.url}/metrics`)).text();
    return Number(text.match(/^vllm:num_requests_running\{.*\} (\d+)$/m)[1]);
  };
  for (let tries = 0; tries < 50 && await running() > 0; tries++) {
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  assert.equal(await running(), 0);
});
