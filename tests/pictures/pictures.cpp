// Makes the pictures of README.md and tests/README.md out of real sessions, on a server of their own.
// usage: dblock_pictures DIRECTORY
#include <chrono>
#include <fstream>
#include <iostream>
#include <memory>

#include "pictures/night.hpp"
#include "pictures/screen.hpp"
#include "support/config.hpp"
#include "support/dblock.hpp"
#include "support/pty.hpp"

namespace dblock::test {
namespace {

constexpr unsigned short k_columns = 120;

// People and machines of a small firm, all of them on this one.
class Firm {
 public:
  Firm() : database_(server_.address()) {}

  // Runs `job`, a script that takes `length`, on the machine and in the name of `who`.
  void run(const std::string& who, const std::string& key, const Words& options, const std::string& job,
           std::chrono::seconds length) {
    script(job, "sleep " + std::to_string(length.count()));
    Spawn spawn = dblock_spawn(database_, run_words(key, options, {"./" + job}), {"DBLOCK_HOLDER=" + who});
    const Words in_checkout{"/bin/sh", "-c", R"(cd "$0" && exec "$@")", checkout_.path()};
    spawn.argv.insert(spawn.argv.begin(), in_checkout.begin(), in_checkout.end());
    jobs_.push_back(std::make_unique<Process>(spawn));
  }
  void script(const std::string& name, const std::string& line) {
    write_file(checkout_.file(name), "#!/bin/sh\n" + line + "\n", 0755);
  }
  [[nodiscard]] ServerDatabase& database() { return database_; }

  // An interactive shell in which dblock is the command to type.
  [[nodiscard]] std::unique_ptr<Terminal> shell(const std::string& who) {
    auto terminal = std::make_unique<Terminal>(
        interactive_bash(), Words{"TERM=xterm", "DBLOCK_HOLDER=" + who, "DBLOCK_DB=" + database_.url()},
        k_columns);
    terminal->send("cd " + checkout_.path() + "; bind 'set enable-bracketed-paste off'; dblock() { " +
                   dblock_binary() + R"( "$@"; }; PS1='$ '; clear)" + "\n");
    if (!terminal->shows("\x1b[H\x1b[2J")) throw std::runtime_error("bash does not clear its screen");
    return terminal;
  }

 private:
  TempDir checkout_;
  Server server_;
  ServerDatabase database_;
  std::vector<std::unique_ptr<Process>> jobs_;
};

Moment moment_of(const Terminal& terminal, const std::string& title) {
  Screen screen(24, k_columns);
  screen.write(terminal.screen());
  return {screen, title};
}

void save(const std::string& path, const std::vector<Moment>& moments) {
  std::ofstream file(path);
  file << to_svg(moments);
  if (!file.flush()) throw std::runtime_error("cannot write " + path);
}

void see(Terminal& terminal, const std::string& text, std::chrono::seconds limit = 60s) {
  if (!terminal.shows(text, limit))
    throw std::runtime_error("never shown: " + text + "\n" + terminal.screen());
}

void waiting_in_line(Firm& firm, const std::string& directory) {
  firm.run("ci@runner-7", "deploy-prod", {}, "deploy-v41.sh", 16s);
  if (!wait_until([&] { return firm.database().has_holder("deploy-prod"); }))
    throw std::runtime_error("no holder");
  firm.run("ci@runner-3", "deploy-prod", {"--wait", "5m"}, "deploy-v42.sh", 1s);
  firm.script("deploy.sh", "echo deploying, fencing token $DBLOCK_TOKEN");
  const auto terminal = firm.shell("anna@laptop");
  pause_for(1s);  // so that the other one is first in line
  terminal->send("dblock run --key deploy-prod --wait 10m -- ./deploy.sh\n");
  see(*terminal, "waiting 12s");
  see(*terminal, ", expires in ");  // the rest of the line
  const Moment waiting = moment_of(*terminal, "the lock is held: one line, redrawn every second");
  see(*terminal, "deploying, fencing token ");
  see(*terminal, "$ ");
  save(directory + "/waiting.svg", {waiting, moment_of(*terminal, "our turn: the job runs")});
}

void watching(Firm& firm, const std::string& directory) {
  firm.run("etl@db-host-2", "nightly-etl", {"--heartbeat", "1s", "--note", "full load"}, "etl.sh", 60s);
  firm.run("etl@db-host-1", "reports", {"--shared"}, "report.sh", 60s);
  firm.run("anna@laptop", "reports", {"--shared"}, "query.sh", 60s);
  firm.run("ci@runner-3", "deploy-prod", {"--wait", "1m", "--note", "pipeline 4712"}, "deploy.sh", 60s);
  const auto terminal = firm.shell("anna@laptop");
  pause_for(5s);  // for times that differ
  terminal->send("dblock inspect --watch\n");
  for (int drawn = 0; drawn < 5; ++drawn) see(*terminal, "nightly-etl");
  firm.run("root@db-host-3", "backup", {}, "backup.sh", 60s);
  see(*terminal, "backup");
  see(*terminal, "full load");  // in the last line but one
  see(*terminal, "anna@laptop");
  save(directory + "/watch.svg", {moment_of(*terminal, "inspect --watch: who holds what, redrawn in place")});
}

}  // namespace
}  // namespace dblock::test

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: dblock_pictures DIRECTORY\n";
    return 2;
  }
  try {
    dblock::test::Firm firm;
    dblock::test::waiting_in_line(firm, argv[1]);
    dblock::test::watching(firm, argv[1]);
    dblock::test::draw_night(firm.database().server(), argv[1]);
  } catch (const std::exception& e) {
    std::cerr << "dblock_pictures: " << e.what() << "\n";
    return 1;
  }
  return 0;
}
