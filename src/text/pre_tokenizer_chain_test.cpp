// SPDX-License-Identifier: Apache-2.0
// What each pre-tokenizer of tokenizer.json makes of a text: the examples of its documentation, and
// each behaviour written out.
#include "text/pre_tokenizer_chain.h"

#include <gtest/gtest.h>

#include <string>

#include "base/error.h"

namespace hasten::text {
namespace {

// The words of `text`, with a bar between them.
std::string words(const PreTokenizerSteps& steps, std::string_view text, bool starts_text = true) {
  PreTokenizerChain::Words cut;
  PreTokenizerChain(steps).cut(text, starts_text, cut);
  std::string joined;
  for (const regex::Match& word : cut.words) {
    joined.append(&word == cut.words.data() ? "" : "|")
        .append(cut.text.substr(word.begin, word.end - word.begin));
  }
  return joined;
}

PreTokenizerSteps joined(PreTokenizerSteps first, const PreTokenizerSteps& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

TEST(PreTokenizerChain, Behaviors) {
  const auto cut = [](SplitBehavior behavior, bool invert = false) {
    return words({{.pattern = "-", .literal = true, .behavior = behavior, .invert = invert}},
                 "the-final--countdown");
  };
  EXPECT_EQ(cut(SplitBehavior::removed), "the|final|countdown");
  EXPECT_EQ(cut(SplitBehavior::isolated), "the|-|final|-|-|countdown");
  EXPECT_EQ(cut(SplitBehavior::merged_with_previous), "the-|final-|-|countdown");
  EXPECT_EQ(cut(SplitBehavior::merged_with_next), "the|-final|-|-countdown");
  EXPECT_EQ(cut(SplitBehavior::contiguous), "the|-|final|--|countdown");
  EXPECT_EQ(cut(SplitBehavior::removed, true), "-|-|-");
  EXPECT_EQ(cut(SplitBehavior::isolated, true), "the|-|final|-|-|countdown");
}

TEST(PreTokenizerChain, BehaviorsOfExpressions) {
  const auto cut = [](SplitBehavior behavior, bool invert) {
    return words({{.pattern = R"(\w+|[^\w\s]+)", .behavior = behavior, .invert = invert}},
                 "How are you doing?");
  };
  EXPECT_EQ(cut(SplitBehavior::removed, true), "How|are|you|doing|?");
  EXPECT_EQ(cut(SplitBehavior::removed, false), " | | ");
  EXPECT_EQ(cut(SplitBehavior::isolated, false), "How| |are| |you| |doing|?");
  EXPECT_EQ(cut(SplitBehavior::merged_with_previous, true), "How |are |you |doing|?");
  EXPECT_EQ(cut(SplitBehavior::merged_with_next, true), "How| are| you| doing|?");
  EXPECT_EQ(cut(SplitBehavior::contiguous, false), "How| |are| |you| |doing?");
}

TEST(PreTokenizerChain, EmptyMatchesCut) {
  const PreTokenizerSteps steps{{.pattern = "\\p{N}+"}, {.pattern = "(?=(\\d{3})+(?!\\d))"}};
  EXPECT_EQ(words(steps, "in 1234567 a"), "in |1|234|567| a");
}

TEST(PreTokenizerChain, ByteLevel) {
  EXPECT_EQ(words(byte_level_steps(true, true), "Hello my friend, how is your day going?"),
            " Hello| my| friend|,| how| is| your| day| going|?");
  EXPECT_EQ(words(byte_level_steps(true, true), " Hello"), " Hello");
  EXPECT_EQ(words(byte_level_steps(false, true), "Hello there\nHello"), "Hello| there|\n|Hello");
  EXPECT_EQ(words(byte_level_steps(false, false), "Hello there"), "Hello there");
  EXPECT_EQ(words(byte_level_steps(true, false), "Hello there"), " Hello there");
}

TEST(PreTokenizerChain, Digits) {
  EXPECT_EQ(words(digits_steps(false), "Hey 123 friend!"), "Hey |123| friend!");
  EXPECT_EQ(words(digits_steps(true), "Hey 123 friend!"), "Hey |1|2|3| friend!");
}

TEST(PreTokenizerChain, Punctuation) {
  EXPECT_EQ(words(punctuation_steps(SplitBehavior::isolated), "Hey friend!     How are you?!?"),
            "Hey friend|!|     How are you|?|!|?");
  EXPECT_EQ(words(punctuation_steps(SplitBehavior::contiguous), "a\u3002\u3002+=b"),
            "a|\u3002\u3002+=|b");
}

TEST(PreTokenizerChain, Whitespace) {
  EXPECT_EQ(words(whitespace_steps(), "Hey man!"), "Hey|man|!");
  EXPECT_EQ(words(whitespace_steps(), "How are you doing?"), "How|are|you|doing|?");
  EXPECT_EQ(words(whitespace_steps(), "\n"), "");
  EXPECT_EQ(words(whitespace_split_steps(), "Hey man!"), "Hey|man!");
  EXPECT_EQ(words(whitespace_split_steps(), "Hey, man, Good?"), "Hey,|man,|Good?");
}

TEST(PreTokenizerChain, Bert) {
  EXPECT_EQ(words(bert_steps(), "Hey friend!     How are you?!?"),
            "Hey|friend|!|How|are|you|?|!|?");
}

TEST(PreTokenizerChain, CharDelimiter) {
  EXPECT_EQ(words(char_delimiter_steps("x"), "axxbxc"), "a|b|c");
}

TEST(PreTokenizerChain, Metaspace) {
  const auto cut = [](PrependScheme prepend, bool split, std::string_view text,
                      bool starts = true) {
    return words(metaspace_steps("\u2581", prepend, split), text, starts);
  };
  EXPECT_EQ(cut(PrependScheme::always, true, "Hey friend!"), "\u2581Hey|\u2581friend!");
  EXPECT_EQ(cut(PrependScheme::always, false, "Hey friend!"), "\u2581Hey\u2581friend!");
  EXPECT_EQ(cut(PrependScheme::always, true, "Hey   friend!"),
            "\u2581Hey|\u2581|\u2581|\u2581friend!");
  EXPECT_EQ(cut(PrependScheme::never, true, "Hey"), "Hey");
  EXPECT_EQ(cut(PrependScheme::first, true, "Hey", /*starts=*/false), "Hey");
  EXPECT_EQ(cut(PrependScheme::first, true, " Hey"), "\u2581Hey");
}

TEST(PreTokenizerChain, Sequence) {
  EXPECT_EQ(words(joined(whitespace_split_steps(), punctuation_steps(SplitBehavior::isolated)),
                  "Hey friend!     How are you?!?"),
            "Hey|friend|!|How|are|you|?|!|?");
  EXPECT_EQ(words(joined(digits_steps(true), byte_level_steps(false, true)), "a 12 b"),
            "a| |1|2| b");
  EXPECT_EQ(words(joined(whitespace_steps(), byte_level_steps(true, false)), "a b"), " a| b");
}

// What follows ByteLevel sees its alphabet: no spaces, and the second byte of ü as a fraction.
TEST(PreTokenizerChain, AlphabetOfBytes) {
  const PreTokenizerSteps bytes = byte_level_steps(false, false);
  EXPECT_EQ(words(bytes, "a \u00fc"), "a \u00fc");
  EXPECT_EQ(words(joined(bytes, digits_steps(true)), "a 1\u00fc"), "a |1|\xc3|\xbc");
  EXPECT_EQ(words(joined(digits_steps(true), bytes), "a 1\u00fc"), "a |1|\u00fc");
  EXPECT_EQ(words(joined(bytes, whitespace_split_steps()), "a b\xff"), "a b\xff");
  EXPECT_EQ(words(joined(joined(bytes, bytes), digits_steps(true)), "\u00fc"), "\xc3|\xbc");
}

// As published: punctuation, GPT-2's words, runs of digits, threes of them.
TEST(PreTokenizerChain, Falcon) {
  PreTokenizerSteps steps = punctuation_steps(SplitBehavior::contiguous);
  steps = joined(joined(steps, byte_level_steps(false, true)), digits_steps(false));
  steps.push_back({.pattern = "[0-9][0-9][0-9]"});
  EXPECT_EQ(words(steps, "It's 12345, (\u00e9)!"), "It|'|s| |123|45|,| |(|\u00e9|)!");
}

// Batches, and the pieces that are remembered as whole, change nothing: long texts cut at once, in
// batches, and by a chain that has seen no other.
TEST(PreTokenizerChain, BatchesAreTheSameWords) {
  for (const char* name : {"falcon", "deepseek-coder", "deepseek-v3", "afmoe", "chameleon"}) {
    const PreTokenizerChain chain(find_pre_tokenizer(name).steps());
    std::string text;
    for (int i = 0; i < 20'000; ++i)
      text += std::to_string(i) + (i % 3 == 0 ? "a! " : "\u4e2d?b\n");
    PreTokenizerChain::Words whole;
    chain.cut(text, true, whole);
    std::vector<regex::Match> in_batches;
    size_t num_batches = 0;
    chain.cut_in_batches(text, true, [&](const PreTokenizerChain::Words& words) {
      in_batches.insert(in_batches.end(), words.words.begin(), words.words.end());
      ++num_batches;
    });
    EXPECT_EQ(in_batches, whole.words) << name;
    EXPECT_GT(num_batches, 5U) << name;
    // Line by line, each by a set of its own that remembers nothing.
    std::vector<regex::Match> by_hand;
    for (size_t begin = 0; begin < 20'000;) {
      const size_t end = text.find('\n', begin) + 1;
      PreTokenizerChain::Words line;
      chain.cut(std::string_view(text).substr(begin, end - begin), true, line);
      for (const regex::Match& word : line.words) {
        by_hand.push_back({begin + word.begin, begin + word.end});
      }
      begin = end;
    }
    in_batches.resize(by_hand.size());
    EXPECT_EQ(in_batches, by_hand) << name;
  }
}

// A step that takes pieces away takes them again where it has seen others like them.
TEST(PreTokenizerChain, RemembersOnlyWholePieces) {
  const PreTokenizerSteps steps = joined(whitespace_split_steps(), digits_steps(true));
  EXPECT_EQ(words(steps, "a 1 a 1 b2 b2 a"), "a|1|a|1|b|2|b|2|a");
  EXPECT_EQ(words({{.pattern = "-", .behavior = SplitBehavior::removed},
                   {.pattern = "x", .behavior = SplitBehavior::removed}},
                  "x-x-ax-ax-a"),
            "a|a|a");
}

TEST(PreTokenizerChain, BoundsWhatAFileCanAskFor) {
  const auto code = [](const PreTokenizerSteps& steps) {
    try {
      const PreTokenizerChain chain(steps);
    } catch (const Error& error) {
      return error.code();
    }
    return ErrorCode::internal;
  };
  EXPECT_EQ(code(PreTokenizerSteps(33, {.pattern = "a"})), ErrorCode::unsupported);
  EXPECT_EQ(code(PreTokenizerSteps(5, {.kind = PreTokenizerStep::Kind::add_prefix_space})),
            ErrorCode::unsupported);
  EXPECT_EQ(code(char_delimiter_steps(std::string(1025, 'a'))), ErrorCode::unsupported);
  EXPECT_EQ(code(char_delimiter_steps(std::string(1024, 'a'))), ErrorCode::internal);
  EXPECT_EQ(code(metaspace_steps("12345", PrependScheme::always, false)), ErrorCode::unsupported);
  EXPECT_EQ(code(metaspace_steps("\u2581", PrependScheme::always, false)), ErrorCode::internal);
}

TEST(PreTokenizerChain, FindsScanners) {
  const auto scanner = [](const PreTokenizerSteps& steps) {
    return PreTokenizerChain(steps).scanner();
  };
  EXPECT_EQ(scanner(byte_level_steps(false, true)), WordScanner::gpt2);
  EXPECT_EQ(scanner(byte_level_steps(true, true)), std::nullopt);
  EXPECT_EQ(scanner(joined(digits_steps(true), byte_level_steps(false, true))),
            WordScanner::gpt2_digits);
  EXPECT_EQ(scanner(joined(digits_steps(false), byte_level_steps(false, true))), std::nullopt);
  EXPECT_EQ(scanner({}), std::nullopt);
  EXPECT_THROW((void)scanner({{.pattern = "("}}), Error);
}

}  // namespace
}  // namespace hasten::text
