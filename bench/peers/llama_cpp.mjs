// SPDX-License-Identifier: Apache-2.0
// The same GGUF file in hasten and in llama.cpp (the ready build that node-llama-cpp carries), in
// one run, alternating, on the same number of threads:
//   npm install --prefix DIR node-llama-cpp
//   node bench/peers/llama_cpp.mjs DIR MODEL.gguf [USERS=1,8,32] [PROMPT=256] [GEN=32] [ROUNDS=3]
// Prints tokens/s of prefill and of decode, medians of the rounds. HASTEN names the program, if it
// is not the one that ./run builds; THREADS the threads (2).
import { execFileSync } from 'node:child_process';
import { createRequire } from 'node:module';
import path from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '../..');
const [packages, model, userList = '1,8,32', promptText = '256', genText = '32', roundText = '3', only] =
  process.argv.slice(2);
if (!packages || !model) {
  console.error('usage: node bench/peers/llama_cpp.mjs DIR MODEL.gguf [USERS] [PROMPT] [GEN] [ROUNDS]');
  process.exit(2);
}
const threads = Number(process.env.THREADS ?? 2);
const prompt = Number(promptText);
const gen = Number(genText);

// The child: llama.cpp alone, once, for one number of users; prints JSON.
async function measurePeer(users) {
  const require = createRequire(pathToFileURL(path.resolve(packages, 'peers.js')));
  const { getLlama } = await import(pathToFileURL(require.resolve('node-llama-cpp')));
  const llama = await getLlama({ gpu: false, build: 'never', logLevel: 'error', maxThreads: threads });
  const loaded = await llama.loadModel({ modelPath: model });
  const context = await loaded.createContext({
    contextSize: prompt + gen + 8,
    sequences: users,
    batchSize: 512,
    threads,
  });
  let seed = 1;
  const token = () => (seed = (seed * 1103515245 + 12345) % 2147483648) % 256;
  const sequences = Array.from({ length: users }, () => context.getSequence());
  const prompts = sequences.map(() => Array.from({ length: prompt }, token));
  const start = performance.now();
  await Promise.all(sequences.map((s, i) => s.evaluateWithoutGeneratingNewTokens(prompts[i])));
  const filled = performance.now();
  const answers = sequences.map((s) => s.evaluate([5], { temperature: 0, yieldEogToken: true }));
  await Promise.all(answers.map((answer) => answer.next()));
  const first = performance.now();
  for (let k = 0; k < gen; ++k) await Promise.all(answers.map((answer) => answer.next()));
  const end = performance.now();
  console.log(JSON.stringify({
    prefill: (1000 * users * prompt) / (filled - start),
    decode: (1000 * users * gen) / (end - first),
  }));
  process.exit(0);
}

function runPeer(users) {
  const self = fileURLToPath(import.meta.url);
  const args = [self, packages, model, String(users), promptText, genText, '1', 'peer'];
  return JSON.parse(execFileSync('node', args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }));
}

function runHasten(users) {
  const program = process.env.HASTEN ?? path.join(root, 'build/release/src/cli/hasten');
  const args = ['bench', model, '--threads', String(threads), '--prompt', promptText, '--gen', genText];
  args.push('--batch', String(users), '--repeat', '1', '--json');
  const output = execFileSync(program, args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] });
  const speed = {};
  for (const result of JSON.parse(output).results) {
    speed[result.test] = { speed: result.tokens_per_second, fraction: result.fraction };
  }
  return speed;
}

if (only === 'peer') {
  await measurePeer(Number(userList));
} else {
  const median = (values) => values.sort((a, b) => a - b)[Math.floor(values.length / 2)];
  console.log('test     users   hasten  of limit  llama.cpp    ratio');
  for (const users of userList.split(',').map(Number)) {
    const samples = [];
    for (let round = 0; round < Number(roundText); ++round) {
      samples.push({ ours: runHasten(users), theirs: runPeer(users) });
    }
    for (const test of ['prefill', 'decode']) {
      if (!samples[0].ours[test]) continue;
      const ours = median(samples.map((s) => s.ours[test].speed));
      const theirs = median(samples.map((s) => s.theirs[test]));
      const limit = median(samples.map((s) => s.ours[test].fraction));
      console.log(
        `${test.padEnd(8)} ${String(users).padStart(5)} ${ours.toFixed(1).padStart(8)} ` +
          `${`${(100 * limit).toFixed(0)} %`.padStart(9)} ${theirs.toFixed(1).padStart(10)} ` +
          `${(ours / theirs).toFixed(2).padStart(8)}`,
      );
    }
  }
}
