// Prints what the option table says to a shell's completion: the lines between "# begin: …" and "# end" in
// completions/. tests/definition/completions.sh puts them there, and says when they are out of date.
// usage: dblock_completions bash|zsh|fish
#include <algorithm>
#include <functional>
#include <iostream>
#include <string>
#include <string_view>
#include <vector>

#include "cli/options/option_spec.hpp"

namespace {

using dblock::cli::OptionSpec;
using dblock::cli::Scope;
using dblock::cli::SubcommandSpec;

std::vector<SubcommandSpec> subcommands() {
  std::vector<SubcommandSpec> shown;
  for (const auto& spec : dblock::cli::subcommand_specs()) {
    if (!spec.hidden) shown.push_back(spec);
  }
  return shown;
}

// "global" and the subcommands, each with its options.
void for_each_scope(const std::function<void(std::string_view, const std::vector<OptionSpec>&)>& visit) {
  const auto options_in = [](Scope scope) {
    std::vector<OptionSpec> found;
    for (const auto& spec : dblock::cli::option_specs()) {
      if ((spec.scope & scope) != 0) found.push_back(spec);
    }
    return found;
  };
  visit("global", options_in(dblock::cli::k_global));
  for (const auto& spec : subcommands()) visit(spec.name, options_in(dblock::cli::scope_of(spec.id)));
}

// What a value is: the shells have a function of each name.
std::string kind_of(const OptionSpec& spec) {
  if (!spec.value.choices.empty()) return "words " + std::string(spec.value.choices);
  if (spec.value.kind == dblock::cli::Kind::signal) return "signal";
  for (const auto& [value, kind] :
       std::initializer_list<std::pair<std::string_view, std::string_view>>{{"KEY", "key"},
                                                                            {"FILE", "file"},
                                                                            {"D", "duration"},
                                                                            {"D|forever", "wait"},
                                                                            {"URL", "url"},
                                                                            {"PID", "pid"},
                                                                            {"CMD", "command"},
                                                                            {"STRING", "command"}}) {
    if (spec.value.shown == value) return std::string(kind);
  }
  return "any";
}

// Completed without a value: it has none, or need not have one.
bool is_lone(const OptionSpec& spec) {
  return spec.is_flag() || spec.may_lack_value();
}

std::string on_one_line(std::string_view text) {
  std::string line(text);
  std::ranges::replace(line, '\n', ' ');
  return line;
}

std::string replaced(std::string text, std::string_view characters, std::string_view before) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (characters.find(text[i]) == std::string_view::npos) continue;
    text.insert(i, before);
    i += before.size();
  }
  return text;
}

std::string quoted_for_sh(const std::string& text) {
  std::string result = "'";
  for (const char c : text) result += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return result + "'";
}

std::string spellings(const OptionSpec& spec, std::string_view between) {
  const std::string name = "--" + std::string(spec.name);
  return spec.letter == 0 ? name : std::string("-") + spec.letter + std::string(between) + name;
}

void bash() {
  std::cout << "_dblock_subcommands='";
  std::string_view blank;
  for (const auto& spec : subcommands()) {
    std::cout << blank << spec.name;
    blank = " ";
  }
  std::cout
      << "'\n\n# The options of subcommand $1, or \"global\" ones.\n_dblock_options() {\n  case $1 in\n";
  for_each_scope([](std::string_view scope, const std::vector<OptionSpec>& options) {
    std::cout << "    " << scope << ") echo '";
    std::string_view before;
    for (const auto& spec : options) {
      std::cout << before << spellings(spec, " ");
      before = " ";
    }
    std::cout << "' ;;\n";
  });
  std::cout << "  esac\n}\n\n# What the value of option $2 of subcommand $1 is; fails when it has none.\n"
               "_dblock_kind() {\n  case \"$1 $2\" in\n";
  for_each_scope([](std::string_view scope, const std::vector<OptionSpec>& options) {
    for (const auto& spec : options) {
      if (is_lone(spec)) continue;
      std::cout << "    '" << scope << " --" << spec.name << "'";
      if (spec.letter != 0) std::cout << " | '" << scope << " -" << spec.letter << "'";
      std::cout << ") echo '" << kind_of(spec) << "' ;;\n";
    }
  });
  std::cout << "    *) return 1 ;;\n  esac\n}\n";
}

std::string zsh_action(const OptionSpec& spec) {
  const std::string kind = kind_of(spec);
  if (kind.starts_with("words ")) return "(" + kind.substr(6) + ")";
  return kind == "any" ? " " : kind == "file" ? "_files" : "_dblock_" + kind;
}

void zsh() {
  std::cout << "typeset -ga _dblock_subcommands=(\n";
  for (const auto& spec : subcommands())
    std::cout << "  " << quoted_for_sh(std::string(spec.name) + ":" + std::string(spec.summary)) << "\n";
  std::cout << ")\n";
  for_each_scope([](std::string_view scope, const std::vector<OptionSpec>& options) {
    std::cout << "typeset -ga _dblock_" << scope << "_options=(\n";
    for (const auto& spec : options) {
      std::string tail = "[" + replaced(on_one_line(spec.help), "[]:\\", "\\") + "]";
      if (!is_lone(spec)) tail += ":" + std::string(spec.value.shown) + ":" + zsh_action(spec);
      const std::string value_mark = is_lone(spec) ? "" : "=";
      const std::string name = "--" + std::string(spec.name) + value_mark;
      const std::string star = spec.repeats ? "*" : "";
      if (spec.letter == 0) {
        std::cout << "  " << quoted_for_sh(star + name + tail) << "\n";
        continue;
      }
      const std::string letter = std::string("-") + spec.letter + (is_lone(spec) ? "" : "+");
      const std::string apart = spec.repeats ? star : "(" + spellings(spec, " ") + ")";
      std::cout << "  " << quoted_for_sh(apart + letter + tail) << "\n";
      std::cout << "  " << quoted_for_sh(apart + name + tail) << "\n";
    }
    std::cout << ")\n";
  });
}

void fish() {
  std::cout << "set -g __dblock_subcommands";
  for (const auto& spec : subcommands()) std::cout << " " << spec.name;
  std::cout
      << "\n# Options with a value, by which the subcommand and the job are found.\nset -g __dblock_valued";
  std::vector<std::string> valued;
  for_each_scope([&](std::string_view, const std::vector<OptionSpec>& options) {
    for (const auto& spec : options) {
      if (is_lone(spec)) continue;
      valued.push_back("--" + std::string(spec.name));
      if (spec.letter != 0) valued.push_back(std::string("-") + spec.letter);
    }
  });
  std::ranges::sort(valued);
  const auto twice = std::ranges::unique(valued);
  valued.erase(twice.begin(), twice.end());
  for (const auto& word : valued) std::cout << " " << word;
  std::cout << "\n";
  for (const auto& spec : subcommands()) {
    std::cout << "complete -c dblock -n __dblock_wants_subcommand -a " << spec.name << " -d "
              << quoted_for_sh(std::string(spec.summary)) << "\n";
  }
  for_each_scope([](std::string_view scope, const std::vector<OptionSpec>& options) {
    for (const auto& spec : options) {
      std::cout << "complete -c dblock -n '__dblock_in " << scope << "'";
      if (spec.letter != 0) std::cout << " -s " << spec.letter;
      std::cout << " -l " << spec.name;
      const std::string kind = kind_of(spec);
      if (kind == "file") {
        std::cout << " -r -F";
      } else if (kind.starts_with("words ") && !is_lone(spec)) {
        std::cout << " -x -a '" << kind.substr(6) << "'";
      } else if (!is_lone(spec)) {
        std::cout << " -x" << (kind == "any" ? "" : " -a '(__dblock_" + kind + ")'");
      }
      std::cout << " -d " << quoted_for_sh(on_one_line(spec.help)) << "\n";
    }
  });
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view shell = argc == 2 ? argv[1] : "";
  if (shell == "bash") {
    bash();
  } else if (shell == "zsh") {
    zsh();
  } else if (shell == "fish") {
    fish();
  } else {
    std::cerr << "usage: dblock_completions bash|zsh|fish\n";
    return 2;
  }
  return std::cout.flush() ? 0 : 1;
}
