// SPDX-License-Identifier: Apache-2.0
// Looks names up in the parts of the library, and assigns arguments to parameters.
#include "text/jinja/library.h"

#include <algorithm>

#include "text/jinja/operators.h"
#include "text/jinja/print.h"

namespace hasten::text::jinja {

Native find_filter(std::string_view name) {
  for (const auto table :
       {kTextFilters, kSequenceFilters, kOtherFilters, kLayoutFilters, kMarkupFilters}) {
    if (const Native native = find_native(table, name)) return native;
  }
  return nullptr;
}

Native find_test(std::string_view name) { return find_native(kTests, name); }
Native find_function(std::string_view name) { return find_native(kFunctions, name); }

Native find_method(Kind kind, std::string_view name) {
  switch (kind) {
    case Kind::string:
      return find_native(kTextMethods, name);
    case Kind::list:
    case Kind::tuple:
      return find_native(kListMethods, name);
    case Kind::dict:
      return find_native(kDictMethods, name);
    default:
      return nullptr;
  }
}

void bind_arguments(Runtime& rt, const Arguments& arguments,
                    std::span<const std::string_view> names, std::span<const Value*> values,
                    size_t required) {
  if (arguments.positional.size() > names.size()) {
    rt.error("{} arguments given, at most {} taken", arguments.positional.size(), names.size());
  }
  for (size_t i = 0; i < arguments.positional.size(); ++i) values[i] = &arguments.positional[i];
  for (const NamedValue& named : arguments.named) {
    const auto at = std::find(names.begin(), names.end(), named.name.bytes);
    if (at == names.end()) rt.error("unexpected keyword argument '{}'", named.name.bytes);
    const Value*& value = values[static_cast<size_t>(at - names.begin())];
    if (value != nullptr) rt.error("multiple values for argument '{}'", named.name.bytes);
    value = &named.value;
  }
  for (size_t i = 0; i < required; ++i) {
    if (values[i] == nullptr) rt.error("missing argument '{}'", names[i]);
  }
}

int64_t integer_or(Runtime& rt, const Value* argument, int64_t otherwise) {
  if (argument == nullptr) return otherwise;
  if (argument->is_undefined()) rt.undefined_error(*argument);
  if (!argument->is_integral()) rt.error("an integer is required, not '{}'", type_name(*argument));
  return argument->as_integer();
}

bool boolean_or(const Value* argument, bool otherwise) {
  return argument == nullptr ? otherwise : truthy(*argument);
}

std::string_view string_or(Runtime& rt, const Value* argument, std::string_view otherwise) {
  return argument == nullptr ? otherwise : text_of(rt, *argument).bytes;
}

const Text& text_of(Runtime& rt, const Value& value) { return *to_text(rt, value).text; }

}  // namespace hasten::text::jinja
