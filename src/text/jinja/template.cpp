// SPDX-License-Identifier: Apache-2.0
// Ties source, tree and interpreter together.
#include "text/jinja/template.h"

#include <utility>

#include "base/json.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/parser.h"

namespace hasten::text::jinja {
namespace {

void add_variables(Runtime& rt, Interpreter& interpreter, Scope& scope,
                   const json::Object* variables, const Trust& trust) {
  if (variables == nullptr) return;
  for (const auto& [name, value] : *variables)
    interpreter.set(scope, name, rt.from_json(value, trust));
}

}  // namespace

struct Template::Parsed {
  Parsed(std::string text, Options given)
      : source(std::move(text)),
        options(std::move(given)),
        arena(options.limits.parse_bytes, "its tree") {
    if (static_cast<int64_t>(source.size()) > options.limits.source_bytes) {
      fail(ErrorCode::resource_exhausted, "the chat template has {} bytes; the limit is {}",
           source.size(), options.limits.source_bytes);
    }
    tree = parse(source, arena, options.limits.depth);
  }

  std::string source;
  Options options;
  Arena arena;
  Tree tree;
};

Template::Template(std::string source, Options options)
    : parsed_(std::make_unique<const Parsed>(std::move(source), std::move(options))) {}
Template::~Template() = default;
Template::Template(Template&&) noexcept = default;
Template& Template::operator=(Template&&) noexcept = default;

std::string_view Template::source() const { return parsed_->source; }
std::span<const UnknownName> Template::unknown_names() const { return parsed_->tree.unknown; }

Rendered Template::render(const Variables& variables) const {
  Runtime rt(parsed_->options);
  Interpreter interpreter(rt);
  Scope scope;
  add_variables(rt, interpreter, scope, variables.untrusted, {.of_entry = variables.is_trusted});
  add_variables(rt, interpreter, scope, variables.trusted, {.whole = true});
  rt.begin();
  TextBuilder out(rt);
  interpreter.run(parsed_->tree.block, scope, out);
  return out.release();
}

}  // namespace hasten::text::jinja
