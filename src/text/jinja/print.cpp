// SPDX-License-Identifier: Apache-2.0
// str(), repr() and json.dumps as Python writes them.
#include "text/jinja/print.h"

#include <algorithm>
#include <cmath>

#include "text/jinja/operators.h"
#include "text/jinja/strings.h"
#include "text/unicode.h"
#include "text/utf8.h"

namespace hasten::text::jinja {
namespace {

void print_quoted(TextBuilder& out, const Text& text) {
  const bool has_single = text.bytes.find('\'') != std::string_view::npos;
  const bool has_double = text.bytes.find('"') != std::string_view::npos;
  const char quote = has_single && !has_double ? '"' : '\'';
  out.append({&quote, 1});
  std::string escaped;
  for_each_piece(text, [&](std::string_view piece, bool literal) {
    escaped.clear();
    for (size_t at = 0; at < piece.size();) {
      const Utf8Char character = decode_utf8(piece.substr(at));
      const size_t length = character.valid ? character.length : 1;
      const uint32_t c = character.code_point;
      if (c == '\\' || c == static_cast<uint8_t>(quote)) {
        escaped += {'\\', static_cast<char>(c)};
      } else if (c == '\n') {
        escaped += "\\n";
      } else if (c == '\r') {
        escaped += "\\r";
      } else if (c == '\t') {
        escaped += "\\t";
      } else if (!character.valid || is_printable(c)) {
        escaped += piece.substr(at, length);
      } else if (c < 0x100) {
        escaped += fmt::format("\\x{:02x}", c);
      } else if (c < 0x10000) {
        escaped += fmt::format("\\u{:04x}", c);
      } else {
        escaped += fmt::format("\\U{:08x}", c);
      }
      at += length;
      flush_long(out, escaped, literal);
    }
    out.append(escaped, literal);
  });
  out.append({&quote, 1});
}

void print_items(TextBuilder& out, const Value& value) {
  const bool tuple = value.kind == Kind::tuple;
  out.append(tuple ? "(" : "[");
  for (size_t i = 0; i < value.list->size; ++i) {
    if (i > 0) out.append(", ");
    print_repr(out, value.list->items[i]);
  }
  out.append(tuple && value.list->size == 1 ? ",)" : tuple ? ")" : "]");
}

void print_entries(TextBuilder& out, const Dict& dict) {
  out.append("{");
  for (size_t i = 0; i < dict.size; ++i) {
    if (i > 0) out.append(", ");
    print_repr(out, dict.entries[i].key);
    out.append(": ");
    print_repr(out, dict.entries[i].value);
  }
  out.append("}");
}

void print_json_string(TextBuilder& out, const Text& text, bool ensure_ascii) {
  out.append("\"");
  std::string escaped;
  for_each_piece(text, [&](std::string_view piece, bool literal) {
    escaped.clear();
    for (size_t at = 0; at < piece.size();) {
      const char byte = piece[at];
      if (static_cast<uint8_t>(byte) >= 0x80 && ensure_ascii) {
        const Utf8Char character = decode_utf8(piece.substr(at));
        const uint32_t c = character.code_point;
        escaped += c < 0x10000 ? fmt::format("\\u{:04x}", c)
                               : fmt::format("\\u{:04x}\\u{:04x}", 0xD7C0 + (c >> 10),
                                             0xDC00 + (c & 0x3FF));
        at += character.valid ? character.length : 1;
        flush_long(out, escaped, literal);
        continue;
      }
      constexpr std::string_view kSpecial = "\"\\\n\r\t\b\f", kLetters = "\"\\nrtbf";
      const size_t special = kSpecial.find(byte);
      if (special != std::string_view::npos) {
        escaped += {'\\', kLetters[special]};
      } else if (static_cast<uint8_t>(byte) < 0x20) {
        escaped += fmt::format("\\u{:04x}", byte);
      } else {
        escaped += byte;
      }
      ++at;
      flush_long(out, escaped, literal);
    }
    out.append(escaped, literal);
  });
  out.append("\"");
}

std::string json_real(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value < 0 ? "-Infinity" : "Infinity";
  return format_real(value);
}

void print_json_key(TextBuilder& out, const Value& key, bool ensure_ascii) {
  if (key.is_string()) return print_json_string(out, *key.text, ensure_ascii);
  if (key.kind == Kind::tuple || !(key.is_number() || key.is_none()))
    out.runtime().error("keys must be str, int, float, bool or None, not {}", type_name(key));
  out.append("\"");
  print_json(out, key, {});
  out.append("\"");
}

/// json.dumps at some depth of indentation.
class JsonPrinter {
 public:
  JsonPrinter(TextBuilder& out, const JsonStyle& style) : out_(out), style_(style) {}

  void print(const Value& value, int32_t level) {
    const Runtime::Depth depth(out_.runtime());
    switch (value.kind) {
      case Kind::none:
        return out_.append("null");
      case Kind::boolean:
        return out_.append(value.boolean ? "true" : "false");
      case Kind::integer:
        return out_.append(fmt::format("{}", value.integer));
      case Kind::large:
        return out_.append(fmt::format("{}", value.large));
      case Kind::real:
        return out_.append(json_real(value.real));
      case Kind::string:
        return print_json_string(out_, *value.text, style_.ensure_ascii);
      case Kind::list:
      case Kind::tuple:
      case Kind::generator:
        return print_list(iterate(out_.runtime(), value), level);
      case Kind::dict:
        return print_dict(*value.dict, level);
      default:
        out_.runtime().error("Object of type {} is not JSON serializable", type_name(value));
    }
  }

 private:
  void print_list(std::span<const Value> items, int32_t level) {
    if (items.empty()) return out_.append("[]");
    out_.append("[");
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) out_.append(style_.item_separator);
      new_line(level + 1);
      print(items[i], level + 1);
    }
    new_line(level);
    out_.append("]");
  }

  void print_dict(const Dict& dict, int32_t level) {
    if (dict.size == 0) return out_.append("{}");
    std::span<Dict::Entry> entries = dict.view();
    if (style_.sort_keys) {
      Runtime& rt = out_.runtime();
      const Runtime::Lease lease(rt, entries.size_bytes());  // std::stable_sort's buffer
      entries = rt.arena().array<Dict::Entry>(dict.size);
      std::copy_n(dict.entries, dict.size, entries.begin());
      std::stable_sort(entries.begin(), entries.end(), [&](const auto& a, const auto& b) {
        return order(out_.runtime(), a.key, b.key) < 0;
      });
    }
    out_.append("{");
    for (size_t i = 0; i < entries.size(); ++i) {
      if (i > 0) out_.append(style_.item_separator);
      new_line(level + 1);
      print_json_key(out_, entries[i].key, style_.ensure_ascii);
      out_.append(style_.key_separator);
      print(entries[i].value, level + 1);
    }
    new_line(level);
    out_.append("}");
  }

  void new_line(int32_t level) {
    if (!style_.indent) return;
    out_.append("\n");
    for (int32_t i = 0; i < level; ++i) out_.append(*style_.indent);
  }

  TextBuilder& out_;
  const JsonStyle& style_;
};

}  // namespace

bool is_printable(uint32_t c) {
  switch (char_properties(c).category) {
    case Category::cc:
    case Category::cf:
    case Category::cs:
    case Category::co:
    case Category::cn:
    case Category::zl:
    case Category::zp:
      return false;
    case Category::zs:
      return c == ' ';
    default:
      return true;
  }
}

std::string format_real(double value) {
  if (std::isnan(value)) return "nan";
  std::string digits = fmt::format("{}", value);
  if (digits.find_first_of(".einf") == std::string::npos) digits += ".0";
  return digits;
}

void print(TextBuilder& out, const Value& value) {
  if (value.is_undefined()) return;
  if (value.is_string()) return out.append(*value.text);
  print_repr(out, value);
}

void print_repr(TextBuilder& out, const Value& value) {
  const Runtime::Depth depth(out.runtime());
  switch (value.kind) {
    case Kind::undefined:
      return out.append("Undefined");
    case Kind::none:
      return out.append("None");
    case Kind::boolean:
      return out.append(value.boolean ? "True" : "False");
    case Kind::integer:
      return out.append(fmt::format("{}", value.integer));
    case Kind::large:
      return out.append(fmt::format("{}", value.large));
    case Kind::real:
      return out.append(format_real(value.real));
    case Kind::string:
      if (!value.text->markup) return print_quoted(out, *value.text);
      out.append("Markup(");
      print_quoted(out, *value.text);
      return out.append(")");
    case Kind::list:
    case Kind::tuple:
    case Kind::generator:
      return print_items(out, value);
    case Kind::dict:
      return print_entries(out, *value.dict);
    case Kind::name_space:
      out.append("<Namespace ");
      print_entries(out, *value.dict);
      return out.append(">");
    case Kind::loop:
      return out.append("<LoopContext>");
    case Kind::function:
      return out.append(fmt::format("<{} '{}'>", type_name(value), value.function->name));
  }
}

Value to_text(Runtime& rt, const Value& value) {
  if (value.is_string()) return value;
  TextBuilder out(rt);
  print(out, value);
  return out.finish();
}

void print_json(TextBuilder& out, const Value& value, const JsonStyle& style) {
  JsonPrinter(out, style).print(value, 0);
}

}  // namespace hasten::text::jinja
