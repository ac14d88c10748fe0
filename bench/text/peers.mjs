// SPDX-License-Identifier: Apache-2.0
// Encoding speed beside two packages of npm, in one run, alternating:
//   npm install --prefix DIR tiktoken @huggingface/tokenizers
//   node bench/text/peers.mjs DIR [SHARED]
// SHARED is the folder of the tests' shared inputs. Prints MB/s, the median of five, and compares
// the numbers of tokens, since a fast wrong answer is worth nothing. (They differ where source code
// spells a control token: text to hasten unless asked, a token to the Hugging Face package.)
import { execFileSync } from 'node:child_process';
import { readFileSync, readdirSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '../..');
const [packages, shared = path.join(root, '../shared')] = process.argv.slice(2);
if (!packages) {
  console.error('usage: node bench/text/peers.mjs DIR_WITH_NODE_MODULES [SHARED]');
  process.exit(2);
}
const require = createRequire(pathToFileURL(path.resolve(packages, 'peers.js')));
const { Tiktoken } = require('tiktoken');
const { Tokenizer } = require('@huggingface/tokenizers');

const part = (text) => Buffer.from(text).subarray(0, 1 << 20).toString().replace(/\uFFFD$/, '');
const sources = (folder) =>
  readdirSync(folder, { recursive: true })
    .filter((name) => /\.(cpp|h)$/.test(name) && !name.includes('tables'))
    .map((name) => name.replaceAll('/', '\0')) // a folder before files that continue its name
    .sort()
    .map((name) => name.replaceAll('\0', '/'))
    .map((name) => readFileSync(path.join(folder, name), 'utf8'))
    .join('');
const corpora = {
  english: part(readFileSync(path.join(shared, 'data/text/war-and-peace.txt'), 'utf8')),
  chinese: part(readFileSync(path.join(shared, 'data/text/zh/poet.tang.1000.json'), 'utf8')),
  code: part(sources(path.join(root, 'src'))),
};

const llama3 =
  "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
const ranks = readFileSync(path.join(shared, 'data/tokenizers/llama3/tokenizer.model'), 'utf8');
const tokens = ranks.trim().split('\n').map((line) => line.split(' ')[0]);
const tiktoken = new Tiktoken(`! 0 ${tokens.join(' ')}`, {}, llama3);
const phi2 = new Tokenizer(
  JSON.parse(readFileSync(path.join(shared, 'data/tokenizers/hf/phi-2/tokenizer.json'), 'utf8')),
  JSON.parse(
    readFileSync(path.join(shared, 'data/tokenizers/hf/phi-2/tokenizer_config.json'), 'utf8')));

const peers = [
  { name: 'tiktoken (wasm)', vocabulary: 'llama3', count: (text) => tiktoken.encode(text).length },
  { name: '@huggingface/tokenizers', vocabulary: 'phi2', count: (text) => phi2.encode(text).ids.length },
];

function hasten(vocabulary, corpus) {
  const bench = path.join(root, 'build/release/bench/text/text_bench');
  const filter = `--benchmark_filter=^${vocabulary}/encode/${corpus}$`;
  const out = execFileSync(bench, [filter, '--benchmark_format=json'], {
    encoding: 'utf8', env: { ...process.env, HASTEN_SHARED: shared }, stdio: ['ignore', 'pipe', 'ignore'] });
  const result = JSON.parse(out).benchmarks[0];
  return { speed: result.bytes_per_second / 1e6, tokens: result.tokens };
}

const median = (values) => values.sort((a, b) => a - b)[values.length >> 1];
for (const [corpus, text] of Object.entries(corpora)) {
  for (const peer of peers) {
    const theirs = [];
    const ours = [];
    let counts;
    for (let round = 0; round < 5; ++round) {
      const began = process.hrtime.bigint();
      const count = peer.count(text);
      theirs.push(Buffer.byteLength(text) / 1e6 / (Number(process.hrtime.bigint() - began) / 1e9));
      const own = hasten(peer.vocabulary, corpus);
      ours.push(own.speed);
      counts = `${own.tokens} and ${count} tokens`;
    }
    const [a, b] = [median(ours), median(theirs)];
    console.log(`${corpus}, ${peer.vocabulary}: hasten ${a.toFixed(1)} MB/s, ${peer.name} ${b.toFixed(1)} MB/s: ` +
                `${(a / b).toFixed(1)} times (${counts})`);
  }
}
