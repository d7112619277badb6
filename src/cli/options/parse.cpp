#include "cli/options/parse.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <span>
#include <utility>

#include "base/text.hpp"

namespace dblock::cli {
namespace {

struct Stop {};  // thrown through CLI11 to stop reading words: after --help, --version or a fault

constexpr char k_mark = '\0';  // no word of argv can contain this character

// CLI11 would read --key= as --key with the next word, -q-x as -q --x, run.key as an option of run, and ++ as
// a subcommand's end. A mark inside such words prevents that: each '=' is followed by a mark, and each word
// that is neither option nor subcommand begins with one.
std::string marked(const std::string& word) {
  if (word.size() < 2 || word[0] != '-') return find_subcommand(word) ? word : k_mark + word;
  const bool is_long = word[1] == '-';
  std::string out;
  for (const char c : word) {
    if (c == '.' || (c == '-' && !is_long && !out.empty())) out += k_mark;
    out += c;
    if (c == '=') out += k_mark;
  }
  return out;
}

std::string unmarked(std::string word) {
  std::erase(word, k_mark);
  return word;
}

class Parser {
 public:
  explicit Parser(std::vector<std::string> words) {
    out_.words = std::move(words);
    end_ = static_cast<std::size_t>(std::ranges::find(out_.words, "--") - out_.words.begin());
    for (auto i = end_; i-- > 0;) unread_.push_back(marked(out_.words[i]));
  }

  ParsedWords parse() {
    try {
      parser_.set_help_flag();
      parser_.prefix_command()->fallthrough()->require_subcommand(0, 1);
      declare_options(parser_, k_global);
      declare_subcommands();
      parser_.parse(unread_);
    } catch (const Stop&) {
      return finished();
    } catch (const CLI::ArgumentMismatch&) {
      if (parser_.remaining_size() == 0) refuse_missing_value();
    }
    return finished();
  }

 private:
  ParsedWords finished() {
    if (!out_.error && !out_.help && !out_.version) take_rest();
    return std::move(out_);
  }

  // Declares only the options that some word may mean: declaring all of them takes longer than parsing.
  void declare_options(CLI::App& app, Scope scope) {
    for (const auto& spec : option_specs()) {
      if ((spec.scope & scope) == 0 || !may_be_typed(spec)) continue;
      auto names = "--" + std::string(spec.name);
      if (spec.letter != 0) names += std::string(",-") + spec.letter;
      app.add_option(names, CLI::callback_t([this, &spec](const CLI::results_t& values) {
                       take(spec, values.front());
                       return true;
                     }))
          ->expected(spec.is_flag() || spec.may_lack_value() ? 0 : 1)
          ->trigger_on_parse();
    }
  }

  [[nodiscard]] bool may_be_typed(const OptionSpec& spec) const {
    return std::ranges::any_of(std::span(out_.words).first(end_), [&](std::string_view word) {
      if (word.starts_with("--")) return word.substr(2).starts_with(spec.name);
      return spec.letter != 0 && word.starts_with('-') && word.find(spec.letter) != std::string_view::npos;
    });
  }

  void declare_subcommands() {
    for (const auto& spec : subcommand_specs()) {
      if (std::ranges::find(unread_, spec.name) == unread_.end()) continue;
      auto* const subcommand = parser_.add_subcommand(std::string(spec.name));
      subcommand->preparse_callback([this, subcommand, &spec](std::size_t) {
        stop_behind_fault();
        out_.subcommand = spec.id;
        declare_options(*subcommand, scope_of(spec.id));
      });
    }
  }

  // Stops at the first unknown option; CLI11 itself would go on behind it.
  void stop_behind_fault() const {
    if (parser_.remaining_size() > 0) throw Stop{};
  }

  // CLI11 calls this for each option that it reads. `unread_` holds the words behind it, last one first.
  void take(const OptionSpec& spec, const std::string& marked_value) {
    stop_behind_fault();
    auto word = end_ - unread_.size() - 1;
    const bool behind_equals = marked_value.find(k_mark) != std::string::npos;
    if (spec.is_flag()) {
      if (!behind_equals) return take_flag(spec, word);
      stop("--" + std::string(spec.name) + " takes no value; leave out the = and what follows");
    }
    auto value = unmarked(marked_value);
    if (spec.may_lack_value() && !behind_equals) {
      value = spec.default_note;
      if (digit_follows(word)) {
        value = out_.words[++word];
        unread_.pop_back();
      }
    }
    if (spec.value.kind == Kind::name && value.size() > 1 && value[0] == '-' && value == out_.words[word]) {
      stop(needs_value(spec, word - 1) + ", and " + quote_untrusted(value) +
           " looks like an option; should it be the value, write --" + std::string(spec.name) + "=" +
           escape_untrusted(value));
    }
    out_.options.push_back({spec.name, std::move(value), word});
  }

  // True if the next word begins with a digit. Behind an option whose value may be missing only a duration
  // does: no option and no subcommand begins with a digit.
  [[nodiscard]] bool digit_follows(std::size_t word) const {
    if (unread_.empty()) return false;
    const char first = out_.words[word + 1][0];
    return first >= '0' && first <= '9';
  }

  void take_flag(const OptionSpec& spec, std::size_t word) {
    if (spec.name == "help") ask_for_help();
    if (spec.name == "version") out_.version = true;
    if (out_.help || out_.version) throw Stop{};
    const bool nonblock = spec.name == "nonblock";
    out_.options.push_back({nonblock ? "wait" : spec.name, nonblock ? "0" : "true", word});
  }

  // `dblock --help run` asks about run.
  void ask_for_help() {
    out_.help = true;
    if (!out_.subcommand && !unread_.empty()) out_.subcommand = find_subcommand(unread_.back());
  }

  // Handles the words that CLI11 left over: none, the job's words, or a faulty word and the words behind it.
  void take_rest() {
    const auto rest = parser_.remaining();
    if (!rest.empty() && rest.front()[0] == '-') return refuse_option(rest.front());
    const bool dashes = rest.empty() && end_ < out_.words.size();
    if (!out_.subcommand) {
      if (!rest.empty()) return refuse_subcommand(unmarked(rest.front()));
      out_.no_subcommand = !dashes;
      return refuse(dashes ? "the subcommand must come before --"
                           : "no subcommand; dblock --help lists them");
    }
    const auto job = std::span(out_.words).subspan(end_ - rest.size() + (dashes ? 1 : 0));
    out_.job.assign(job.begin(), job.end());
    if (!takes_words(*out_.subcommand) && !out_.job.empty()) refuse_argument(out_.job.front());
  }

  // The word at `index` ends with the option: "--key", "-k" or "-qk".
  [[nodiscard]] std::string needs_value(const OptionSpec& spec, std::size_t index) const {
    const auto& word = out_.words[index];
    const auto option = word.starts_with("--") ? word : std::string("-") + word.back();
    return option + " needs a value (" + std::string(spec.value.shown) + ")";
  }

  void refuse_missing_value() {
    const std::string_view word = out_.words[end_ - 1];
    const auto* const spec =
        word.starts_with("--") ? find_option(word.substr(2), scope()) : find_option(word.back(), scope());
    refuse(needs_value(*spec, end_ - 1));
  }

  void refuse_argument(const std::string& argument) {
    const std::string word = escape_untrusted(argument);
    refuse(command_prefix() + "takes no argument \"" + word + "\"; " +
           (find_option("key", scope()) != nullptr ? "for the name of a lock write --key " + word
                                                   : "only run takes a command"));
  }

  void refuse_subcommand(const std::string& word) { refuse(unknown_subcommand(word)); }

  // `marked_word`: "--name", "--name=value", or a cluster like -qx from its first unknown letter on ("-x").
  void refuse_option(const std::string& marked_word) {
    const bool is_long = marked_word.starts_with("--");
    const auto word = unmarked(marked_word);
    const auto spelled = word.substr(0, is_long ? word.find('=') : 2);
    const auto name = is_long ? spelled.substr(2) : std::string();
    const bool known_habit = is_long && !option_meant(name, scope()).empty();
    const auto* const elsewhere = is_long ? find_option(name, k_any) : find_option(word[1], k_any);
    if (elsewhere == nullptr || known_habit) {
      return refuse(command_prefix() + "unknown option " + escape_untrusted(spelled) +
                    (is_long ? suggest_option(name, scope()) : "; --help lists them"));
    }
    if (!out_.subcommand) return refuse(spelled + " must come after its subcommand");
    Scope owners = 0;  // several specs may share a name, each for other subcommands
    for (const auto& spec : option_specs()) owners |= spec.name == elsewhere->name ? spec.scope : Scope{0};
    refuse(command_prefix() + "unknown option " + spelled + " (it belongs to " + names_of(owners) + ")");
  }

  [[nodiscard]] Scope scope() const { return scope_with(out_.subcommand); }

  [[nodiscard]] std::string command_prefix() const {
    return out_.subcommand ? std::string(spec_of(*out_.subcommand).name) + ": " : std::string();
  }

  [[noreturn]] void stop(std::string message) {
    refuse(std::move(message));
    throw Stop{};
  }

  void refuse(std::string message) { out_.error = Error{Errc::usage, std::move(message)}; }

  CLI::App parser_;
  std::size_t end_ = 0;  // index of the first bare --; only words before it are parsed
  std::vector<std::string>
      unread_;  // the words before end_, marked, last one first; CLI11 pops from the back
  ParsedWords out_;
};

}  // namespace

ParsedWords parse_words(std::vector<std::string> words) {
  return Parser(std::move(words)).parse();
}

std::string unknown_subcommand(const std::string& word) {
  std::vector<std::string> names;
  for (const auto& spec : subcommand_specs()) {
    if (!spec.hidden) names.emplace_back(spec.name);
  }
  auto nearest = std::string(subcommand_meant(word));
  if (nearest.empty()) nearest = nearest_word(word, names);
  return "unknown subcommand \"" + escape_untrusted(word) + "\"; " +
         (nearest.empty() ? "dblock --help lists them" : "did you mean " + nearest + "?");
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
