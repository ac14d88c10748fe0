// SPDX-License-Identifier: Apache-2.0
// What the page asks of the server: its models, and streamed answers.

/** An answer other than success, in words for people. */
export class ApiError extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

function headers(apiKey) {
  return apiKey ? {Authorization: `Bearer ${apiKey}`} : {};
}

async function check(response) {
  if (response.ok) return response;
  let message = `The server answered ${response.status}.`;
  try {
    message = (await response.json()).error.message;
  } catch {
    // Not our server's error object; the status must do.
  }
  throw new ApiError(response.status, message);
}

/** The first model that is served: {id, max_model_len, …}. */
export async function firstModel(apiKey) {
  const response = await check(await fetch('v1/models', {headers: headers(apiKey)}));
  return (await response.json()).data[0];
}

/** The data of each event of a stream, until [DONE]. */
async function* events(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let text = '';
  for (;;) {
    const {value, done} = await reader.read();
    if (done) throw new Error('The connection ended in the middle of the answer.');
    text += value;
    const parts = text.split('\n\n');
    text = parts.pop();
    for (const part of parts) {
      if (!part.startsWith('data: ')) continue;  // a comment
      const data = part.slice('data: '.length);
      if (data === '[DONE]') return;
      yield JSON.parse(data);
    }
  }
}

/**
 * The answer to a conversation, piece by piece: {content, reasoning, calls, usage, finish}, each only
 * where there is one. A call comes in pieces with its index, too. `signal` ends it.
 */
export async function* answer(request, apiKey, signal) {
  const response = await check(await fetch('v1/chat/completions', {
    method: 'POST',
    headers: {'Content-Type': 'application/json', ...headers(apiKey)},
    body: JSON.stringify({...request, stream: true, stream_options: {include_usage: true}}),
    signal,
  }));
  for await (const event of events(response.body)) {
    if (event.error) throw new ApiError(500, event.error.message);
    const choice = event.choices[0];
    yield {
      content: choice?.delta.content ?? '',
      reasoning: choice?.delta.reasoning ?? '',
      calls: choice?.delta.tool_calls ?? [],
      finish: choice?.finish_reason,
      usage: event.usage,
    };
  }
}
