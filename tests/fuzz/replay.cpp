// SPDX-License-Identifier: Apache-2.0
// The main of a fuzz target where there is no libFuzzer: runs its seeds and some thousands of
// inputs that random changes make of them, the same ones each time.
//   TARGET SEEDS [INPUTS]   SEEDS: a folder of files, which need not be there
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

using Input = std::vector<uint8_t>;

constexpr size_t kMaxBytes = 4096;
constexpr auto kTime = std::chrono::seconds(3);  // for slow targets and loaded machines

std::vector<Input> read_seeds(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  std::error_code missing;
  for (const auto& entry : std::filesystem::directory_iterator(folder, missing))
    files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  std::vector<Input> seeds;
  for (const auto& file : files) {
    std::ifstream in(file, std::ios::binary);
    seeds.emplace_back(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
  }
  if (seeds.empty()) seeds.emplace_back(16);
  return seeds;
}

class Mutator {
 public:
  explicit Mutator(std::vector<Input> seeds) : seeds_(std::move(seeds)) {}

  Input next() {
    Input input = seeds_[below(seeds_.size())];
    for (size_t count = 1 + below(6); count > 0; --count) change(input);
    input.resize(std::min(input.size(), kMaxBytes));
    return input;
  }

 private:
  size_t below(size_t end) { return random_() % std::max<size_t>(1, end); }

  void change(Input& input) {
    const size_t at = below(input.size() + 1);
    const auto place = input.begin() + static_cast<std::ptrdiff_t>(at);
    const size_t rest = input.size() - at;
    const auto end = place + static_cast<std::ptrdiff_t>(std::min(rest, 1 + below(16)));
    switch (random_() % 6) {
      case 0:
        if (rest > 0) *place ^= static_cast<uint8_t>(1U << below(8));
        break;
      case 1:
        if (rest > 0) *place = static_cast<uint8_t>(random_());
        break;
      case 2:
        input.insert(place, static_cast<uint8_t>(random_()));
        break;
      case 3:
        input.erase(place, end);
        break;
      case 4: {  // say it twice
        const Input part(place, end);
        input.insert(place, part.begin(), part.end());
        break;
      }
      default: {  // go on as another seed does
        const Input& other = seeds_[below(seeds_.size())];
        input.resize(at);
        input.insert(input.end(), other.begin() + static_cast<std::ptrdiff_t>(below(other.size())),
                     other.end());
      }
    }
  }

  const std::vector<Input> seeds_;
  std::mt19937 random_{1};
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  const std::vector<Input> seeds = read_seeds(argv[1]);
  const int64_t num_inputs = argc > 2 ? std::atoll(argv[2]) : 5000;
  // Whoever dies of an input leaves it there, for libFuzzer and for a test.
  const std::string last = std::string(argv[0]) + ".input";
  const int file = ::open(last.c_str(), O_CREAT | O_WRONLY | O_TRUNC | O_CLOEXEC, 0644);
  int64_t count = 0;
  const auto run = [&](const Input& input) {
    if (::ftruncate(file, static_cast<off_t>(input.size())) != 0 ||
        ::pwrite(file, input.data(), input.size(), 0) < 0)
      std::abort();
    (void)LLVMFuzzerTestOneInput(input.data(), input.size());
    ++count;
  };
  std::fprintf(stderr, "the input that is run: %s\n", last.c_str());
  for (const Input& seed : seeds) run(seed);
  Mutator mutator(seeds);
  const auto end = std::chrono::steady_clock::now() + kTime;
  while (count < num_inputs && std::chrono::steady_clock::now() < end) run(mutator.next());
  ::close(file);
  std::filesystem::remove(last);
  std::fprintf(stderr, "%lld inputs\n", static_cast<long long>(count));
  return 0;
}
