// A private server, of the kind that the run is about: own data directory, Unix socket and loopback port,
// gone with its owner.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "support/config.hpp"
#include "support/server_kind.hpp"

namespace dblock::test {

// Where a server listens. Accounts: root, all-powerful; owner, all rights on databases named t_*, no more;
// app, for jobs, with what each database grants it (database.hpp). None has a password.
struct ServerAddress {
  std::string socket;
  int port = 0;

  [[nodiscard]] std::string url(const std::string& database, const std::string& user = "app") const;
  [[nodiscard]] std::string tcp_url(const std::string& database, const std::string& user = "app") const;
};

// Small and quick, with the durability that survives a killed process (not a power cut).
[[nodiscard]] const std::vector<std::string>& server_options();
// Whom the server runs as, where it is started as root.
[[nodiscard]] std::string server_user_option();
// SQL that makes the accounts of ServerAddress.
[[nodiscard]] std::vector<std::string> account_statements();
// An initialised data directory, made once per build tree and copied by every server.
[[nodiscard]] const std::string& server_template();

// One server. Start it on the thread that will outlive it: it dies with that thread (PR_SET_PDEATHSIG), so
// that a crashed test leaves none behind.
class Server {
 public:
  explicit Server(std::vector<std::string> extra_options = {});
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Ready for connections on return; same port and socket each time. `env` is added to the test's own.
  void start(const std::vector<std::string>& env = {});
  void stop_gracefully();  // SIGTERM, as `systemctl stop` does
  void stop_hard();        // SIGKILL
  void freeze() const;     // SIGSTOP: connections stay, nothing answers
  void thaw() const;

  [[nodiscard]] const ServerAddress& address() const { return address_; }
  [[nodiscard]] const std::string& directory() const { return directory_.path(); }
  [[nodiscard]] std::string data() const { return directory_.file("data"); }

 private:
  [[nodiscard]] bool try_start(const std::vector<std::string>& env);
  void reap();

  TempDir directory_;
  std::unique_ptr<TempDir> socket_directory_;  // when the path in the build tree is too long for a socket
  std::vector<std::string> extra_options_;
  ServerAddress address_;
  pid_t pid_ = -1;
};

// The server that the whole suite shares: CTest's fixture where it runs, else one for this process, started
// now. Never stop, freeze or reconfigure it.
[[nodiscard]] const ServerAddress& shared_server();

}  // namespace dblock::test
