// SPDX-License-Identifier: Apache-2.0
// What hasten inspect says of a model's text side: its tokenizer and its chat template.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "base/json.h"
#include "hasten/tokenizer.h"

namespace hasten::cli {

class InspectedText {
 public:
  /// Reads the text side of a model as Tokenizer does. `is_there`: the model has a vocabulary's
  /// file or metadata, so that what cannot be read is broken; else it is absent. Throws Error for a
  /// lone template's file that cannot be read.
  InspectedText(const std::filesystem::path& model, bool is_there);

  /// Whether the model has a tokenizer, working or not.
  bool has_tokenizer() const { return is_there_; }
  /// Throws Error where there is neither a tokenizer nor a template.
  void check_is_any() const;
  void add_to(json::Object& summary) const;
  void print() const;
  /// The template's source alone; on a terminal without what terminals obey. Throws Error where
  /// there is none.
  void print_template() const;

  /// What is there and does not work, in a sentence, of which `print` and `add_to` tell why; empty:
  /// all does.
  std::string fault() const;

 private:
  /// The file that the tokenizer was read from, without its folder.
  std::string file() const;
  /// What the template can say, and what is wrong with it.
  std::string template_line() const;

  void add_tokenizer(json::Object& summary) const;
  void print_tokenizer() const;

  bool is_there_;
  bool is_alone_ = false;  // a template without anything else
  std::optional<Tokenizer> tokenizer_;
  std::optional<TemplateInfo> template_;
  std::string error_;           // why there is no tokenizer_
  std::string template_error_;  // why there is no template_, though there is a file of one
};

}  // namespace hasten::cli
