// What people put between dblock and its database: HAProxy, nginx, stunnel, an ssh tunnel. They cut idle
// connections, are reloaded, limit the server's connections, and go on to another server. Behind each of them
// the lock is exclusive, the job that runs keeps it, and the line keeps its order.
#include <algorithm>
#include <functional>
#include <memory>

#include "support/catch.hpp"
#include "support/certificates.hpp"
#include "support/dblock.hpp"
#include "support/live_run.hpp"
#include "support/nodes.hpp"
#include "support/privilege.hpp"
#include "support/proxy.hpp"
#include "support/replication.hpp"
#include "support/steps.hpp"

namespace dblock::test {
namespace {

constexpr const char* k_haproxy = "/usr/sbin/haproxy";
constexpr const char* k_nginx = "/usr/sbin/nginx";
constexpr const char* k_nginx_stream = "/usr/lib/nginx/modules/ngx_stream_module.so";
constexpr const char* k_sshd = "/usr/sbin/sshd";
constexpr const char* k_stunnel = "/usr/bin/stunnel4";

// Cuts a connection on which nothing has come for a second: earlier than a
// holder's next renewal.
class RealProxy {
 public:
  RealProxy() = default;
  virtual ~RealProxy() = default;
  RealProxy(const RealProxy&) = delete;
  RealProxy& operator=(const RealProxy&) = delete;

  // As its operator does it. Connections that are open end within a second or two, if not at once.
  virtual void reload() = 0;

  [[nodiscard]] std::string url(const std::string& database, const std::string& user = "app") const {
    return "mysql://" + user + "@" + on_loopback(port) + "/" + database;
  }
  // Waits until dblock reaches the database through it.
  void await(const std::string& database) const {
    Finished seen;
    const bool reached = wait_until([&] {
      seen = dblock_at(url(database), {"inspect", "--key", "k"});
      return seen.exit == exited(0);
    });
    INFO(process->out() << process->err() << seen.err);
    REQUIRE(reached);
  }

 protected:
  [[nodiscard]] std::string file(const std::string& name) const { return directory.file(name); }
  void start(const Words& words) {
    process.reset();
    process = std::make_unique<Process>(Spawn{.argv = words, .ends_with_test = true});
  }

  const int port = free_ports(1);
  TempDir directory;
  std::unique_ptr<Process> process;
};

class HaProxy : public RealProxy {
 public:
  struct Options {
    std::string idle = "1s";
    std::string of_server{};  // words about its connections
    int backup = 0;           // the port of the server that is asked while the first one is down
  };
  explicit HaProxy(const ServerAddress& server) : HaProxy(server, Options{}) {}
  HaProxy(const ServerAddress& server, const Options& options) {
    std::string text =
        "global\n  hard-stop-after 1s\ndefaults\n  mode tcp\n  timeout connect 2s\n  timeout client " +
        options.idle + "\n  timeout server " + options.idle + "\nlisten mysql\n  bind " + on_loopback(port) +
        "\n  server first " + on_loopback(server.port) + " " + options.of_server;
    if (options.backup != 0)
      text += " check inter 100ms on-marked-down shutdown-sessions\n  server second " +
              on_loopback(options.backup) + " check inter 100ms backup";
    write_file(file("haproxy.cfg"), text + "\n");
    start({k_haproxy, "-W", "-f", file("haproxy.cfg")});
  }
  void reload() override { process->signal(SIGUSR2); }
};

class Nginx : public RealProxy {
 public:
  explicit Nginx(const ServerAddress& server) {
    write_file(file("nginx.conf"), "load_module " + std::string(k_nginx_stream) +
                                       ";\n"
                                       "daemon off; master_process off;\n"
                                       "pid " +
                                       file("pid") +
                                       "; error_log stderr;\n"
                                       "events {}\n"
                                       "stream { server { listen " +
                                       on_loopback(port) + "; proxy_pass " + on_loopback(server.port) +
                                       "; proxy_timeout 1s; } }\n");
    reload();
  }
  // A restart: in one process, which leaves no worker behind when it is killed.
  void reload() override { start({k_nginx, "-e", "stderr", "-c", file("nginx.conf")}); }
};

// One on the job's host and one on the server's, with TLS between them.
class Stunnel : public RealProxy {
 public:
  explicit Stunnel(const ServerAddress& server) {
    const std::string between = on_loopback(free_ports(1));
    write_file(file("stunnel.conf"),
               "foreground = yes\npid =\nTIMEOUTidle = 1\n"
               "[near]\nclient = yes\naccept = " +
                   on_loopback(port) + "\nconnect = " + between + "\nverifyChain = yes\nCAfile = " +
                   certificates_.authority() + "\n[far]\naccept = " + between +
                   "\nconnect = " + on_loopback(server.port) + "\ncert = " + certificates_.file("good.pem") +
                   "\nkey = " + certificates_.file("good.key") + "\n");
    reload();
  }
  // Its own reload leaves connections alone; this is a restart.
  void reload() override { start({k_stunnel, file("stunnel.conf")}); }

 private:
  Certificates certificates_;
};

// `ssh -L`, to an sshd that ends idle channels.
class SshTunnel : public RealProxy {
 public:
  explicit SshTunnel(const ServerAddress& server)
      : forward_(on_loopback(port) + ":" + on_loopback(server.port)) {
    REQUIRE(run_program({.argv = sh("ssh-keygen -q -t ed25519 -N '' -f " + file("key"))}).exit == exited(0));
    // It refuses to start without a directory of its own there.
    const std::string in_namespace =
        "mount -t tmpfs tmpfs /run && mkdir /run/sshd && exec " + std::string(k_sshd) +
        " -D -e -f /dev/null -h " + file("key") + " -p " + sshd_port_ +
        " -o ListenAddress=127.0.0.1 -o AuthorizedKeysFile=" + file("key.pub") +
        " -o StrictModes=no -o PidFile=none" + " -o ChannelTimeout=direct-tcpip=1s";
    sshd_ = std::make_unique<Process>(
        Spawn{.argv = with({"/usr/bin/unshare", "--mount"}, sh(in_namespace)), .ends_with_test = true});
    REQUIRE(soon_says(*sshd_, "Server listening"));
    reload();
  }
  // sshd writes its title over the mark by which a tree is found; its sessions end with their connections.
  ~SshTunnel() override {
    process.reset();
    sshd_->signal(SIGKILL);
    static_cast<void>(sshd_->wait());
  }
  void reload() override {
    start({"/usr/bin/ssh", "-N", "-F", "/dev/null", "-p", sshd_port_, "-i", file("key"), "-o",
           "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-L", forward_, "127.0.0.1"});
  }

 private:
  const std::string sshd_port_ = std::to_string(free_ports(1));
  const std::string forward_;
  std::unique_ptr<Process> sshd_;
};

// A holder, and waiters whose jobs say when they run, through a proxy.
class LineBehind {
 public:
  // Each run asks for its URL.
  LineBehind(const ServerDatabase& database, std::function<std::string()> url, const std::string& ttl = "12s")
      : database_(database),
        url_(std::move(url)),
        holder_(url_(), {"-v", "--ttl", ttl, "--heartbeat", "2s"}) {}
  LineBehind(const ServerDatabase& database, const std::string& url, const std::string& ttl = "12s")
      : LineBehind(
            database, [url] { return url; }, ttl) {}

  void join(int count) {
    for (int i = 0; i < count; ++i) {
      expected_.push_back("waiter-" + std::to_string(expected_.size()));
      const Words command = sh("echo " + expected_.back() + " >>" + holder_.file("log"));
      waiters_.emplace_back(dblock_spawn_at(url_(), run_words("k", {"-v", "--wait", "300s"}, command)));
      INFO(waiters_.back().err());
      REQUIRE(soon_in_line(database_, expected_.size()));
    }
  }
  void await_renewals(int count) const {
    for (int i = 0; i < count; ++i) await_renewal(database_);
  }
  // The holder's job ends well, and then the waiters' jobs run in the order of their coming.
  void check_order() {
    CHECK(lines(read_file(holder_.file("log"))).empty());
    INFO(holder_.err());
    CHECK(holder_.end() == exited(0));
    check_all_succeed(waiters_, 90s * slowness());
    CHECK(lines(read_file(holder_.file("log"))) == expected_);
  }

 private:
  const ServerDatabase& database_;
  const std::function<std::string()> url_;
  LiveRun holder_;
  std::vector<Process> waiters_;
  Words expected_;
};

template <class Kind>
void check_idle_cuts_and_reload() {
  ServerDatabase database;
  Kind proxy(database.server());
  proxy.await(database.name());
  LineBehind line(database, proxy.url(database.name()));
  const Words of_holder = database.sessions();
  line.join(3);
  line.await_renewals(2);
  for (const auto& session : database.sessions()) CHECK(std::ranges::count(of_holder, session) == 0);
  proxy.reload();
  line.await_renewals(2);
  line.check_order();
}

TEST_CASE(
    "behind an HAProxy that cuts idle connections and is reloaded a job keeps its lock, the line its order",
    "[server][mariadb][safety][once]") {
  DBLOCK_NEEDS(why_no_program(k_haproxy));
  check_idle_cuts_and_reload<HaProxy>();
}

TEST_CASE("so they do behind an nginx", "[server][mariadb][safety][once]") {
  DBLOCK_NEEDS(why_no_program(k_nginx));
  check_idle_cuts_and_reload<Nginx>();
}

TEST_CASE("so they do through two stunnels with TLS between them", "[server][mariadb][safety][once]") {
  DBLOCK_NEEDS(why_no_program(k_stunnel));
  check_idle_cuts_and_reload<Stunnel>();
}

TEST_CASE("so they do through an ssh tunnel", "[server][mariadb][safety][once]") {
  DBLOCK_NEEDS(why_no_program(k_sshd));
  DBLOCK_NEEDS(why_no_mount_namespace());
  check_idle_cuts_and_reload<SshTunnel>();
}

// No client can read this limit: further connections wait at the proxy, while sleeping waiters keep theirs.
TEST_CASE(
    "behind a proxy that opens three connections to the server a job keeps its lock, and all who wait run",
    "[server][mariadb][safety][once]") {
  DBLOCK_NEEDS(why_no_program(k_haproxy));
  ServerDatabase database;
  const HaProxy proxy(database.server(), {.idle = "60s", .of_server = "maxconn 3"});
  proxy.await(database.name());
  const std::string url = proxy.url(database.name());
  LiveRun holder(url, {"-v", "--ttl", "12s", "--heartbeat", "2s"});
  std::vector<Process> waiters;
  for (int i = 0; i < 6; ++i)
    waiters.emplace_back(dblock_spawn_at(url, run_words("k", {"-v", "--wait", "300s"}, {"true"})));
  REQUIRE(wait_until([&] { return database.line().size() >= 2; }));
  for (int renewals = 0; renewals < 3; ++renewals) await_renewal(database);
  INFO(holder.err());
  CHECK(holder.end() == exited(0));
  check_all_succeed(waiters, 120s * slowness());
}

// The first server dies, and the proxy goes on to its replica.
TEST_CASE(
    "a proxy's backup server grants nothing before its promotion, and then the line goes on in its order",
    "[server][mariadb][safety][once]") {
  DBLOCK_NEEDS(why_no_program(k_haproxy));
  ReplicatingPair pair;
  const HaProxy proxy(pair.primary.address(), {.backup = pair.replica.address().port});
  const std::string url = proxy.url(pair.database->name());
  proxy.await(pair.database->name());
  LineBehind line(*pair.database, url, "60s");
  line.join(3);
  const std::string token = pair.column(pair.primary, "k", "token");
  await_caught_up(pair.replica, pair.primary);
  pair.primary.stop_hard();
  proxy.await(pair.database->name());
  check_ended(dblock_at(url, run_words("other", {"--wait", "1s"}, {"true"})), 69);
  promote(pair.replica);
  pair.await_renewal(pair.replica, "k");
  CHECK(pair.column(pair.replica, "k", "token") == token);
  line.check_order();
}

// Each run has a proxy of its own: the stand-in does one thing at a time.
TEST_CASE(
    "behind proxies that move a session's statements between server sessions the lock is exclusive, and "
    "the line keeps its order",
    "[server][mariadb][safety][once]") {
  ServerDatabase database;
  std::vector<std::unique_ptr<Proxy>> proxies;
  const auto url = [&] {
    proxies.push_back(std::make_unique<Proxy>(database.server()));
    proxies.back()->move_statements();
    return proxies.back()->url(database.name());
  };
  LineBehind line(database, url());
  line.join(3);
  line.await_renewals(2);
  check_ended(dblock_at(url(), run_words("k", {}, {"true"})), 75);
  line.check_order();
  CHECK(std::ranges::all_of(proxies, [](const auto& proxy) { return proxy->moved() > 0; }));
}

}  // namespace
}  // namespace dblock::test
