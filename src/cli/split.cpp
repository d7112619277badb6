#include "cli/split.hpp"

#include <utility>

#include "base/text.hpp"

namespace dblock::cli {
namespace {

class Splitter {
 public:
  explicit Splitter(const std::vector<std::string>& words) : words_(words) {}

  SplitWords split() {
    while (!done_ && at_ < words_.size() && !out_.error) step();
    if (!out_.error && !out_.subcommand && !out_.help && !out_.version) {
      out_.no_subcommand = true;
      refuse("no subcommand; dblock --help lists them");
    }
    return std::move(out_);
  }

 private:
  void step() {
    const std::string& word = words_[at_];
    if (word == "--") {
      ++at_;
      if (!out_.subcommand) return refuse("a subcommand must stand before --");
      return take_job();
    }
    if (word.starts_with("--")) return take_long(word.substr(2));
    if (word.size() > 1 && word[0] == '-') return take_cluster(word);
    if (out_.subcommand) return take_job();
    out_.subcommand = find_subcommand(word);
    if (!out_.subcommand) return unknown_subcommand(word);
    scope_ |= scope_of(*out_.subcommand);
    ++at_;
  }

  void take_job() {
    out_.job.assign(words_.begin() + static_cast<std::ptrdiff_t>(at_), words_.end());
    done_ = true;
    if (out_.subcommand != Subcommand::run && !out_.job.empty()) {
      const std::string word = escape_untrusted(out_.job.front());
      refuse(command_prefix() + "takes no argument \"" + word + "\"; " +
             (find_option("key", scope_) != nullptr ? "for the name of a lock write --key " + word
                                                    : "only run takes a command"));
    }
  }

  void take_long(const std::string& text) {
    const auto equals = text.find('=');
    const auto name = text.substr(0, equals);
    const auto* const spec = find_option(name, scope_);
    if (spec == nullptr || name.empty()) return unknown_option("--" + name, name);
    if (equals != std::string::npos) {
      if (spec->is_flag()) return refuse("--" + name + " takes no value; leave the = and what follows out");
      return take_value(*spec, text.substr(equals + 1));
    }
    if (spec->is_flag()) {
      ++at_;
      return take_flag(*spec);
    }
    take_next_word(*spec, "--" + name);
  }

  // -nq, -kKEY, -nk KEY: flags, then at most one option with a value.
  void take_cluster(const std::string& word) {
    for (std::size_t i = 1; i < word.size(); ++i) {
      const auto* const spec = find_option(word[i], scope_);
      if (spec == nullptr) return unknown_letter(word[i]);
      if (spec->is_flag()) {
        take_flag(*spec);
        if (done_) return;
        continue;
      }
      if (i + 1 < word.size()) return take_value(*spec, word.substr(i + 1));
      return take_next_word(*spec, std::string("-") + word[i]);
    }
    ++at_;
  }

  // No other word that may follow begins with a digit, and a duration does.
  [[nodiscard]] bool value_follows() const {
    return at_ + 1 < words_.size() && !words_[at_ + 1].empty() && words_[at_ + 1][0] >= '0' &&
           words_[at_ + 1][0] <= '9';
  }

  void take_next_word(const OptionSpec& spec, const std::string& spelled) {
    if (spec.may_lack_value() && !value_follows()) return take_value(spec, std::string(spec.remark));
    if (at_ + 1 >= words_.size()) return refuse(spelled + " needs a value (" + std::string(spec.value) + ")");
    const std::string& word = words_[at_ + 1];
    if (spec.names_something() && word.size() > 1 && word[0] == '-') {
      return refuse(spelled + " needs a value (" + std::string(spec.value) + "), and " +
                    quote_untrusted(word) + " looks like an option; should it be the value, write --" +
                    std::string(spec.name) + "=" + escape_untrusted(word));
    }
    ++at_;
    take_value(spec, word);
  }

  void take_value(const OptionSpec& spec, std::string value) {
    if (spec.name == "db") out_.database_words.push_back(at_);
    out_.options.push_back("--" + std::string(spec.name));
    out_.options.push_back(std::move(value));
    ++at_;
  }

  void take_flag(const OptionSpec& spec) {
    if (spec.name == "help" || spec.name == "version") {
      (spec.name == "help" ? out_.help : out_.version) = true;
      done_ = true;
    } else if (spec.name == "nonblock") {
      out_.options.insert(out_.options.end(), {"--wait", "0"});
    } else {
      out_.options.push_back("--" + std::string(spec.name));
    }
  }

  void unknown_subcommand(const std::string& word) {
    std::vector<std::string> names;
    for (const auto& spec : subcommand_specs()) {
      if (!spec.hidden) names.emplace_back(spec.name);
    }
    auto nearest = std::string(subcommand_meant(word));
    if (nearest.empty()) nearest = nearest_word(word, names);
    refuse("unknown subcommand \"" + escape_untrusted(word) + "\"; " +
           (nearest.empty() ? "dblock --help lists them" : "did you mean " + nearest + "?"));
  }

  void unknown_option(const std::string& spelled, const std::string& name) {
    const bool known_habit = !option_meant(name, scope_).empty();
    const auto* const elsewhere = name.empty() || known_habit ? nullptr : find_option(name, k_any);
    if (elsewhere == nullptr) {
      return refuse(command_prefix() + "unknown option " + escape_untrusted(spelled) +
                    suggest_option(name, scope_));
    }
    refuse_elsewhere(spelled, *elsewhere);
  }

  void unknown_letter(char letter) {
    const auto spelled = std::string("-") + letter;
    const auto* const elsewhere = find_option(letter, k_any);
    if (elsewhere == nullptr)
      return refuse(command_prefix() + "unknown option " + escape_untrusted(spelled) + "; --help lists them");
    refuse_elsewhere(spelled, *elsewhere);
  }

  void refuse_elsewhere(const std::string& spelled, const OptionSpec& spec) {
    if (!out_.subcommand) return refuse(spelled + " must stand after its subcommand");
    Scope scope = 0;  // several specs may share a name, with other words for other subcommands
    for (const auto& other : option_specs()) scope |= other.name == spec.name ? other.scope : Scope{0};
    refuse(command_prefix() + "unknown option " + spelled + " (it belongs to " + names_of(scope) + ")");
  }

  [[nodiscard]] std::string command_prefix() const {
    return out_.subcommand ? std::string(spec_of(*out_.subcommand).name) + ": " : std::string();
  }

  void refuse(std::string message) { out_.error = Error{Errc::usage, std::move(message)}; }

  const std::vector<std::string>& words_;
  std::size_t at_ = 0;
  Scope scope_ = k_global;
  bool done_ = false;
  SplitWords out_;
};

}  // namespace

SplitWords split_words(const std::vector<std::string>& words) {
  return Splitter(words).split();
}

std::string suggest_option(std::string_view name, Scope scope) {
  if (const auto meant = option_meant(name, scope); !meant.empty())
    return "; did you mean " + std::string(meant) + "?";
  std::vector<std::string> names;
  for (const auto& spec : option_specs()) {
    if ((spec.scope & scope) != 0) names.emplace_back(spec.name);
  }
  const auto nearest = nearest_word(name, names);
  return nearest.empty() ? std::string() : "; did you mean --" + nearest + "?";
}

}  // namespace dblock::cli
