// The wake-up of the embedded store with real files: threads of one process and processes of their own.
#include "store/sqlite/wake_up.hpp"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "store/sqlite/interrupter.hpp"
#include "support/catch.hpp"
#include "temp_directory.hpp"

namespace dblock::store::sqlite {
namespace {

using namespace std::chrono_literals;
using lease::OwnerId;
using lease::Slept;

constexpr Nanos k_ample = 20s;     // for what takes no time of its own
constexpr Nanos k_moment = 500ms;  // the best of several times, on a busy machine

struct Directory : TempDirectory {
  [[nodiscard]] std::string database() const { return file("locks.db"); }
  [[nodiscard]] std::string line() const { return database() + "-line"; }
};

OwnerId request(int number) {
  return {"request " + std::to_string(number)};
}

BootTime in(Nanos time) {
  return BootClock::now() + time;
}

// A wake-up, and the request that it shows.
struct Sleeper {
  Sleeper(const Directory& directory, int number) : wake_up(directory.database()) {
    wake_up.announce(request(number));
  }
  Slept sleep_behind(int ahead, Nanos time) {
    const WakeEvent never;
    return wake_up.sleep_behind(request(ahead), 1, in(time), never);
  }
  // Whether a sleep behind the request would last.
  bool sees(int ahead) { return sleep_behind(ahead, 10ms) == Slept::not_yet; }

  FileWakeUp wake_up;
};

// One end each of a pipe; a byte says one thing.
struct Pipe {
  UniqueFd in, out;
  Pipe() {
    std::array<int, 2> ends{};
    REQUIRE(::pipe2(ends.data(), O_CLOEXEC) == 0);
    out.reset(ends[0]);
    in.reset(ends[1]);
  }
  void say(char byte) const { REQUIRE(::write(in.get(), &byte, 1) == 1); }
  [[nodiscard]] char hear() const {
    char byte = 0;
    return ::read(out.get(), &byte, 1) == 1 ? byte : '\0';
  }
};

// A process that runs `body` and ends; killed with its owner.
class Child {
 public:
  explicit Child(const std::function<void()>& body) : pid_(::fork()) {
    REQUIRE(pid_ >= 0);
    if (pid_ != 0) return;
    body();
    ::_exit(0);
  }
  ~Child() { end(SIGKILL); }
  Child(Child&& other) noexcept : pid_(std::exchange(other.pid_, -1)) {}
  Child& operator=(Child&&) = delete;
  void freeze() const {
    REQUIRE(::kill(pid_, SIGSTOP) == 0);
    REQUIRE(::waitpid(pid_, nullptr, WUNTRACED) == pid_);
  }
  void go_on() const { ::kill(pid_, SIGCONT); }
  void end(int number) {
    if (pid_ <= 0) return;
    ::kill(pid_, number);
    ::waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }

 private:
  pid_t pid_;
};

// A request in a process of its own: sleeps behind another one, says its name, and stays until it is killed,
// or goes at once.
Child request_of_process(const Directory& directory, const Pipe& pipe, int number, int ahead, bool stay) {
  Child child([&] {
    Sleeper sleeper(directory, number);
    pipe.say('e');
    const bool came = sleeper.sleep_behind(ahead, k_ample) == Slept::to_its_end;
    pipe.say(came ? static_cast<char>('A' + number) : '!');
    if (stay) ::pause();
  });
  REQUIRE(pipe.hear() == 'e');
  return child;
}

}  // namespace

TEST_CASE("wake-up: who sleeps behind a request wakes when that leaves, and not before") {
  const Directory directory;
  Sleeper first(directory, 1);
  Sleeper second(directory, 2);
  CHECK(second.sleep_behind(1, 10ms) == Slept::not_yet);
  first.wake_up.leave();
  CHECK(second.sleep_behind(1, k_ample) == Slept::to_its_end);
  first.wake_up.announce(request(1));
  CHECK(second.sees(1));
  CHECK(first.sees(2));
}

TEST_CASE("wake-up: behind a request that is not there nobody sleeps") {
  const Directory directory;
  const Sleeper another(directory, 3);
  Sleeper sleeper(directory, 2);
  CHECK(sleeper.sleep_behind(1, k_ample) == Slept::to_its_end);
  {
    const Sleeper first(directory, 1);
    CHECK(sleeper.sees(1));
  }
  CHECK(sleeper.sleep_behind(1, k_ample) == Slept::to_its_end);
}

TEST_CASE("wake-up: nobody sleeps behind itself, or without being there") {
  const Directory directory;
  Sleeper sleeper(directory, 1);
  CHECK(sleeper.sleep_behind(1, k_ample) == Slept::not_at_all);
  const WakeEvent never;
  FileWakeUp absent(directory.database());
  CHECK(absent.sleep_behind(request(1), 0, in(k_ample), never) == Slept::not_at_all);
  sleeper.wake_up.leave();
  CHECK(sleeper.sleep_behind(2, k_ample) == Slept::not_at_all);
}

TEST_CASE("wake-up: announced again a request stays, and another one takes its place") {
  const Directory directory;
  Sleeper first(directory, 1);
  Sleeper sleeper(directory, 9);
  first.wake_up.announce(request(1));
  CHECK(sleeper.sees(1));
  first.wake_up.announce(request(2));
  CHECK(sleeper.sleep_behind(1, k_ample) == Slept::to_its_end);
  CHECK(sleeper.sees(2));
}

TEST_CASE("wake-up: requests have bytes of their own, all in one empty file that only its owner can read") {
  const Directory directory;
  std::vector<std::unique_ptr<Sleeper>> sleepers;
  std::set<off_t> bytes;
  for (int i = 0; i < 100; ++i) {
    sleepers.push_back(std::make_unique<Sleeper>(directory, i));
    CHECK(FileWakeUp::byte_of(request(i)) >= 0);
    bytes.insert(FileWakeUp::byte_of(request(i)));
  }
  CHECK(bytes.size() == 100);
  struct stat status {};
  REQUIRE(::stat(directory.line().c_str(), &status) == 0);
  CHECK(status.st_size == 0);
  CHECK((status.st_mode & 07777) == 0600);
}

// Versions of dblock that run at the same time must mean the same bytes.
TEST_CASE("wake-up: which byte a request has is fixed for ever") {
  CHECK(FileWakeUp::byte_of({"k"}) == off_t{0x2f63e64c8601fd8a});
  CHECK(FileWakeUp::byte_of({"op@web-1:4711:1795571277:0f"}) == off_t{0x37446201672f5c8});
}

TEST_CASE("wake-up: all who sleep behind one request wake with its end", "[tsan]") {
  const Directory directory;
  Sleeper first(directory, 0);
  std::atomic<int> woken = 0;
  std::vector<std::thread> threads;
  for (int i = 1; i <= 5; ++i) {
    const Pipe there;
    threads.emplace_back([&, i, says = there.in.get()] {
      Sleeper sleeper(directory, i);
      const bool sees = sleeper.sees(0);
      [[maybe_unused]] const auto n = ::write(says, "e", 1);
      if (sees && sleeper.sleep_behind(0, k_ample) == Slept::to_its_end) ++woken;
    });
    REQUIRE(there.hear() == 'e');
  }
  first.wake_up.leave();
  for (std::thread& thread : threads) thread.join();
  CHECK(woken == 5);
}

TEST_CASE("wake-up: twenty threads, each asleep behind the one before it, wake in their order", "[tsan]") {
  const Directory directory;
  Sleeper holder(directory, 0);
  std::mutex mutex;
  std::vector<int> order;
  std::vector<std::thread> threads;
  std::vector<int> expected;
  for (int i = 1; i <= 20; ++i) {
    const Pipe there;
    threads.emplace_back([&, i, says = there.in.get()] {
      Sleeper sleeper(directory, i);
      [[maybe_unused]] const auto n = ::write(says, "e", 1);
      const bool came = sleeper.sleep_behind(i - 1, k_ample) == Slept::to_its_end;
      const std::lock_guard lock(mutex);
      order.push_back(came ? i : -1);
    });
    REQUIRE(there.hear() == 'e');
    expected.push_back(i);
  }
  CHECK(holder.sees(20));
  holder.wake_up.leave();
  for (std::thread& thread : threads) thread.join();
  CHECK(order == expected);
}

TEST_CASE("wake-up: twenty processes, each asleep behind the one before it, wake in their order") {
  const Directory directory;
  const Pipe pipe;
  Sleeper holder(directory, 0);
  std::vector<Child> children;
  std::string expected;
  for (int i = 1; i <= 20; ++i) {
    // A child inherits the holder's descriptor, and with it the lock: it must not outlive the holder's.
    children.push_back(Child([&, i] {
      holder.wake_up.leave();
      Sleeper sleeper(directory, i);
      pipe.say('e');
      pipe.say(sleeper.sleep_behind(i - 1, k_ample) == Slept::to_its_end ? static_cast<char>('A' + i) : '!');
    }));
    REQUIRE(pipe.hear() == 'e');
    expected += static_cast<char>('A' + i);
  }
  holder.wake_up.leave();
  std::string order;
  while (order.size() < expected.size()) order += pipe.hear();
  CHECK(order == expected);
}

TEST_CASE("wake-up: a killed process wakes who sleeps behind it, whether it slept itself or not") {
  const Directory directory;
  const Pipe pipe;
  Child awake = request_of_process(directory, pipe, 1, 0, true);
  REQUIRE(pipe.hear() == 'B');
  Child asleep = request_of_process(directory, pipe, 2, 1, true);
  Sleeper sleeper(directory, 3);
  CHECK(sleeper.sees(1));
  CHECK(sleeper.sees(2));
  asleep.end(SIGKILL);
  CHECK(sleeper.sleep_behind(2, k_ample) == Slept::to_its_end);
  CHECK(sleeper.sees(1));
  awake.end(SIGKILL);
  CHECK(sleeper.sleep_behind(1, k_ample) == Slept::to_its_end);
}

TEST_CASE("wake-up: a frozen process is there, and goes on when it is continued") {
  const Directory directory;
  const Pipe pipe;
  Child holder = request_of_process(directory, pipe, 1, 0, true);
  REQUIRE(pipe.hear() == 'B');
  Child frozen = request_of_process(directory, pipe, 2, 1, false);
  frozen.freeze();
  Sleeper sleeper(directory, 3);
  holder.end(SIGKILL);
  CHECK(sleeper.sees(2));
  frozen.go_on();
  CHECK(pipe.hear() == 'C');
  CHECK(sleeper.sleep_behind(2, k_ample) == Slept::to_its_end);
}

// It still holds the read lock it waited for.
TEST_CASE("wake-up: a sleeper frozen in the moment of its wake-up holds nobody else up") {
  const Directory directory;
  Sleeper sleeper(directory, 2);
  const UniqueFd file(::open(directory.line().c_str(), O_RDWR | O_CLOEXEC));
  struct flock byte {};
  byte.l_type = F_RDLCK;
  byte.l_whence = SEEK_SET;
  byte.l_start = FileWakeUp::byte_of(request(1));
  byte.l_len = 1;
  REQUIRE(::fcntl(file.get(), F_OFD_SETLK, &byte) == 0);
  CHECK(sleeper.sleep_behind(1, k_ample) == Slept::to_its_end);
  byte.l_type = F_WRLCK;
  REQUIRE(::fcntl(file.get(), F_OFD_SETLK, &byte) == 0);
  CHECK(sleeper.sees(1));
}

TEST_CASE("wake-up: cancelling ends a sleep at once, and the request stays there", "[tsan]") {
  const Directory directory;
  Sleeper holder(directory, 1);
  Sleeper sleeper(directory, 2);
  Nanos best = 1h;  // of several, since the machine may be busy
  for (int i = 0; i < 10; ++i) {
    WakeEvent cancel;
    BootTime raised{};
    std::thread canceller([&] {
      std::this_thread::sleep_for(i * 1ms);  // while it gets ready to sleep, and later
      raised = BootClock::now();
      cancel.raise();
    });
    const Slept slept = sleeper.wake_up.sleep_behind(request(1), 0, in(k_ample), cancel);
    const BootTime ended = BootClock::now();
    canceller.join();
    CHECK(slept == Slept::cancelled);
    best = std::min(best, ended - raised);
  }
  CHECK(best < k_moment);
  CHECK(holder.sees(2));
  holder.wake_up.leave();
  CHECK(sleeper.sleep_behind(1, k_ample) == Slept::to_its_end);
}

TEST_CASE("wake-up: a sleep that was cancelled before it began does not block") {
  const Directory directory;
  const Sleeper holder(directory, 1);
  Sleeper sleeper(directory, 2);
  WakeEvent cancel;
  cancel.raise();
  CHECK(sleeper.wake_up.sleep_behind(request(1), 0, in(k_ample), cancel) == Slept::cancelled);
}

TEST_CASE("wake-up: a sleep ends at its time, not before", "[tsan]") {
  const Directory directory;
  const Sleeper holder(directory, 1);
  Sleeper sleeper(directory, 2);
  const WakeEvent never;
  Nanos best = 1h;
  for (int i = 0; i < 5; ++i) {
    const BootTime until = in(30ms);
    CHECK(sleeper.wake_up.sleep_behind(request(1), 0, until, never) == Slept::not_yet);
    const Nanos late = BootClock::now() - until;
    CHECK(late >= 0s);
    best = std::min(best, late);
  }
  CHECK(best < k_moment);
}

TEST_CASE("wake-up: sleeping works where the signal it needs is blocked, and leaves it so", "[tsan]") {
  const Directory directory;
  sigset_t blocked;
  sigset_t before;
  sigset_t after;
  sigset_t pending;
  sigemptyset(&blocked);
  for (int s = SIGRTMIN; s <= SIGRTMAX; ++s) sigaddset(&blocked, s);
  ::pthread_sigmask(SIG_BLOCK, &blocked, &before);
  const Sleeper holder(directory, 1);
  Sleeper sleeper(directory, 2);
  const Slept slept = sleeper.sleep_behind(1, 20ms);
  sigpending(&pending);
  ::pthread_sigmask(SIG_SETMASK, &before, &after);
  CHECK(slept == Slept::not_yet);
  for (int s = SIGRTMIN; s <= SIGRTMAX; ++s) {
    CHECK(sigismember(&after, s) == 1);
    CHECK(sigismember(&pending, s) == 0);
  }
}

TEST_CASE("wake-up: an interruption that comes before the call it is for is not lost", "[tsan]") {
  WakeEvent cancel;
  cancel.raise();
  Interrupter interrupter(in(k_ample), cancel);
  for (const BootTime soon = in(10ms); BootClock::now() < soon;) {
  }
  CHECK(::poll(nullptr, 0, 10'000) == -1);
  interrupter.over();
  CHECK(::poll(nullptr, 0, 10) == 0);
}

TEST_CASE("wake-up: there is no file before a request is there") {
  const Directory directory;
  FileWakeUp wake_up(directory.database());
  CHECK_FALSE(std::filesystem::exists(directory.line()));
  wake_up.announce(request(1));
  CHECK(std::filesystem::exists(directory.line()));
}

TEST_CASE("wake-up: with what cannot be its file nobody sleeps, until there can be one") {
  const Directory directory;
  const auto works = [](const std::string& database) {
    FileWakeUp wake_up(database);
    wake_up.announce(request(2));
    const WakeEvent never;
    return wake_up.sleep_behind(request(1), 0, in(k_ample), never) == Slept::to_its_end;
  };
  CHECK_FALSE(works(directory.database() + "/missing/locks.db"));
  std::filesystem::create_directory(directory.line());
  Sleeper early(directory, 1);
  CHECK_FALSE(works(directory.database()));
  std::filesystem::remove(directory.line());
  std::filesystem::create_symlink("elsewhere", directory.line());
  CHECK_FALSE(works(directory.database()));
  CHECK_FALSE(std::filesystem::exists(directory.line()));
  std::filesystem::remove(directory.line());
  REQUIRE(::mkfifo(directory.line().c_str(), 0600) == 0);
  CHECK_FALSE(works(directory.database()));
  std::filesystem::remove(directory.line());
  CHECK(works(directory.database()));
  // Where the file could not be made at first, the next sleep makes it.
  CHECK(early.sleep_behind(3, k_ample) == Slept::to_its_end);
  Sleeper late(directory, 2);
  CHECK(late.sees(1));
}

}  // namespace dblock::store::sqlite
