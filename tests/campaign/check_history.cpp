// dblock_check_history [--tolerance-ms N] [--clock-beyond-margin] FILE: judges a campaign's history again.
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <string>

#include "campaign/history.hpp"

namespace {

using namespace dblock::campaign;

int check(const std::string& file, const Judgement& how) {
  std::ifstream in(file);
  if (!in) {
    std::fprintf(stderr, "cannot read %s\n", file.c_str());
    return 66;
  }
  const auto history = read_history(in);
  const auto violations = judge(history, how);
  for (const Violation& violation : violations) {
    std::printf("%s: %s\n", to_string(violation.rule), violation.text.c_str());
    for (const Event& event : violation.events) std::printf("  %s", to_line(event).c_str());
  }
  const Exercise all = count(history);
  std::printf("%zu events, %d operations, %d grants, %d takeovers: %zu violations\n", history.size(),
              all.operations, all.grants, all.takeovers, violations.size());
  return violations.empty() ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  Judgement how;
  std::string file;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--clock-beyond-margin") {
      how.clock_beyond_margin = true;
    } else if (word == "--tolerance-ms" && i + 1 < argc) {
      how.tolerance = std::atoll(argv[++i]) * 1'000'000;
    } else {
      file = word;
    }
  }
  try {
    return check(file, how);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", file.c_str(), error.what());
    return 65;
  }
}
