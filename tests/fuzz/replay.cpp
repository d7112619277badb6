// fuzz_replay TARGET DIRECTORY: feeds each file of the directory to the target. A file whose name begins with
// expect-WORD must come to the end WORD (fuzz.hpp); other files only must break no promise.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>

#include "fuzz/fuzz.hpp"

int main(int argc, char** argv) {
  namespace fuzz = dblock::fuzz;
  if (argc != 3) return 64;
  const auto target = std::ranges::find(fuzz::targets(), argv[1], &fuzz::Target::name);
  if (target == fuzz::targets().end()) return 64;
  std::map<std::string, int> ends;
  bool wrong = false;
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(argv[2])) files.push_back(entry.path());
  std::ranges::sort(files);
  for (const auto& path : files) {
    std::ifstream file(path, std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(file), {}};
    if (!file) return 66;
    const std::string name = path.filename();
    std::cout << name << ": " << std::flush;
    const std::string end(target->run(fuzz::Input(bytes)));
    std::cout << end << "\n";
    ++ends[end];
    const std::string expected = "expect-" + end;
    if (name.starts_with("expect-") && name != expected && !name.starts_with(expected + "-")) {
      std::cout << "  that is not the end in its name\n";
      wrong = true;
    }
  }
  for (const auto& [end, count] : ends) std::cout << count << " " << end << "\n";
  // One end for all would mean that they are stopped at the same door.
  if (ends.size() < 2) std::cout << "the corpus has fewer than two ends\n";
  return wrong || ends.size() < 2 ? 1 : 0;
}
