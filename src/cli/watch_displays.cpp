#include "cli/watch_displays.hpp"

#include <unistd.h>

#include <string>
#include <utility>

#include "base/duration.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "cli/output.hpp"
#include "cli/report/picture.hpp"
#include "cli/report/report.hpp"
#include "cli/terminal.hpp"

namespace dblock::cli {
namespace {

class ScreenDisplay final : public app::WatchDisplay {
 public:
  ScreenDisplay(const app::InspectRequest& request, bool color, const Environment& environment)
      : environment_(environment), picture_({*request.watch, request.all, color}) {}

  Result<void> show(const Result<app::InspectReport>& answer) override {
    if (answer) {
      picture_.set_report(*answer);
      answered_at_ = BootClock::now();
    } else {
      picture_.set_trouble(escape_message(answer.error().message));
    }
    return redraw();
  }

  Result<void> wait_on(Nanos waited) override {
    picture_.set_trouble("no answer from the database for " +
                         format_age(std::chrono::duration_cast<Micros>(waited)));
    return redraw();
  }

  // Draws nothing while dblock is in the background. The next answer calls redraw() again.
  Result<void> redraw() override {
    if (!answered_at_) return {};
    drawing_ = terminal_.enter();
    if (!drawing_) return {};
    // The last column stays free: the cursor stays on the last character of a full line, and erasing the rest
    // of the line would erase that character.
    const std::size_t columns = columns_of_stdout(environment_) - 1;
    return terminal_.draw(picture_.lines(columns, terminal_.size().rows, BootClock::now() - *answered_at_));
  }

  void step_aside() noexcept override {
    terminal_.leave();
    drawing_ = false;
  }

  [[nodiscard]] int input() const override { return drawing_ ? terminal_.fd() : -1; }
  [[nodiscard]] int output() const override { return STDOUT_FILENO; }

  bool wants_end() override {
    constexpr std::string_view k_quits = "qQ\x03\x04";  // \x03 is Ctrl-C where it is no signal; \x04 Ctrl-D
    return terminal_.read_keys().find_first_of(k_quits) != std::string::npos;
  }

 private:
  const Environment& environment_;
  Terminal terminal_;
  Picture picture_;
  std::optional<BootTime> answered_at_;
  bool drawing_ = false;
};

class StreamDisplay final : public app::WatchDisplay {
 public:
  StreamDisplay(app::InspectRequest request, const OutputOptions& output, bool color,
                const Environment& environment)
      : request_(std::move(request)), output_(output), color_(color), environment_(environment) {}

  Result<void> show(const Result<app::InspectReport>& answer) override {
    if (!answer) {
      if (!std::exchange(in_trouble_, true))
        log::warning(answer.error().message + "; trying again at the next round");
      return {};
    }
    if (std::exchange(in_trouble_, false)) log::info("the database answers again");
    const bool first = std::exchange(first_, false);
    if (!output_.json && output_.shape == Shape::csv)
      return write_result((first ? csv_header() : "") + csv_rows(answer->listing));
    const auto text = report_inspected(*answer, request_, output_, color_, columns_of_stdout(environment_));
    return write_result(first || output_.json ? text : "\n" + text);
  }

  Result<void> wait_on(Nanos) override { return {}; }
  Result<void> redraw() override { return {}; }
  void step_aside() noexcept override {}
  [[nodiscard]] int input() const override { return -1; }
  [[nodiscard]] int output() const override { return STDOUT_FILENO; }
  bool wants_end() override { return false; }

 private:
  const app::InspectRequest request_;
  const OutputOptions output_;
  const bool color_;
  const Environment& environment_;
  bool first_ = true;
  bool in_trouble_ = false;
};

// TERM=dumb marks terminals that cannot move their cursor, like those inside editors.
bool is_screen(const Environment& environment) {
  const auto term = environment.get("TERM");
  return ::isatty(STDOUT_FILENO) == 1 && term && *term != "dumb";
}

}  // namespace

std::unique_ptr<app::WatchDisplay> make_watch_display(const app::InspectRequest& request,
                                                      const OutputOptions& output,
                                                      const Environment& environment) {
  const bool color = wants_color(output.color, environment);
  const bool table = !output.json && output.shape == Shape::table;
  if (table && is_screen(environment)) return std::make_unique<ScreenDisplay>(request, color, environment);
  return std::make_unique<StreamDisplay>(request, output, color, environment);
}

}  // namespace dblock::cli
