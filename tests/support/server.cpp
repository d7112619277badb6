#include "support/server.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>

#include "support/database.hpp"
#include "support/proc_tree.hpp"
#include "support/process.hpp"

namespace dblock::test {
namespace {

// sockaddr_un holds 108 bytes with the final NUL.
constexpr std::size_t k_longest_socket_path = 107;

// Small and quick, with the durability that survives a killed process (not a power cut). Memory that a server
// only prepares takes most of the time of its start.
const std::vector<std::string> k_options{
    "--bind-address=127.0.0.1",
    "--skip-log-bin",
    "--innodb-buffer-pool-size=32M",
    "--loose-innodb-log-file-size=8M",
    "--innodb-log-buffer-size=2M",
    "--loose-aria-pagecache-buffer-size=8M",
    "--key-buffer-size=1M",
    "--innodb-flush-log-at-trx-commit=2",
    "--innodb-use-native-aio=0",
    "--performance-schema=OFF",
    "--skip-name-resolve",
    "--max-connections=300",
    "--skip-slave-start",
};

// An initialised data directory, made once per build tree and copied by every server.
const std::string& template_directory() {
  static const std::string path = [] {
    const std::string final_path = state_dir() + "/" + server_kind().name_of_template;
    const int lock = ::open((final_path + ".lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (lock < 0 || ::flock(lock, LOCK_EX) != 0) throw std::runtime_error("cannot lock the server template");
    if (!std::filesystem::exists(final_path)) {
      const std::string fresh = final_path + ".new";
      std::filesystem::remove_all(fresh);
      std::vector<std::string> argv = server_kind().initialise;
      argv.insert(argv.end(), {"--datadir=" + fresh, server_user_option()});
      const auto made = run_program({.argv = argv}, 120s);
      if (made.exit != exited(0)) throw std::runtime_error(argv.front() + " failed: " + made.out + made.err);
      std::filesystem::remove(fresh + "/auto.cnf");  // a MySQL server's identity, which copies must not share
      std::filesystem::rename(fresh, final_path);
    }
    ::close(lock);
    return final_path;
  }();
  return path;
}

// A case of the embedded store must run where no server is installed.
void refuse_in_local_run() {
  if (local_run()) throw std::logic_error("this case needs a server: tag it [server]");
}

int free_port() {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  const bool bound = ::bind(fd, reinterpret_cast<sockaddr*>(&address), size) == 0 &&
                     ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) == 0;
  ::close(fd);
  if (!bound) throw std::runtime_error("no free port");
  return ntohs(address.sin_port);
}

}  // namespace

const std::vector<std::string>& server_options() {
  return k_options;
}
std::string server_user_option() {
  return ::geteuid() == 0 ? "--user=root" : "--skip-symbolic-links";
}
std::vector<std::string> account_statements() {
  auto statements = server_kind().removals;
  statements.insert(statements.end(),
                    {"CREATE USER IF NOT EXISTS root@'%'", "GRANT ALL ON *.* TO root@'%' WITH GRANT OPTION",
                     "CREATE USER IF NOT EXISTS app@'%'", "CREATE USER IF NOT EXISTS owner@'%'",
                     "GRANT ALL ON `t\\_%`.* TO owner@'%'"});
  return statements;
}
const std::string& server_template() {
  return template_directory();
}

std::string ServerAddress::url(const std::string& database, const std::string& user) const {
  return "mysql://" + user + "@localhost/" + database + "?socket=" + socket;
}

std::string ServerAddress::tcp_url(const std::string& database, const std::string& user) const {
  return "mysql://" + user + "@127.0.0.1:" + std::to_string(port) + "/" + database;
}

Server::Server(std::vector<std::string> extra_options)
    : directory_(state_dir()), extra_options_(std::move(extra_options)) {
  refuse_in_local_run();
  address_.socket = directory_.file("sock");
  if (address_.socket.size() > k_longest_socket_path) {
    const char* temporary = std::getenv("TMPDIR");
    socket_directory_ = std::make_unique<TempDir>(temporary != nullptr ? temporary : "/tmp");
    address_.socket = socket_directory_->file("sock");
  }
  const auto copied =
      run_program({.argv = {"cp", "-a", "--reflink=auto", template_directory(), data()}}, 60s);
  if (copied.exit != exited(0)) throw std::runtime_error("cannot copy the server template: " + copied.err);
  std::string accounts;
  for (const auto& statement : account_statements()) accounts += statement + ";\n";
  write_file(directory_.file("init.sql"), accounts);
  start();
}

Server::~Server() {
  if (pid_ < 0) return;
  ::kill(pid_, SIGKILL);
  reap();
}

void Server::start(const std::vector<std::string>& env) {
  const bool choose_port = address_.port == 0;
  for (int attempt = 0; attempt < 5; ++attempt) {
    if (choose_port) address_.port = free_port();  // may be taken before mariadbd binds it: then try another
    if (try_start(env)) return;
  }
  throw std::runtime_error("the server does not start: " + read_file(directory_.file("error.log")));
}

bool Server::try_start(const std::vector<std::string>& env) {
  // Temporary tables not in /tmp: a server that starts removes all it finds there, others' too.
  std::vector<std::string> words{server_kind().program,
                                 "--no-defaults",
                                 server_user_option(),
                                 "--datadir=" + data(),
                                 "--socket=" + address_.socket,
                                 "--port=" + std::to_string(address_.port),
                                 "--pid-file=" + directory_.file("pid"),
                                 "--tmpdir=" + directory_.path(),
                                 "--log-error=" + directory_.file("error.log"),
                                 "--init-file=" + directory_.file("init.sql")};
  words.insert(words.end(), k_options.begin(), k_options.end());
  words.insert(words.end(), server_kind().options.begin(), server_kind().options.end());
  words.insert(words.end(), extra_options_.begin(), extra_options_.end());
  std::vector<std::string> environment(env);
  for (char** each = ::environ; *each != nullptr; ++each) environment.emplace_back(*each);
  const auto argv = pointers_to(words);
  const auto variables = pointers_to(environment);

  const pid_t parent = ::getpid();
  const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  pid_ = ::fork();
  if (pid_ < 0) throw std::runtime_error("cannot fork");
  if (pid_ == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(1);
    ::setsid();  // a terminal's Ctrl-C is for the test, which then stops us
    for (int fd = 0; fd < 3; ++fd) ::dup2(null, fd);
    ::execve(argv[0], argv.data(), variables.data());
    ::_exit(1);
  }
  ::close(null);
  bool ended = false;
  const bool ready = wait_until(
      [&] {
        ended = ::waitpid(pid_, nullptr, WNOHANG) == pid_;
        return ended || Connection::can_connect(address_, "app");
      },
      60s);
  if (ready && !ended) return true;
  if (!ended) ::kill(pid_, SIGKILL), reap();
  pid_ = -1;
  return false;
}

void Server::reap() {
  if (pid_ > 0) ::waitpid(pid_, nullptr, 0);
  pid_ = -1;
}

void Server::stop_gracefully() {
  ::kill(pid_, SIGTERM);
  reap();
}

void Server::stop_hard() {
  ::kill(pid_, SIGKILL);
  reap();
}

void Server::freeze() const {
  test::freeze(pid_);
}
void Server::thaw() const {
  ::kill(pid_, SIGCONT);
}

const ServerAddress& shared_server() {
  refuse_in_local_run();
  static std::unique_ptr<Server> own;
  static const ServerAddress address = []() -> ServerAddress {
    if (const char* directory = std::getenv("DBLOCK_TEST_SERVER")) {
      std::ifstream in(std::string(directory) + "/address");
      ServerAddress found;
      if (in >> found.socket >> found.port && Connection::can_connect(found, "app")) return found;
    }
    own = std::make_unique<Server>();
    return own->address();
  }();
  return address;
}

}  // namespace dblock::test
