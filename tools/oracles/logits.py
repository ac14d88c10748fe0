#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Float64 logits of a Hugging Face folder, from the published definition of each family; numpy only.

usage: logits.py FOLDER CONTEXT ID...    prints one JSON list of logits per token

Slow, plain and independent of the C++ sources on purpose: it is what they are compared with.
CONTEXT is the longest sequence that the model is set up for, which some RoPE scalings depend on.
"""
import json
import math
import sys
from pathlib import Path

import numpy as np


def read_safetensors(path):
    """{name: float64 array} of every tensor in the file."""
    data = path.read_bytes()
    size = int.from_bytes(data[:8], "little")
    tensors = {}
    for name, entry in json.loads(data[8:8 + size]).items():
        if name == "__metadata__":
            continue
        begin, end = (8 + size + offset for offset in entry["data_offsets"])
        raw = data[begin:end]
        if entry["dtype"] == "BF16":
            flat = (np.frombuffer(raw, np.uint16).astype(np.uint32) << 16).view(np.float32)
        else:
            flat = np.frombuffer(raw, {"F32": np.float32, "F16": np.float16}[entry["dtype"]])
        tensors[name] = flat.astype(np.float64).reshape(entry["shape"])
    return tensors


# ---- rotary embedding: (inverse frequencies, magnitude)

def default_rope(base, dim):
    return 1.0 / base ** (np.arange(0, dim, 2) / dim), 1.0


def linear_rope(base, dim, scaling, config, context):
    return default_rope(base, dim)[0] / scaling["factor"], 1.0


def dynamic_rope(base, dim, scaling, config, context):
    trained, factor = config["max_position_embeddings"], scaling["factor"]
    length = max(context, trained)
    base = base * (factor * length / trained - (factor - 1)) ** (dim / (dim - 2))
    return default_rope(base, dim)


def yarn_rope(base, dim, scaling, config, context):
    trained = scaling.get("original_max_position_embeddings") or config["max_position_embeddings"]
    factor = scaling["factor"]

    def index_that_turns(times):
        return dim * math.log(trained / (times * 2 * math.pi)) / (2 * math.log(base))

    first = index_that_turns(scaling.get("beta_fast") or 32)
    last = index_that_turns(scaling.get("beta_slow") or 1)
    if scaling.get("truncate", True):
        first, last = math.floor(first), math.ceil(last)
    first, last = max(first, 0), min(last, dim - 1)
    ramp = np.clip((np.arange(dim // 2) - first) / (last - first or 0.001), 0, 1)
    plain = default_rope(base, dim)[0]
    inv_freq = plain / factor * ramp + plain * (1 - ramp)

    def temperature(mscale=1.0):
        return 0.1 * mscale * math.log(factor) + 1.0 if factor > 1 else 1.0

    magnitude = scaling.get("attention_factor")
    if magnitude is None:
        if scaling.get("mscale") and scaling.get("mscale_all_dim"):
            magnitude = temperature(scaling["mscale"]) / temperature(scaling["mscale_all_dim"])
        else:
            magnitude = temperature()
    return inv_freq, magnitude


def llama3_rope(base, dim, scaling, config, context):
    trained, factor = scaling["original_max_position_embeddings"], scaling["factor"]
    low, high = scaling["low_freq_factor"], scaling["high_freq_factor"]
    result = []
    for frequency in default_rope(base, dim)[0]:
        wavelength = 2 * math.pi / frequency
        if wavelength < trained / high:
            result.append(frequency)
        elif wavelength > trained / low:
            result.append(frequency / factor)
        else:
            smooth = (trained / wavelength - low) / (high - low)
            result.append((1 - smooth) * frequency / factor + smooth * frequency)
    return np.array(result), 1.0


def longrope_rope(base, dim, scaling, config, context):
    trained = config["original_max_position_embeddings"]
    factors = np.array(scaling["long_factor" if context > trained else "short_factor"], np.float64)
    magnitude = scaling.get("attention_factor")
    if magnitude is None:
        stretch = config["max_position_embeddings"] / trained
        magnitude = math.sqrt(1 + math.log(stretch) / math.log(trained)) if stretch > 1 else 1.0
    return default_rope(base, dim)[0] / factors, magnitude


ROPES = {"linear": linear_rope, "dynamic": dynamic_rope, "yarn": yarn_rope, "llama3": llama3_rope,
         "longrope": longrope_rope, "su": longrope_rope}


def rope_of(config, head_dim, context):
    scaling = config.get("rope_scaling") or {}
    kind = scaling.get("rope_type") or scaling.get("type") or "default"
    dim = int(head_dim * config.get("partial_rotary_factor", 1.0))
    base = config.get("rope_theta", 10000.0)
    if kind == "default":
        return default_rope(base, dim)
    return ROPES[kind](base, dim, scaling, config, context)


def rotate(x, rope):
    """x [tokens, heads, head_dim]: element j of the rotated part turns with element j + half."""
    inv_freq, magnitude = rope
    half = len(inv_freq)
    angle = np.arange(len(x))[:, None, None] * inv_freq
    cos, sin = np.cos(angle) * magnitude, np.sin(angle) * magnitude
    first, second, rest = x[..., :half], x[..., half:2 * half], x[..., 2 * half:]
    return np.concatenate([first * cos - second * sin, second * cos + first * sin, rest], axis=-1)


# ---- the parts of a layer

def rms(x, weight, eps):
    return x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + eps) * weight


def silu(x):
    return x / (1 + np.exp(-x))


def gelu_tanh(x):
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x ** 3)))


def attend(q, k, v, scale, window=None, cap=None):
    """q [tokens, heads, dim], k and v [tokens, kv_heads, dim] -> [tokens, heads * dim]"""
    tokens, heads, _ = q.shape
    k, v = (np.repeat(a, heads // a.shape[1], axis=1) for a in (k, v))
    scores = np.einsum("qhd,khd->hqk", q, k) * scale
    if cap:
        scores = np.tanh(scores / cap) * cap
    query, key = np.arange(tokens)[:, None], np.arange(tokens)[None, :]
    seen = key <= query
    if window:
        seen &= key > query - window
    scores = np.where(seen, scores, -np.inf)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    return np.einsum("hqk,khd->qhd", weights, v).reshape(tokens, -1)


class Folder:
    """The config and tensors of a folder, under the names that a model of text alone has."""

    def __init__(self, path):
        self.config = json.loads((path / "config.json").read_text())
        self.architecture = self.config["architectures"][0]
        self.config = self.config.get("text_config", self.config)
        tensors = read_safetensors(path / "model.safetensors")
        self.tensors = {name.removeprefix("language_model."): t for name, t in tensors.items()}

    def __getitem__(self, name):
        return self.tensors[name]

    def linear(self, name, x):
        y = x @ self[name + ".weight"].T
        return y + self[name + ".bias"] if name + ".bias" in self.tensors else y

    def head(self, x, tied_by_default=False):
        tied = self.config.get("tie_word_embeddings", tied_by_default)
        return x @ self["model.embed_tokens.weight" if tied else "lm_head.weight"].T


def heads_of(x, head_dim):
    return x.reshape(len(x), -1, head_dim)


# ---- the families

def llama(m, ids, context, qk_norm=False, window_of=lambda config, layer: None):
    c = m.config
    eps, heads = c["rms_norm_eps"], c["num_attention_heads"]
    head_dim = c.get("head_dim") or c["hidden_size"] // heads
    rope = rope_of(c, head_dim, context)
    x = m["model.embed_tokens.weight"][ids]
    for layer in range(c["num_hidden_layers"]):
        p = f"model.layers.{layer}."
        h = rms(x, m[p + "input_layernorm.weight"], eps)
        q, k, v = (heads_of(m.linear(p + f"self_attn.{n}_proj", h), head_dim) for n in "qkv")
        if qk_norm:
            q = rms(q, m[p + "self_attn.q_norm.weight"], eps)
            k = rms(k, m[p + "self_attn.k_norm.weight"], eps)
        a = attend(rotate(q, rope), rotate(k, rope), v, head_dim ** -0.5, window_of(c, layer))
        x = x + m.linear(p + "self_attn.o_proj", a)
        h = rms(x, m[p + "post_attention_layernorm.weight"], eps)
        h = silu(m.linear(p + "mlp.gate_proj", h)) * m.linear(p + "mlp.up_proj", h)
        x = x + m.linear(p + "mlp.down_proj", h)
    return m.head(rms(x, m["model.norm.weight"], eps))


def mistral(m, ids, context):
    return llama(m, ids, context, window_of=lambda c, layer: c.get("sliding_window"))


def qwen_window(c, layer):
    on = c.get("use_sliding_window", False) and layer >= c.get("max_window_layers", 28)
    return c["sliding_window"] if on else None


def qwen2(m, ids, context):
    return llama(m, ids, context, window_of=qwen_window)


def qwen3(m, ids, context):
    return llama(m, ids, context, qk_norm=True, window_of=qwen_window)


def phi3(m, ids, context):
    c = m.config
    eps, heads, kv_heads = c["rms_norm_eps"], c["num_attention_heads"], c["num_key_value_heads"]
    head_dim = c["hidden_size"] // heads
    rope = rope_of(c, head_dim, context)
    x = m["model.embed_tokens.weight"][ids]
    for layer in range(c["num_hidden_layers"]):
        p = f"model.layers.{layer}."
        qkv = m.linear(p + "self_attn.qkv_proj", rms(x, m[p + "input_layernorm.weight"], eps))
        q, k, v = (heads_of(a, head_dim) for a in
                   np.split(qkv, [heads * head_dim, (heads + kv_heads) * head_dim], axis=-1))
        a = attend(rotate(q, rope), rotate(k, rope), v, head_dim ** -0.5, c.get("sliding_window"))
        x = x + m.linear(p + "self_attn.o_proj", a)
        h = rms(x, m[p + "post_attention_layernorm.weight"], eps)
        gate, up = np.split(m.linear(p + "mlp.gate_up_proj", h), 2, axis=-1)
        x = x + m.linear(p + "mlp.down_proj", up * silu(gate))
    return m.head(rms(x, m["model.norm.weight"], eps))


def gemma(m, ids, rope_and_window, qk_norm):
    """Both generations; rope_and_window(layer) says how a layer sees positions."""
    c = m.config
    eps, head_dim = c.get("rms_norm_eps", 1e-6), c.get("head_dim", 256)
    x = m["model.embed_tokens.weight"][ids] * math.sqrt(c["hidden_size"])

    def norm(x, name):
        return rms(x, 1.0 + m[name + ".weight"], eps)

    for layer in range(c["num_hidden_layers"]):
        p = f"model.layers.{layer}."
        rope, window = rope_and_window(layer)
        h = norm(x, p + "input_layernorm")
        q, k, v = (heads_of(m.linear(p + f"self_attn.{n}_proj", h), head_dim) for n in "qkv")
        if qk_norm:
            q, k = norm(q, p + "self_attn.q_norm"), norm(k, p + "self_attn.k_norm")
        a = attend(rotate(q, rope), rotate(k, rope), v,
                   c.get("query_pre_attn_scalar", 256) ** -0.5, window,
                   c.get("attn_logit_softcapping"))
        x = x + norm(m.linear(p + "self_attn.o_proj", a), p + "post_attention_layernorm")
        h = norm(x, p + "pre_feedforward_layernorm")
        h = gelu_tanh(m.linear(p + "mlp.gate_proj", h)) * m.linear(p + "mlp.up_proj", h)
        x = x + norm(m.linear(p + "mlp.down_proj", h), p + "post_feedforward_layernorm")
    logits = m.head(norm(x, "model.norm"), tied_by_default=True)
    cap = c.get("final_logit_softcapping")
    return np.tanh(logits / cap) * cap if cap else logits


def gemma2(m, ids, context):
    rope = rope_of(m.config, m.config["head_dim"], context)
    window = m.config["sliding_window"]
    return gemma(m, ids, lambda layer: (rope, None if layer % 2 else window), qk_norm=False)


def gemma3(m, ids, context):
    c = m.config
    head_dim = c.get("head_dim", 256)
    everywhere = rope_of({"rope_theta": 1e6, **c}, head_dim, context), None
    nearby = default_rope(c.get("rope_local_base_freq", 10000.0), head_dim), c["sliding_window"]
    pattern = c.get("sliding_window_pattern", 6)
    return gemma(m, ids, lambda layer: nearby if (layer + 1) % pattern else everywhere,
                 qk_norm=True)


FAMILIES = {"LlamaForCausalLM": llama, "MistralForCausalLM": mistral, "Qwen2ForCausalLM": qwen2,
            "Qwen3ForCausalLM": qwen3, "Gemma2ForCausalLM": gemma2, "Gemma3ForCausalLM": gemma3,
            "Gemma3ForConditionalGeneration": gemma3, "Phi3ForCausalLM": phi3}


def main():
    model = Folder(Path(sys.argv[1]))
    ids = [int(arg) for arg in sys.argv[3:]]
    logits = FAMILIES[model.architecture](model, ids, int(sys.argv[2]))
    print(json.dumps(logits.tolist()))


if __name__ == "__main__":
    main()
